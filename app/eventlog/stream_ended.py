"""An ended stream as one value, made by the run or, for an orphaned stream, by `recovery`.

Settlements, rows, log lines, spans and the admin's history are projections of it by field name.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..events import StreamEnd, TokenCounts
from .stream_info import StreamInfo


class Charge(NamedTuple):
    """The cost of one attempt."""

    counts: TokenCounts | None
    """The tokens with their cost; None if none were used."""
    nano_usd: int | None
    """None: the price is unknown."""
    price_version: str = ""
    uncertain: bool = False
    """Whether the answer was cut and the counts are estimates, which the provider may exceed."""


class ProviderReply(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a provider, with the ids that its support needs."""

    http_status: int | None
    """None without a reply."""
    request_id: str
    """The provider's id of the call; "" if it sent none."""
    provider_message: str
    """The first words of its error, on one line and without secrets."""
    duration_s: float
    """From the request to the end of the attempt."""
    code: str | None = None
    """The error code of the attempt, if it failed."""
    cause: str = ""
    """Why its connection failed, without secrets; "" for other failures."""
    reconnects: int = 0
    """How often its answer was read on after a broken connection."""
    resent: bool = False
    """Whether the request was sent again, after a free connection turned out to be closed."""


class StreamEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that has ended. Fields with defaults are unknown for an orphaned one."""

    info: StreamInfo
    """Without the request."""
    end: StreamEnd
    """The stored `stream.end`: the usage of the answer, the cost of all attempts."""
    charges: Sequence[Charge] = ()
    """One per attempt; the last one is for the answer."""
    nano_usd: int | None = None
    """Their sum; None if a price is unknown."""
    target: str | None
    """`upstream/model` that answered or was tried last; None if no target was tried."""
    answered_model: str | None = None
    """As the upstream names it."""
    attempts: int = 1
    started_at: float
    ended_at: float
    """In unix seconds."""
    duration_s: float
    """By the producer's monotonic clock; by wall clocks if it is orphaned."""
    first_event_s: float | None = None
    longest_gap_s: float | None = None
    """Between two pieces of the answer."""
    readers: int = 0
    resumes: int = 0
    """Readers in the producer's process, and how many of them came with a cursor."""
    events: int
    """How many the log has, with the end."""
    reply: ProviderReply | None = None
    """The reply to the last attempt."""
    lost: bool = False
    """Whether another process or a restart ended it instead of its producer."""
    content: bytes = b""
    """Request and answer as JSON (`generation.content`), if the route records them."""
    traced_content: bytes = b""
    """The same, if the settings expose it to observers."""

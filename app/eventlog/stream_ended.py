"""An ended stream, as one value: the run makes it, or recovery for a producer that is lost.

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
    """With their cost, and whether they are estimated; None where nothing was used."""
    nano_usd: int | None
    """None: the price is unknown."""
    price_version: str = ""


class ProviderReply(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a provider, with what its support asks for."""

    http_status: int | None
    """None where no reply came."""
    request_id: str
    """The provider's id of the call; "" if it sent none."""
    said: str
    """The first words of its error, on one line and without secrets."""
    duration_s: float
    """From the request to the end of the attempt."""
    code: str | None = None
    """Of the attempt's own failure, where that has one."""


class StreamEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that has ended. Of one whose producer is lost, less is known."""

    info: StreamInfo
    """Without the request."""
    end: StreamEnd
    """As the log has it: with the usage of the answer and the cost of all attempts."""
    charges: Sequence[Charge] = ()
    """One for each attempt; the last one is that of the answer."""
    nano_usd: int | None = None
    """Their sum; None where a price is unknown."""
    target: str | None
    """`upstream/model` that answered, or was tried last; None where there was none."""
    answered_model: str | None = None
    """As the upstream names it."""
    attempts: int = 1
    started_at: float
    ended_at: float
    """In unix seconds."""
    duration_s: float
    """By the monotonic clock of its producer, where that lives."""
    first_event_s: float | None = None
    longest_gap_s: float | None = None
    """Between two pieces of the answer."""
    readers: int = 0
    resumes: int = 0
    """Readers so far, and those among them with a cursor, in the producer's process."""
    events: int
    """In the log, with the end."""
    reply: ProviderReply | None = None
    """Of the last attempt."""
    lost: bool = False
    """Whether another process or a restart ended it, in place of its producer."""
    content: bytes = b""
    """Request and answer as JSON (`generation.content`), where the route records them."""
    traced_content: bytes = b""
    """The same, where the settings let observers have it."""

"""The values that a log returns."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..events import Event
from ..ledger.accounts import Grant


class LogSize(NamedTuple):
    """The memory that a log takes."""

    streams: int
    bytes: int
    """Estimated."""


class LogState(msgspec.Struct, frozen=True):
    """The length of a log, its times and its owner."""

    last: int
    """The number of the last event; 0 for an empty log."""
    ended: bool
    """Whether the last event is the `stream.end`."""
    started_at: float = 0.0
    """When the log was created, in unix seconds."""
    ended_at: float | None = None
    """When the `stream.end` was added, in unix seconds."""
    kept: int | None = None
    """The last stored event of the producer if the stream has an `Ending`, else None."""
    settled: bool = True
    """False while the producer may still send events that the storage has lost."""
    owner: str = ""
    """The owner of the stream; "" if authentication is off."""


class Look(msgspec.Struct, frozen=True):
    """The state and some events of a stream, from one round trip."""

    stream: str
    state: LogState
    events: Sequence[Event] = ()
    """Some of those after the cursor, as `read` returns them. Empty does not mean that there are
    none: events in memory are left to `read`."""


class Claim(NamedTuple):
    """The stream that an idempotency key is bound to."""

    stream: str
    digest: str
    """The digest of the request body that started the stream."""
    grant: Grant | None = None
    """The reservation, if this call opened the stream."""


def may_see(owner: str | None, whose: str | None) -> bool:
    """Return whether `owner` may see a stream of `whose`. None is unknown, or sees all."""
    return owner is None or whose is None or owner == whose

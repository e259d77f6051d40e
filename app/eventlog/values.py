"""The values that a log returns."""

from collections.abc import Sequence
from typing import NamedTuple

from ..events import Event
from ..ledger.accounts import Grant


class LogSize(NamedTuple):
    """What a log keeps in memory."""

    streams: int
    bytes: int
    """Estimated."""


class LogState(NamedTuple):
    last: int
    """The number of the last event; 0 for an empty log."""
    ended: bool
    """Whether the last event is the `stream.end`."""
    started_at: float = 0.0
    """When the log was created, in unix seconds."""
    ended_at: float | None = None
    """When the `stream.end` was added, in unix seconds."""
    kept: int | None = None
    """The producer's last event, where the stream has an `Ending`: more may have been seen."""
    settled: bool = True
    """Whether there are no later events that are known elsewhere and on their way here."""
    owner: str = ""
    """Whose the stream is; "" without identity."""


class Look(NamedTuple):
    """What a log has of a stream, found in one look."""

    stream: str
    state: LogState
    events: Sequence[Event] = ()
    """Some of those after the cursor, as `read` gives them; none say nothing of whether there
    are any: those that are in memory are read there."""


class Claim(NamedTuple):
    """What an idempotency key stands for."""

    stream: str
    digest: str
    """Of the body that the stream was asked for with."""
    grant: Grant | None = None
    """What was reserved for the stream that this call has opened; None of any other."""


def may_see(owner: str | None, whose: str | None) -> bool:
    """Return whether an owner may be told of a stream, as far as it is known whose that is.

    None may be told of any.
    """
    return owner is None or whose is None or owner == whose

"""The takeover of a dead process's stream: another process goes on with it, instead of ending it.

A stream whose `StreamInfo` has a `takeover` may be taken over. Its producer shows no event that the
storage lacks, so that whoever takes it over has all events that readers have seen, and goes on with
the next number.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ..errors import ServiceError
from ..events import Event
from .stream_info import StreamInfo


class Orphan(NamedTuple):
    """A running stream of a dead process."""

    info: StreamInfo
    events: Sequence[Event]
    """All its events, at least one, without an end."""
    started_at: float
    """In unix seconds."""
    granted: int | None = None
    """The longest answer that is reserved, in tokens; None without a reservation."""


Heir = Callable[[Orphan], Callable[[], None] | None]
"""Returns how this process goes on with a stream; None if it cannot, and the stream is ended.

Raises a `RelayError` if it cannot now: the stream is left to others, or to a later try.

The returned function is called once the log has given the stream to this process, so that `append`
takes its events; never, if another process has it, or it has been stopped."""


class Takeover(Protocol):
    """The part of a log whose streams outlive their process."""

    def give_to(self, heir: Heir) -> None:
        """Offer orphaned streams to an heir, called in the event loop, before they are ended.

        To be called before `EventLog.open`.
        """

    async def hand_over(self, stream: str) -> None:
        """Give a stream that this process no longer produces to whoever takes it over.

        Its readers here are released, and its events that are not stored are lost. One that has
        ended, or is about to, stays.
        """


class StreamTaken(ServiceError):
    """Another process produces the stream: this one must not go on, nor stop the provider."""

    def __init__(self) -> None:
        super().__init__("producer_lost", "another process goes on with the stream")

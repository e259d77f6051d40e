"""A stage of an answer's way."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ...events import Event, Notice, StreamEnd


class Following(Protocol):
    """What follows a stage: another one, or the log."""

    @property
    def push(self) -> Callable[[Sequence[Event]], bool]:
        """See `EventSink.push`."""

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink.take`."""

    async def tell(self, notice: Notice) -> None:
        """Take a notice of the relay, unless the answer has begun or ended."""


class Stage:
    """Passes everything on; a stage replaces what it changes.

    A stage that changes no pushes uses the next one's `push`, which saves a call a token.
    """

    push: Callable[[Sequence[Event]], bool]

    def __init__(self, following: Following) -> None:
        self._next = following
        self.push = following.push

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        return await self._next.take(events)

    async def tell(self, notice: Notice) -> None:
        """Pass on a notice for readers; see `Following`."""
        await self._next.tell(notice)


def refuse(events: Sequence[Event]) -> bool:
    """Push nothing: `take` follows."""
    return False


def end_of(events: Sequence[Event]) -> StreamEnd | None:
    """Return the end of the stream, if it is the last of these events."""
    return events[-1] if events and type(events[-1]) is StreamEnd else None

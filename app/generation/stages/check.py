"""The check of an answer by hooks, which may hold a part of it back."""

from collections.abc import Sequence

from ...events import Event, Notice
from ...hooks.window import Window
from .stage import Following, Stage


class CheckAnswer(Stage):
    """Passes on what hooks leave of the events."""

    def __init__(self, window: Window, following: Following) -> None:
        super().__init__(following)
        self.push = window.hold
        self._window = window

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        checked = await self._window.feed(events)
        return not checked or await self._next.take(checked)

    async def tell(self, notice: Notice) -> None:
        """Pass on what hooks leave of a notice, which may quote a provider."""
        for checked in await self._window.check(notice):
            assert isinstance(checked, Notice)  # noqa: S101  (for mypy)
            await self._next.tell(checked)

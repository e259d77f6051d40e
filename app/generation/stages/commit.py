"""The commitment to a target: nothing is visible before the first piece of an answer."""

from collections.abc import Sequence

from ...events import Event
from ..attempts import Attempts
from ..reading import is_visible
from .stage import Following, Stage, end_of


class Commit(Stage):
    """Takes nothing before the first visible piece, or the end of an empty answer.

    Until then the run pushes nothing, so that `push` is the next one's.
    """

    def __init__(self, attempts: Attempts, following: Following) -> None:
        super().__init__(following)
        self._attempts = attempts

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        if not events:
            return True
        attempts, end = self._attempts, end_of(events)
        if not attempts.begun:
            whole = end is not None and end.status == "completed"
            if whole or any(map(is_visible, events)):
                events = [*attempts.answer(), *events]
            elif end is None:
                return False
        if end is not None and attempts.begun:
            attempts.note_end(end)
        return await self._next.take(events)

"""The record of what a provider has sent, beside a log that may have something else."""

from collections.abc import Sequence

from ...events import Event
from .stage import Following, Stage


class Original(Stage):
    """Records the provider's events, by which it bills, before stages that may change them.

    Also those that a check stops, or that a cancelled stage has not passed on.
    """

    def __init__(self, original: list[Event], following: Following) -> None:
        super().__init__(following)
        self.push = self._push
        self._original = original

    def _push(self, events: Sequence[Event]) -> bool:
        if not self._next.push(events):
            return False
        self._original += events
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        self._original += events
        return await self._next.take(events)

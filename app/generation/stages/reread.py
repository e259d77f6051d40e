"""The second reading of an answer that its provider stores: only what the log lacks goes on."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ...errors import UpstreamError
from ...eventlog.recovery import LOST, closing_events
from ...events import (
    Event,
    Notice,
    ProviderData,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    ToolCallDelta,
)
from ..attempts import Attempts
from .stage import Following, Stage, end_of, refuse

_TEXTS: Final[Mapping[type, str]] = {
    TextDelta: "text",
    ReasoningDelta: "text",
    RefusalDelta: "text",
    ToolCallDelta: "arguments",
}
_OURS = (StreamStart, StreamTarget, Notice)
"""Events of the relay."""


class Reread(Stage):
    """Drops the events of an answer that the log has, and passes on the others.

    The provider may send the texts in other pieces than before. If it sends others, the stream
    ends as failed: what readers have is no part of that answer.
    """

    def __init__(self, logged: Sequence[Event], attempts: Attempts, following: Following) -> None:
        """Prepare to compare with the `logged` events of the stream."""
        super().__init__(following)
        self.push = refuse
        self._logged = logged
        self._attempts = attempts
        self._due: deque[Event] = deque(one for one in logged if not isinstance(one, _OURS))
        """The events of the log that are still to come."""

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        if self.push is not refuse:
            return await self._next.take(events)
        end = end_of(events)
        try:
            new = self._find_new(events)
        except _Differs:
            if end is None or end.status == "completed":
                raise
            return await self._close(end)  # it had not come so far: these close its blocks
        if self._due:
            return end is None or await self._close(end)
        self.push = self._next.push
        self._attempts.go_on()
        return await self._next.take(new)

    async def _close(self, end: StreamEnd) -> bool:
        """End an answer that ended before it came to what the log has."""
        if end.status == "completed":
            raise _Differs
        error = LOST if end.error is None else end.error
        *blocks, _ = closing_events(self._logged, status=end.status, error=error)
        return await self._next.take([*blocks, end])

    def _find_new(self, events: Sequence[Event]) -> list[Event]:
        """Return the events that the log lacks."""
        new: list[Event] = []
        for event in events:
            if not self._due:
                new.append(event)
            elif not isinstance(event, Notice | StreamEnd):
                new += self._match(event)
        return new

    def _match(self, event: Event) -> list[Event]:
        """Compare an event with the next ones of the log; return what is new of it."""
        field = _TEXTS.get(type(event))
        while self._due:
            known = self._due.popleft()
            if type(known) is not type(event):
                raise _Differs
            if field is None:
                if event != known and not isinstance(event, ProviderData):
                    raise _Differs
                return []
            text, before = getattr(event, field), getattr(known, field)
            if _other(event, field) != _other(known, field):
                raise _Differs
            if before.startswith(text):
                if rest := before[len(text) :]:
                    self._due.appendleft(msgspec.structs.replace(known, **{field: rest}))
                return []
            if not text.startswith(before):
                raise _Differs
            event = msgspec.structs.replace(event, **{field: text[len(before) :]})
        return [event]


def _other(event: Event, field: str) -> Any:
    """Return an event without its text."""
    return msgspec.structs.replace(event, **{field: ""})


class _Differs(UpstreamError):
    def __init__(self) -> None:
        super().__init__(
            "upstream_invalid_response",
            "the relay stopped before the answer was complete, and its provider has stored another",
        )

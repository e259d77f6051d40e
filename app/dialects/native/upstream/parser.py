"""Parser of recorded events: returns them unchanged, and ends a truncated recording."""

from collections.abc import Collection, Mapping

import msgspec

from ....errors import RelayError, UpstreamError
from ....events import (
    Event,
    FinishReason,
    Notice,
    Status,
    StreamEnd,
    StreamTarget,
    TokenCounts,
    decode,
)
from ....framing.sse import Message
from ...reading.open_blocks import OpenBlocks
from ...reading.provider_errors import Redact


class Parser:
    """One replay of events, whose order the cassette's reader has checked."""

    counted_early = False
    finished = False
    reasoning_field = None

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        self.upstream_id: str | None = None
        self.model: str | None = None
        self.usage: TokenCounts | None = None
        self.ended = False
        self.refused = False
        self.provider_message = ""
        self.redact: Redact = str
        self.output_limit: int | None = None
        self._upstream = upstream
        self._pending: list[Event] = []
        """The target, and notices after it, until the answer begins."""
        self._blocks = OpenBlocks()

    def know_calls(self, ids: Collection[str]) -> None:
        """Do nothing: a replay keeps its recorded ids."""

    def know_names(self, names: Mapping[str, str]) -> None:
        """Do nothing: a replay keeps its recorded names."""

    def keep_provider_data(self) -> None:
        """Do nothing: a replay keeps what was recorded."""

    def feed(self, *messages: Message) -> list[Event]:
        """Return the next events."""
        return [event for message in messages for event in self._event(message)]

    def _event(self, message: Message) -> list[Event]:
        if self.ended:
            return []
        try:
            event = decode(message.data)
        except msgspec.MsgspecError:
            return self._fail("upstream_invalid_response", "sent a message that is not an event")
        if isinstance(event, StreamEnd):
            return self._end(event)
        self._note(event)
        if isinstance(event, StreamTarget) or (self._pending and isinstance(event, Notice)):
            self._pending.append(event)
            return []
        pending, self._pending = self._pending, []
        return [*pending, event]

    def close(self, tail: Message | None, *, malformed: bool = False) -> list[Event]:
        """End the recording, whose last event may lack its line end."""
        events = [] if tail is None else self.feed(tail)
        if self.ended:
            return events
        return events + self._fail("upstream_truncated", "ended its answer before it was complete")

    def cut(self, error: RelayError) -> list[Event]:
        """Handle the loss of the connection."""
        return self.stop("failed", error)

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now, and close the open blocks."""
        if self.ended:
            return []
        finish: FinishReason = "cancelled" if status == "cancelled" else "error"
        info = error.info() if error is not None else None
        return self._end(StreamEnd(status, self._blocks.finish_reason or finish, error=info))

    def _fail(self, code: str, what: str) -> list[Event]:
        return self.stop("failed", UpstreamError(code, f"upstream {self._upstream!r} {what}"))

    def _end(self, end: StreamEnd) -> list[Event]:
        self.ended = True
        self.usage = end.usage or self.usage
        self.refused = end.status == "failed" and end.usage is None
        # Drop the held `stream.target` of a failure, so that it becomes an HTTP status.
        pending = self._pending if end.status == "completed" else []
        return [*pending, *self._blocks.ends(), end]

    def _note(self, event: Event) -> None:
        self._blocks.note(event)
        self.usage = self._blocks.usage
        if isinstance(event, StreamTarget):
            self.upstream_id, self.model = event.upstream_id, event.model

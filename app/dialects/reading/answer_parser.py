"""What the parsers of all dialects do alike: take messages, and end once, honestly.

A subclass says what a message means (`_message`), and which ends are whole: formats with an
end marker call `_complete` when it comes, the others override `finished` or `_is_whole`.
Whatever ends otherwise is a truncation. What follows the end is ignored.
"""

from collections.abc import Callable, Collection
from typing import Any

from ...bounds import has_more_values
from ...errors import RelayError, UpstreamError
from ...events import Event, Status, TokenCounts
from ...framing.sse import Message
from .bounds import LARGE, MAX_VALUES, Excess
from .errors import parse_error, parse_finish_error
from .event_builder import EventBuilder
from .json_values import decode


class AnswerParser:
    """One answer: `feed` it messages, then `close`, `cut` or `stop` it.

    `upstream` is the name that errors give the provider, `choices` how many answers were
    asked for. Every call returns the events that it completes. Once `ended` is true,
    `stream.end` was returned and nothing else comes. An answer that goes beyond one of
    `bounds` fails, and what came of it is told.
    """

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        self.upstream_id: str | None = None
        self.model: str | None = None
        self._upstream = upstream
        self._choices = choices
        self.counted_early = False
        """Whether `usage` was told before the finish, and may not be of the whole answer."""
        self.refused = False
        """Whether the provider itself has said that it failed."""
        self.said = ""
        self._builder = EventBuilder()
        self._fed = False
        """Whether there was any message but the one that the end of input left."""

    @property
    def ended(self) -> bool:
        return self._builder.ended

    @property
    def usage(self) -> TokenCounts | None:
        """What the provider has counted so far."""
        return self._builder.counts

    @property
    def finished(self) -> bool:
        """Whether only an end marker can be missing, so that a cut loses nothing.

        Never in a format whose end marker always comes: without it the answer was cut.
        """
        return False

    @property
    def reasoning_field(self) -> str | None:
        """The field in which the provider sends reasoning, if hosts of the format differ in it."""
        return None

    def know_calls(self, ids: Collection[str]) -> None:
        """Take the ids of the conversation's calls, which no call of this answer may have.

        Some hosts count their calls from 0 in every answer. An agent that finds the result of
        an earlier call under the id of a new one does not see that it has one.
        """
        self._builder.known_calls = ids

    def feed(self, message: Message) -> list[Event]:
        """Take the next message."""
        self._fed = True
        if not self._builder.ended:
            try:
                if len(message.data) > LARGE:
                    self._take_large(message, self._message)
                else:
                    self._message(message)
            except Excess as excess:
                self._fail("upstream_invalid_response", str(excess))
        return self._builder.take()

    def _take_large(self, message: Message, take: Callable[[Message], None]) -> None:
        """Take a message that could hold up the event loop, or be of too many objects."""
        if has_more_values(message.data.encode(errors="surrogatepass"), MAX_VALUES):
            raise Excess(MAX_VALUES, "values", where="one event")
        with self._builder.few_events():
            take(message)

    def close(self, tail: Message | None, *, strange: bool = False) -> list[Event]:
        """Take the end of input, and `tail`, the message that it left unterminated.

        A tail that is complete lost only its terminator; any other was cut. A body without any
        message was not cut if it is `strange`: it is the answer of something else.
        """
        if tail is not None and not self._builder.ended:
            try:
                if len(tail.data) > LARGE:
                    self._take_large(tail, self._tail)
                else:
                    self._tail(tail)
            except Excess as excess:
                self._fail("upstream_invalid_response", str(excess))
        if not self._builder.ended:
            if self._is_whole():
                self._complete()
            elif strange and tail is None and not self._fed:
                told = "answered with nothing that is an event or JSON; check its base URL"
                self._fail("upstream_invalid_response", told)
            else:
                self._fail("upstream_truncated", "ended its answer before it was complete")
        return self._builder.take()

    def cut(self, error: RelayError) -> list[Event]:
        """Take the loss of the connection: too late to matter if `finished`, else a failure."""
        if not self.finished:
            return self.stop("failed", error)
        if not self._builder.ended:
            self._note(error)
            self._complete()
        return self._builder.take()

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now, whatever was seen: cancelled, interrupted, or failed with `error`."""
        if not self._builder.ended:
            self._builder.end(status, error.info() if error else None)
        return self._builder.take()

    def _message(self, message: Message) -> None:
        """Take a message; the answer has not ended."""
        raise NotImplementedError

    def _tail(self, tail: Message) -> None:
        """Take the message that the end of input left: by default if it is a JSON object."""
        try:
            whole = isinstance(decode(tail.data), dict)
        except ValueError:
            return
        if whole:
            self._message(tail)

    def _is_whole(self) -> bool:
        """Whether the end of input, without an end marker, is the end of the answer."""
        return self.finished

    def _complete(self) -> None:
        """End at an end marker, or where the rules take the end of input for one."""
        if (raw := self._builder.finish_error) is not None:
            self.refused = True
            self._end_with(parse_finish_error(raw, upstream=self._upstream))
        elif self._builder.empty:
            self._fail("upstream_unavailable", "ended its answer before generating anything")
        else:
            self._builder.end("completed")

    def _refuse(self, document: Any) -> None:
        """Fail with an error that the upstream sent: the object around it, or itself."""
        self.refused = True
        error = parse_error(document, upstream=self._upstream)
        self.said = error.said
        self._end_with(error)

    def _garbage(self) -> None:
        """Take a message that is no JSON object: it fails an answer that is not finished."""
        what = f"upstream {self._upstream!r} sent a message that is no JSON object"
        error = UpstreamError("upstream_invalid_response", what)
        if self.finished:
            self._note(error)
        else:
            self._end_with(error)

    def _note(self, error: RelayError) -> None:
        """Emit a notice of a failure that came too late to matter."""
        self._builder.notice(error.code, f"after the whole answer: {error.message}")

    def _fail(self, code: str, what: str) -> None:
        self._end_with(UpstreamError(code, f"upstream {self._upstream!r} {what}"))

    def _end_with(self, error: UpstreamError) -> None:
        self._builder.end("failed", error.info())

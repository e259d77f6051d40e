"""Base class of the parsers of all dialects: it handles messages, and ends the answer once.

A subclass implements `_message`, and decides which ends are complete: formats with an end
marker call `_complete` when it arrives, the others override `finished` or `_is_whole`. Any
other end is a truncation. Messages after the end are ignored.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...bounds import has_more_values
from ...errors import RelayError, UpstreamError
from ...events import Event, Status, TokenCounts
from ...framing.sse import Message
from .answer_bounds import LARGE, MAX_VALUES, Excess
from .event_builder import EventBuilder
from .json_values import decode_or
from .provider_errors import Redact, parse_error, parse_finish_error


class AnswerParser:
    """One answer: `feed` it messages, then `close`, `cut` or `stop` it.

    `upstream` is the provider's name in errors, `choices` the number of answers requested.
    Every call returns the events that it completes. Once `ended` is true, `stream.end` was
    returned and no event follows. An answer that exceeds one of `answer_bounds` fails, after the
    events before that.
    """

    def __init__(self, *, upstream: str, choices: int = 1) -> None:
        self.upstream_id: str | None = None
        self.model: str | None = None
        self._upstream = upstream
        self._choices = choices
        self.counted_early = False
        """Whether `usage` came before the finish, and may not cover the whole answer."""
        self.refused = False
        """Whether the provider itself reported the failure."""
        self.provider_message = ""
        self.output_limit: int | None = None
        """The most tokens of each answer, if known."""
        self.redact: Redact = str
        """Replaces the upstream's secrets in its errors."""
        self._builder = EventBuilder()
        self._fed = False
        """Whether there was any message before the end of input."""

    @property
    def ended(self) -> bool:
        return self._builder.ended

    @property
    def usage(self) -> TokenCounts | None:
        """The provider's counts so far."""
        return self._builder.counts

    @property
    def finished(self) -> bool:
        """Whether only an end marker can be missing, so that a lost connection loses nothing.

        Always false for formats that always send an end marker: without it the answer is truncated.
        """
        return False

    @property
    def reasoning_field(self) -> str | None:
        """The field in which the provider sends reasoning, where hosts of the format differ."""
        return None

    def know_calls(self, ids: Collection[str]) -> None:
        """Set the ids of the conversation's calls, which no call of this answer may reuse.

        Some hosts number their calls from 0 in every answer; an agent then finds the result of
        an earlier call under the id of a new one, and does not run it.
        """
        self._builder.known_calls = ids

    def know_names(self, names: Mapping[str, str]) -> None:
        """Set the names of tools to restore, by those that were sent instead."""
        self._builder.tool_names = names

    def keep_provider_data(self) -> None:
        """Emit `ProviderData` too, for a client of the same dialect."""
        self._builder.keeps_provider_data = True

    def feed(self, *messages: Message) -> list[Event]:
        """Parse the next messages: those of one read, which is faster than one by one."""
        builder, take = self._builder, self._message
        for message in messages:
            self._fed = True
            if builder.ended:
                break
            try:
                if len(message.data) > LARGE:
                    self._take_large(message, take)
                else:
                    take(message)
            except Excess as excess:
                self._fail("upstream_invalid_response", str(excess))
        return builder.take()

    def _take_large(self, message: Message, take: Callable[[Message], None]) -> None:
        """Parse a message that could block the event loop, or decode to too many objects."""
        if has_more_values(message.data.encode(errors="surrogatepass"), MAX_VALUES):
            raise Excess(MAX_VALUES, "values", where="one event")
        with self._builder.few_events():
            take(message)

    def close(self, tail: Message | None, *, malformed: bool = False) -> list[Event]:
        """End the input; `tail` is its unterminated last message, if any.

        A complete tail lacks only its terminator; any other is truncated. A `malformed` body
        without any message is not truncated: it does not come from an API of this format.
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
            elif malformed and tail is None and not self._fed:
                what = "answered with neither events nor JSON; check its base URL"
                self._fail("upstream_invalid_response", what)
            else:
                self._fail("upstream_truncated", "ended its answer early")
        return self._builder.take()

    def cut(self, error: RelayError) -> list[Event]:
        """Handle the loss of the connection: a notice if `finished`, else a failure."""
        if not self.finished:
            return self.stop("failed", error)
        if not self._builder.ended:
            self._note(error)
            self._complete()
        return self._builder.take()

    def stop(self, status: Status, error: RelayError | None = None) -> list[Event]:
        """End now: cancelled, interrupted, or failed with `error`."""
        if not self._builder.ended:
            self._builder.end(status, error.info() if error else None)
        return self._builder.take()

    def _message(self, message: Message) -> None:
        """Parse a message; never called after the end of the answer."""
        raise NotImplementedError

    def _tail(self, tail: Message) -> None:
        """Parse an unterminated message: by default only a JSON object."""
        if isinstance(decode_or(tail.data, None), dict):
            self._message(tail)

    def _is_whole(self) -> bool:
        """Whether the end of input without an end marker completes the answer."""
        return self.finished

    def _complete(self) -> None:
        """End at an end marker, or at an end of input that counts as one."""
        if (raw := self._builder.finish_error) is not None:
            self.refused = True
            self._end_with(parse_finish_error(raw, upstream=self._upstream))
        elif self._builder.empty:
            self._fail("upstream_unavailable", "ended its answer before generating anything")
        elif broken := self._builder.explain_calls(self._is_at_limit):
            self._fail("upstream_tool_failed", broken)
        else:
            self._builder.end("completed")

    def _is_at_limit(self) -> bool:
        """Whether the provider counts as many tokens as the answer may have."""
        counts, limit = self._builder.counts, self.output_limit
        written = counts.output_tokens if counts is not None else None
        return bool(limit and written and written >= limit * self._choices)

    def _refuse(self, document: Any) -> None:
        """Fail with an error that the upstream sent, with or without the object around it."""
        self.refused = True
        error = parse_error(document, upstream=self._upstream, redact=self.redact)
        self.provider_message = error.provider_message
        self._end_with(error)

    def _refuse_body(self, document: object, expected: str) -> None:
        """Fail if the whole body is one JSON document, such as {"detail": "..."}."""
        if self._fed or self._builder.ended or not isinstance(document, dict | list):
            return
        if isinstance(document, dict) and document.keys().isdisjoint(("message", "detail", "msg")):
            self._fail("upstream_invalid_response", f"answered with JSON that is not {expected}")
        else:
            self._refuse(document)

    def _garbage(self) -> None:
        """Handle a message that is not a JSON object: it fails an unfinished answer."""
        what = f"upstream {self._upstream!r} sent a message that is not a JSON object"
        error = UpstreamError("upstream_invalid_response", what)
        if self.finished:
            self._note(error)
        else:
            self._end_with(error)

    def _note(self, error: RelayError) -> None:
        """Emit a notice of a failure after the complete answer."""
        self._builder.notice(error.code, f"after the complete answer: {error.message}")

    def _fail(self, code: str, what: str) -> None:
        self._end_with(UpstreamError(code, f"upstream {self._upstream!r} {what}"))

    def _end_with(self, error: UpstreamError) -> None:
        self._builder.end("failed", error.info())

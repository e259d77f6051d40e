"""Builder of well-formed event sequences, for the parsers of all dialects.

A parser reports what it reads, in order; `EventBuilder` adds the structure that the invariants
of `events` require. It numbers and closes blocks, separates parallel tool calls, buffers finish
reasons and usage until the end, and joins split surrogate pairs. It is independent of formats.

Text, reasoning and refusal alternate in a choice: a delta of one kind closes the open block of
another. Tool calls stay open, since their fragments may interleave. `end` closes every block
and choice, so that nothing follows a `choice.end`, whatever an upstream sends after its finish
reason.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, Literal, SupportsIndex

import msgspec

from ...events import (
    ChoiceEnd,
    ContentFilter,
    ErrorInfo,
    Event,
    FinishReason,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderData,
    ProviderTool,
    Raw,
    Source,
    Status,
    StreamEnd,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from ..answering.ids import make_call_id
from .answer_bounds import (
    ENTRY,
    MAX_BLOCKS,
    MAX_BUFFERED,
    MAX_CALLS,
    MAX_EVENTS,
    MAX_ID,
    MAX_SOURCES,
    MAX_SOURCES_SIZE,
    MAX_WORD,
    Excess,
)
from .choice_state import CUTTING, REASONING, REFUSAL, TEXT, Block, ChoiceState, Kind
from .finish_reasons import parse_finish
from .json_values import clean, encode, size
from .split_text import well_formed
from .tool_calls import CallState, ChoiceCalls

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class _FewEvents(list[Event]):
    """The events of one message, at most `MAX_EVENTS`."""

    def append(self, event: Event) -> None:
        self.insert(len(self), event)

    def insert(self, at: SupportsIndex, event: Event) -> None:
        if len(self) >= MAX_EVENTS:
            raise Excess(MAX_EVENTS, "pieces of an answer", where="one event")
        super().insert(at, event)


class EventBuilder:
    """The events of one upstream answer, except `stream.start` and `stream.target`.

    Every method that takes a piece of the answer raises `Excess` beyond a bound.
    """

    def __init__(self) -> None:
        self.ended = False
        self.known_calls: Collection[str] = ()
        """The ids of calls in earlier answers, which this answer may not reuse."""
        self.tool_names: Mapping[str, str] = _NO_NAMES
        """The names of tools to restore, by those that the provider knows."""
        self.keeps_provider_data = False
        self._events: list[Event] = []
        self._choices: dict[int, ChoiceState] = {}
        self._blocks = 0
        self._calls = 0
        self._reserved = 0
        self.counts: TokenCounts | None = None
        """The last `usage`."""
        self._sources: set[tuple[object, ...]] | None = None
        self._sources_size = 0
        self._filters: dict[tuple[str, int], dict[str, Any]] = {}

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return events

    @contextmanager
    def few_events(self) -> Iterator[None]:
        """Bound the events added in this context; other messages add too few to check each."""
        before, self._events = self._events, _FewEvents()
        try:
            yield
        finally:
            self._events = [*before, *self._events]

    @property
    def seen(self) -> int:
        """The number of choices so far."""
        return len(self._choices)

    @property
    def finished(self) -> bool:
        """Whether every choice so far has a finish reason, and none is torn."""
        for state in self._choices.values():  # called after every read
            if not state.finish or state.torn:
                return False
        return bool(self._choices)

    @property
    def empty(self) -> bool:
        """Whether nothing was generated and no choice finished."""
        return not self._blocks and not any(c.finish for c in self._choices.values())

    @property
    def finish_error(self) -> str | None:
        """The provider's finish reason of a choice that ended in an error."""
        errors = (c.raw for c in self._choices.values() if c.finish == "error")
        return next(errors, None)

    def has_content(self, choice: int) -> bool:
        """Whether the choice has text, reasoning, a refusal or a tool call."""
        state = self._choice(choice)
        return bool(state.open or state.texts or (state.calls and state.calls.all))

    def is_torn(self, choice: int) -> bool:
        """Whether a tool call of the choice has incomplete JSON as its arguments."""
        calls = self._choice(choice).calls
        return calls is not None and calls.torn

    def explain_calls(self, is_at_limit: Callable[[], bool]) -> str | None:
        """Return what is wrong with the calls of an ended answer, unless its output limit explains
        it.

        A call that the limit cut ends as `length`; a choice with a broken call has not finished.
        """
        wrong = None
        for state in self._choices.values():
            if state.calls is None and state.finish != "tool_calls":
                continue
            if (what := state.find_broken_call()) is None:
                continue
            cut = state.torn and is_at_limit()
            state.finish, state.raw = "length" if cut else None, None
            wrong = wrong or (None if cut else what)
        return wrong

    def reserve(self, size: int) -> None:
        """Count bytes that are buffered and not in an event yet, until `release`."""
        self._reserved += size
        if self._reserved > MAX_BUFFERED:
            raise Excess(MAX_BUFFERED, "bytes to buffer")

    def release(self, size: int) -> None:
        """Stop counting bytes that are no longer buffered."""
        self._reserved -= size

    def choice(self, choice: int) -> None:
        """Register a choice: the answer is not finished before it is."""
        self._choice(choice)

    def text(self, choice: int, text: str) -> None:
        self._add_deltas(choice, TEXT, (text,))

    def texts(self, choice: int, texts: Iterable[str]) -> None:
        """Add pieces of text: faster than one by one."""
        self._add_deltas(choice, TEXT, texts)

    def reasoning(self, choice: int, text: str) -> None:
        self._add_deltas(choice, REASONING, (text,))

    def refusal(self, choice: int, text: str) -> None:
        self._add_deltas(choice, REFUSAL, (text,))

    def end_text(self, choice: int) -> None:
        """End the open text, reasoning or refusal block."""
        state = self._choice(choice)
        block, state.open = state.open, None
        if block is None:
            return
        if half := block.halves.close():
            self._events.append(block.kind.delta(block.number, half, choice))
        self._events.append(block.kind.end(block.number, choice, **block.opaque))

    def sign(
        self, choice: int, kind: Literal["signature", "encrypted"], data: str, *, format: str
    ) -> None:
        """Add a reasoning signature, for the end of the open reasoning block.

        Without such a block, or if it has one of this kind, it becomes an `opaque`. `format`
        names the dialect, "" if unknown.
        """
        if not data:
            return
        state = self._choice(choice)
        block = state.open
        if block is None or block.kind is not REASONING or kind in block.opaque:
            self.opaque(choice, format or kind, data, block=state.last_reasoning)
        else:
            block.opaque[kind] = well_formed(data)
            if format:
                block.opaque["format"] = well_formed(format)

    def name_reasoning(self, choice: int, format: str) -> None:
        """Set the format of the open reasoning block, unless a signature has set it."""
        state = self._choices.get(choice)
        block = state.open if state is not None else None
        if format and block is not None and block.kind is REASONING:
            block.opaque.setdefault("format", well_formed(format[:MAX_WORD]))

    def text_block(self, choice: int) -> int | None:
        """Return the number of the open text block."""
        state = self._choices.get(choice)
        block = state.open if state is not None else None
        return block.number if block is not None and block.kind is TEXT else None

    def open_block(self, choice: int) -> int | None:
        """Return the number of the open text, reasoning or refusal block."""
        state = self._choices.get(choice)
        return state.open.number if state is not None and state.open else None

    def opaque(self, choice: int, format: str, data: str, *, block: int | None = None) -> None:
        if data:
            self._events.append(
                Opaque(well_formed(format), well_formed(data), block=block, choice=choice)
            )

    @property
    def position(self) -> int:
        """The number of events since the last `take`."""
        return len(self._events)

    def provider_data(
        self,
        format: str,
        fields: dict[str, Any],
        *,
        block: int | None = None,
        choice: int = 0,
        at: int | None = None,
    ) -> int:
        """Add what only the provider's dialect has, if the client has that dialect.

        With a `block` it is a piece of the answer, else it is about the answer. `at` is an earlier
        `position` to insert it at. Return its size in bytes.
        """
        if not self.keeps_provider_data:
            return 0
        raw = Raw(format, encode(fields).decode())
        self._wait_for_answer(len(raw.data))
        event = ProviderData(raw, block=block, choice=choice)
        self._events.insert(self.position if at is None else at, event)
        return len(raw.data)

    def provider_block(self, choice: int) -> int:
        """Begin a block that only the provider's dialect has; return its number."""
        self.end_text(choice)
        return self._number()

    def tool_call(
        self,
        choice: int,
        *,
        index: int | None,
        id: str,
        name: str,
        arguments: object,
        free: bool = False,
        raw: Raw | None = None,
    ) -> int | None:
        """Add a fragment of a tool call; return its block, None until its name is known.

        `arguments` is a piece of JSON text, or of any text if `free`, or the whole as an
        object.
        """
        state = self._choice(choice)
        calls = state.calls = state.calls or ChoiceCalls()
        piece = _json_text(arguments)
        known = len(calls.all)
        call = calls.find(index=index, id=id, name=name, piece=piece)
        if len(calls.all) > known:
            self._calls += 1
            if self._calls > MAX_CALLS:
                raise Excess(MAX_CALLS, "tool calls")
        if call.ended:
            return call.block
        if len(id) > MAX_ID:
            raise Excess(MAX_ID, "characters of a tool call's id")
        call.id = call.id or well_formed(id)
        call.name = call.name or well_formed(name)
        call.free = call.free or free
        piece = call.halves.feed(piece)
        if piece:
            added = call.append(piece)
            self.reserve(len(piece) - len(added))
            piece = added
        if call.block is None:
            if not call.name:
                self._await_name(call, len(id) + len(piece))
                return None
            self._begin_call(choice, state, call, raw)
            piece = call.arguments
        assert call.block is not None  # noqa: S101  (for mypy)
        if piece and not call.sent:
            piece = "" if call.may_be_null(piece) else call.arguments
            call.sent = bool(piece)
        if piece:
            self._events.append(ToolCallDelta(call.block, piece, choice))
        calls.note(call, call.block)
        return call.block

    def _await_name(self, call: CallState, size: int) -> None:
        call.buffered += ENTRY + size
        self.reserve(ENTRY + size)

    def _begin_call(
        self, choice: int, state: ChoiceState, call: CallState, raw: Raw | None
    ) -> None:
        self.end_text(choice)
        self.release(call.buffered)
        call.block = block = self._number()
        call.id = call.id or make_call_id(block)
        # Ids must be unique: clients and providers identify a call by its id.
        calls = state.calls = state.calls or ChoiceCalls()
        known = call.id in calls.ids or call.id in self.known_calls
        shown = make_call_id(block) if known else call.id
        calls.ids.add(call.id)
        calls.by_block[block] = call
        name = self.tool_names.get(call.name, call.name)
        self._events.append(ToolCallStart(block, shown, name=name, choice=choice, raw=raw))

    def end_tool_call(self, choice: int, block: int | None) -> None:
        """End the tool call of a block, for formats that mark the end of the arguments."""
        if (
            block is not None
            and (calls := self._choice(choice).calls) is not None
            and (call := calls.by_block.get(block)) is not None
        ):
            self._end_call(choice, call, whole=True)

    def provider_tool(
        self,
        choice: int,
        name: str,
        *,
        block: int | None = None,
        raw: Raw | None = None,
        **values: Any,
    ) -> int:
        """Emit a provider-executed tool, its `input` and `output`; return its block."""
        if block is None:
            self.end_text(choice)
            block = self._number()
        known = {key: clean(value) for key, value in values.items()}
        name = well_formed(name[:MAX_WORD])
        self._events.append(ProviderTool(block, name, choice=choice, raw=raw, **known))
        return block

    def media(
        self,
        choice: int,
        media_type: str,
        *,
        url: str | None = None,
        data: str | None = None,
        block: int | None = None,
    ) -> int:
        """Add an image, or a piece of a sound; return the block, which the pieces share."""
        if block is None:
            block = self._number()
        self._events.append(Media(block, media_type, url=url, data=data, choice=choice))
        return block

    def source(
        self,
        choice: int,
        *,
        url: str | None = None,
        document: str | None = None,
        title: str | None = None,
        cited_text: str | None = None,
        span: tuple[int | None, int | None] = (None, None),
        block: int | None = None,
        raw: Raw | None = None,
    ) -> bool:
        """Emit a source once; return whether it is.

        `span` counts characters of `block`, or without it of the choice's text.
        """
        provider_fields = None if raw is None else raw.data
        key = (choice, url, document, cited_text, block, *span, provider_fields)
        if self._sources is None:
            self._sources = set()
        if not (url or document) or key in self._sources:
            return False
        texts = (url, document, title, cited_text, provider_fields)
        self._sources_size += sum(len(text) for text in texts if text)
        if len(self._sources) >= 2 * MAX_SOURCES:
            raise Excess(MAX_SOURCES, "sources")
        if self._sources_size > MAX_SOURCES_SIZE:
            raise Excess(MAX_SOURCES_SIZE, "characters of sources")
        self._sources.update((key, (choice, url, document, cited_text, *(None,) * 4)))
        if block is None:
            block = self.text_block(choice)
            if block is None or self._choices[choice].texts > 1:
                span = (None, None)  # offsets into the whole answer match no block
        start, end = span
        source = Source(
            url=url,
            document=document,
            title=title,
            cited_text=cited_text,
            start=start,
            end=end,
            block=block,
            choice=choice,
            raw=raw,
        )
        self._events.append(source)
        return True

    def logprobs(self, choice: int, content: list[Any], *, reasoning: bool = False) -> None:
        """Add the log probabilities of the tokens of the last delta.

        With `reasoning` they belong to a reasoning block, and are dropped if another is open.
        """
        state = self._choice(choice)
        block = state.open
        if not content or (reasoning and block is not None and block.kind is not REASONING):
            return
        if block is not None:
            number: int | None = block.number
        else:
            last = state.calls.all[-1] if state.calls and state.calls.all else None
            number = last.block if last is not None and not last.ended else None
        if number is None:
            buffered = size(content)
            self.reserve(buffered)
            state.buffered += buffered
            state.logprobs.extend(clean(content))
        else:
            self._events.append(LogProbs(number, clean(content), choice))

    def content_filter(
        self,
        choice: int,
        scope: Literal["prompt", "completion"],
        categories: dict[str, Any],
    ) -> None:
        """Add a filter's verdict; emit it if it changed, or if it blocks."""
        filtered = any(
            isinstance(c, dict) and c.get("filtered") is True for c in categories.values()
        )
        if not categories or (categories == self._filters.get((scope, choice)) and not filtered):
            return
        self._filters[scope, choice] = categories
        self._wait_for_answer(size(categories))
        self._events.append(
            ContentFilter(scope, clean(categories), filtered=filtered, choice=choice)
        )

    def notice(self, code: str, message: str) -> None:
        self._wait_for_answer(len(message))
        self._events.append(Notice(code, well_formed(message)))

    def finish(
        self,
        choice: int,
        raw: str | None,
        *,
        reason: FinishReason | None = None,
        stop_sequence: str | None = None,
        more: Raw | None = None,
    ) -> None:
        """Set the finish reason, mapped by the table unless `reason` is given; the first one wins.

        Hosts send `stop` with every chunk, and a limit or a filter with the last one. `more` has
        the other members of the provider's end of message.
        """
        state = self._choice(choice)
        reason = reason or parse_finish(raw or "")
        if state.finish is None or (state.finish == "stop" and reason in CUTTING):
            state.finish = reason
            state.raw = raw and well_formed(raw[:MAX_WORD])
            state.stop_sequence = stop_sequence and well_formed(stop_sequence[:MAX_WORD])
            state.more = more

    def reopen(self, choice: int) -> bool:
        """Remove the finish reason, since the answer continues; return whether there was one."""
        state = self._choice(choice)
        had, state.finish = state.finish, None
        return had is not None

    def usage(self, counts: TokenCounts) -> None:
        """Set the counts so far; the last non-empty ones apply, but a 0 replaces no count."""
        known = self.counts
        if known and 0 in (counts.input_tokens, counts.output_tokens, counts.total_tokens):
            names = [n for n in TokenCounts.__struct_fields__ if not getattr(counts, n)]
            kept = {name: getattr(known, name) for name in names}
            counts = msgspec.structs.replace(counts, **kept)
        if counts != TokenCounts():
            self.counts = counts

    def end(self, status: Status, error: ErrorInfo | None = None) -> None:
        """Close all open blocks and end the stream. Only `take` may be called afterwards."""
        completed = status == "completed"
        reasons = {}
        for index, state in sorted(self._choices.items()):
            reasons[index] = state.reason(completed=completed)
            self._end_choice(index, state, reason=reasons[index])
        if self.counts is not None:
            self._events.append(Usage(*msgspec.structs.astuple(self.counts)))
        fallback: FinishReason = "unknown" if completed else "error"
        if status == "cancelled":
            fallback = "cancelled"
        first = next(iter(reasons.values()), None)
        self._events.append(StreamEnd(status, first or fallback, usage=self.counts, error=error))
        self.ended = True

    def _choice(self, index: int) -> ChoiceState:
        state = self._choices.get(index)
        if state is None:
            state = self._choices[index] = ChoiceState()
        return state

    def _wait_for_answer(self, size: int) -> None:
        """Count an event that the relay buffers until the answer begins."""
        if not self._blocks:
            self.reserve(size + 5 * ENTRY)

    def _number(self) -> int:
        if self._blocks >= MAX_BLOCKS:
            raise Excess(MAX_BLOCKS, "blocks")
        self._blocks += 1
        return self._blocks - 1

    def _add_deltas(self, choice: int, kind: Kind, texts: Iterable[str]) -> None:
        state = self._choices.get(choice)
        block = state.open if state is not None else None
        add, delta = self._events.append, kind.delta
        for text in texts:
            if not text:
                continue
            if block is None or block.kind is not kind:
                block = self._open(choice, kind)
            if not text.isascii() or block.halves.pending:
                text = block.halves.feed(text)
            if text:
                add(delta(block.number, text, choice))

    def _open(self, choice: int, kind: Kind) -> Block:
        self.end_text(choice)
        state = self._choice(choice)
        block = state.open = Block(self._number(), kind)
        self._events.append(kind.start(block.number, choice))
        if kind is TEXT:
            state.texts += 1
        elif kind is REASONING:
            state.last_reasoning = block.number
        if state.logprobs:
            self._events.append(LogProbs(block.number, state.logprobs, choice))
            state.logprobs = []
            self.release(state.buffered)
            state.buffered = 0
        return block

    def _end_choice(self, index: int, state: ChoiceState, *, reason: FinishReason | None) -> None:
        self.end_text(index)
        for call in state.calls.all if state.calls else ():
            if call.block is None:
                what = "the upstream sent a tool call without a name"
                self._events.append(Notice("tool_call_dropped", what))
            else:
                self._end_call(index, call, whole=reason is not None and not state.cuts(call))
        if reason is not None:
            end = ChoiceEnd(
                reason, state.raw, stop_sequence=state.stop_sequence, choice=index, raw=state.more
            )
            self._events.append(end)

    def _end_call(self, choice: int, call: CallState, *, whole: bool) -> None:
        if call.ended or call.block is None:
            return
        call.ended = True
        if half := call.halves.close():
            call.pieces.append(half)
            if call.sent:
                self._events.append(ToolCallDelta(call.block, half, choice))
        arguments = call.arguments
        nothing = not arguments or (whole and arguments.strip() == "null" and not call.free)
        if not (call.sent or nothing):
            self._events.append(ToolCallDelta(call.block, arguments, choice))
        elif nothing:
            # A call truncated before its arguments must differ from one without arguments.
            arguments = "{}" if whole else ""
        incomplete = not whole or call.torn
        self._events.append(ToolCallEnd(call.block, arguments, choice, incomplete=incomplete))


def _json_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    # With a space after "," and ":", as models write it themselves.
    return msgspec.json.format(encode(arguments), indent=0).decode()

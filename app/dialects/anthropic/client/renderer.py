"""Renderer of Anthropic's stream events.

Blocks never interleave: the deltas of a later block are buffered until the one before it has
ended. An incomplete answer ends with `error`, and without `message_stop`.
`ProviderData` adds members and blocks; the end and its reason come only from other events.
"""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import msgspec
from msgspec import UNSET

from ....errors import RelayError, UpstreamError
from ....events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderData,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from ...answering.ids import pack_id, public_token, show_call
from ...answering.stream_end import error_of_end, render_cost
from ...client_format import DELTAS, Frame
from ...reading.json_values import mapping, read_raw, string
from ...reasoning_signatures import (
    CLAUDE_COMPACTION,
    CLAUDE_REDACTED,
    CLAUDE_THINKING,
    PackedSignature,
    pack,
)
from ...writing.conversation import parse_object
from .. import EVENTS, NAME
from .anthropic_errors import render_error

Payload = dict[str, Any]

_STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
}
_OF_MESSAGES: Final = dict.fromkeys(("container", "context_management", "diagnostics"))
_OF_STOPS: Final = dict.fromkeys(("container", "stop_details"))
_OF_DELTAS: Final = dict.fromkeys(
    (
        "input_tokens",
        "output_tokens",
        "output_tokens_details",
        "server_tool_use",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "fallback_credit",
        "iterations",
    )
)
_OF_USAGE: Final = _OF_DELTAS | dict.fromkeys(
    ("cache_creation", "inference_geo", "service_tier", "speed")
)
"""The members that Anthropic's types require; null if unknown."""
_CALLER: Final = {"type": "direct"}
"""The caller of a tool: the model itself."""

_OF_COMPACTIONS: Final = ("content", "encrypted_content")
"""The members of a compaction that come in its delta."""
_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
"""The names of events that are passed on."""

_PASSED_REASONS: Final = ("model_context_window_exceeded", "compaction")
"""Anthropic's stop reasons that are more specific than the relay's, and passed on."""


class Renderer:
    """The frames of one stream."""

    def __init__(self, stream: str) -> None:
        self._payloads = Payloads(stream)

    def feed(self, event: Event) -> list[Frame]:
        """Return the frames for the next event."""
        return [
            Frame(msgspec.json.encode(payload), payload["type"])
            for payload in self._payloads.feed(event)
        ]

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`."""
        return self._payloads.pass_over(event)


@dataclass(slots=True)
class _Block:
    """An open block; `waiting` has the unsent payloads."""

    index: int
    kind: str
    waiting: list[Payload] = field(default_factory=list)
    ended: bool = False
    incomplete: bool = False

    def add(self, delta: Payload, more: Payload | None = None) -> None:
        piece = {"type": "content_block_delta", "index": self.index, "delta": delta}
        self.waiting.append(_add(piece, more) if more else piece)


class Payloads:
    """Renders Anthropic's events as objects, for choice 0: the format has one."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._start_event: StreamStart | None = None
        """Buffered until the event after `stream.target`, which has the input's token counts."""
        self._counts = TokenCounts()
        self._same = False
        """Whether the provider speaks this dialect."""
        self._current_block: _Block | None = None
        """The open provider block: other dialects have no such block."""
        self._provider_blocks: dict[int, _Block] = {}
        """All open ones, by number."""
        self._begun: set[int] = set()
        """The numbers of all provider blocks so far."""
        self._members: Payload = {}
        """Other members of the next block's start event."""
        self._between_blocks: list[Payload] = []
        """Events of other types between blocks."""
        self._last: dict[str, Payload] = {}
        """Other members of the last events, by their type."""
        self._queue: deque[_Block] = deque()
        self._blocks: dict[int, _Block] = {}
        """The unended blocks, by the relay's numbers."""
        self._count = 0
        self._calls: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._broken: str | None = None
        """The first tool whose arguments are not a JSON object."""
        self._refused = False
        self._choice: ChoiceEnd | None = None

    def feed(self, event: Event) -> Iterator[Payload]:
        """Yield the payloads of the next event."""
        if getattr(event, "choice", 0):
            return
        start = self._start_event
        if start is not None and not isinstance(event, Notice):
            if isinstance(event, StreamTarget):
                self._counts = event.usage or self._counts
                return
            self._start_event = None
            yield self._begin(start, event)
        if isinstance(event, StreamEnd):
            failed = self.failed(event)
            if self._current_block is not None:
                self._current_block.ended = failed is None
            yield from self._flush(whole=failed is None)
            yield from self._end(event, failed)
            return
        self._take(event)
        yield from self._flush()

    def pass_over(self, event: Event) -> int | None:
        """Return 1 for a delta of the first open block, which changes nothing; None for others."""
        if self._start_event or not isinstance(event, DELTAS) or event.choice or not self._queue:
            return None
        first = self._queue[0]
        return 1 if self._blocks[event.block] is first and not first.ended else None

    def failed(self, end: StreamEnd) -> RelayError | None:
        """Return the error of an unusable answer; None for a complete one.

        Clients replace arguments that are not a JSON object by an empty one, and run the call.
        """
        if self._broken is not None and self._reason(end) == "tool_use":
            what = f"the arguments of the model's call of {self._broken!r} are not a JSON object"
            return error_of_end(end) or UpstreamError("upstream_tool_failed", what)
        return error_of_end(end)

    def _take(self, event: Event) -> None:
        match event:
            case TextDelta() | RefusalDelta():
                self._delta(event.block, {"type": "text_delta", "text": event.text})
            case ReasoningDelta():
                self._delta(event.block, {"type": "thinking_delta", "thinking": event.text})
            case ToolCallDelta():
                piece = {"type": "input_json_delta", "partial_json": event.arguments}
                self._delta(event.block, piece)
            case TextStart():
                self._start(event.block, {"type": "text", "text": ""})
            case RefusalStart():
                self._refused = True
                self._start(event.block, {"type": "text", "text": ""})
            case ReasoningStart():
                self._start(event.block, {"type": "thinking", "thinking": "", "signature": ""})
            case ToolCallStart():
                call = self._calls[event.block] = pack_id(show_call(self._stream, event.id))
                self._names[event.block] = event.name
                more = {"caller": _CALLER} | (read_raw(event.raw, NAME) or {})
                use = {"type": "tool_use", "id": call, "name": event.name, "input": {}}
                self._start(event.block, more | use)
            case ToolCallEnd():
                self._blocks[event.block].incomplete = event.incomplete
                self._stop(event.block)
                if self._broken is None and parse_object(event.arguments or "{}") is None:
                    self._broken = self._names[event.block]
            case TextEnd() | RefusalEnd():
                self._stop(event.block)
            case ReasoningEnd():
                # Clients require a signature, even an empty one.
                signed = {"type": "signature_delta", "signature": _sign(event)}
                self._delta(event.block, signed)
                self._stop(event.block)
            case Opaque():
                self._opaque(event)
            case ProviderTool():
                self._provider_tool(event)
            case Source():
                self._source(event)
            case StreamStart():
                self._start_event = event
            case ChoiceEnd():
                self._choice = event
            case StreamTarget():
                self._same = False  # the next target may speak another dialect
            case StreamEnd():
                pass  # `feed` has rendered it
            case ProviderData():
                self._provider_data(event)
            case LogProbs() | Media() | ContentFilter() | Usage() | Notice():
                pass  # not in this format
            case _:
                assert_never(event)

    def _begin(self, start: StreamStart, event: Event) -> Payload:
        """Return the first payload; `event` may have the provider's."""
        fields = read_raw(event.raw, NAME) if isinstance(event, ProviderData) else None
        if fields is None or fields.get("type") != "message_start":
            fields = {}
        message = mapping(fields.get("message"))
        usage = render_usage(self._counts)
        if (written := usage.get("cache_creation_input_tokens")) is not None:
            hour = min(self._counts.cache_write_1h_tokens or 0, written)
            usage["cache_creation"] = {
                "ephemeral_5m_input_tokens": written - hour,
                "ephemeral_1h_input_tokens": hour,
            }
        base: Payload = {
            "id": f"msg_{public_token(self._stream, 'anthropic')}",
            "type": "message",
            "role": "assistant",
            "model": start.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            **_OF_MESSAGES,
            # Provisional: `message_delta` has the final counts.
            "usage": _complete(_OF_USAGE | usage, mapping(message.get("usage"))),
        }
        more = {k: v for k, v in message.items() if k not in base or k in _OF_MESSAGES}
        return _add({"type": "message_start", "message": base | more}, fields)

    def _end(self, end: StreamEnd, failed: RelayError | None) -> Iterator[Payload]:
        if failed is not None:
            yield render_error(failed, kind=string(mapping(self._last.get("error")).get("type")))
            return
        stop = self._choice and self._choice.stop_sequence
        more = read_raw(self._choice.raw if self._choice else None, NAME) or {}
        last = self._last.get("message_delta", {})
        more = more | mapping(last.get("delta"))
        delta = _OF_STOPS | more | {"stop_reason": self._reason(end), "stop_sequence": stop}
        usage = _OF_DELTAS | render_usage(end.usage or TokenCounts())
        usage = _complete(usage, mapping(last.get("usage"))) | render_cost(end)
        ended = {"type": "message_delta", "delta": delta, "usage": usage}
        yield _add(ended, {"context_management": None} | last)
        yield _add({"type": "message_stop"}, self._last.get("message_stop", {}))

    def _reason(self, end: StreamEnd) -> str:
        choice = self._choice
        raw = None if choice is None else choice.finish_reason_raw
        if raw is not None and (self._same or raw in _PASSED_REASONS):
            return raw
        if choice is not None and choice.stop_sequence and end.finish_reason == "stop":
            return "stop_sequence"
        if self._refused and end.finish_reason == "stop":
            return "refusal"
        unknown = "tool_use" if self._calls else "end_turn"
        return _STOP_REASONS.get(end.finish_reason, unknown)

    def _start(self, number: int | None, content: Payload) -> _Block:
        block, self._current_block = self._current_block, None
        if block is None or block.kind != content["type"]:
            if block is not None:
                block.ended = True
            block = self._open(content)
        if number is not None:
            self._blocks[number] = block
        return block

    def _open(self, content: Payload) -> _Block:
        block = _Block(self._count, content["type"])
        self._count += 1
        start = {"type": "content_block_start", "index": block.index, "content_block": content}
        members, self._members = self._members, {}
        if (more := mapping(members.get("content_block"))).get("type") == block.kind:
            start = _add(start | {"content_block": _add(content, more)}, members)
        block.waiting.append(start)
        self._queue.append(block)
        return block

    def _delta(self, number: int, delta: Payload) -> None:
        self._blocks[number].add(delta)

    def _stop(self, number: int) -> None:
        self._blocks.pop(number).ended = True

    def _whole(self, content: Payload) -> _Block:
        """Add a block that is complete in its start event."""
        block = self._start(None, content)
        block.ended = True
        return block

    def _flush(self, *, whole: bool = False) -> Iterator[Payload]:
        """Yield the payloads of the first open block, and of the next ones once it has ended.

        The last block is not stopped before another one begins or the answer completes: clients
        run a tool call that is stopped. One that was cut never is, and no block may follow it.
        """
        while self._queue:
            block = self._queue[0]
            yield from block.waiting
            block.waiting = []
            if block.incomplete or not block.ended or (len(self._queue) == 1 and not whole):
                return
            yield {"type": "content_block_stop", "index": block.index}
            self._queue.popleft()
        yield from self._between_blocks
        self._between_blocks = []

    def _opaque(self, event: Opaque) -> None:
        """Render an opaque value: Anthropic's own unchanged, those of others packed."""
        block = parse_object(event.data) if event.format == CLAUDE_COMPACTION else None
        if event.format == CLAUDE_REDACTED:
            self._whole({"type": "redacted_thinking", "data": event.data})
        elif block is not None and string(block.get("type")):
            delta = {name: block[name] for name in _OF_COMPACTIONS if name in block}
            compaction = self._whole(block | dict.fromkeys(delta))
            if delta:
                compaction.add({"type": "compaction_delta"} | delta)
        elif event.format == CLAUDE_THINKING:
            thinking = self._whole({"type": "thinking", "thinking": "", "signature": ""})
            thinking.add({"type": "signature_delta", "signature": event.data})
        else:
            call = None if event.block is None else self._calls.get(event.block)
            packed = pack(PackedSignature(event.format, data=event.data, call=call))
            self._whole({"type": "redacted_thinking", "data": packed})

    def _provider_tool(self, event: ProviderTool) -> None:
        """Render a tool that Anthropic executed; other providers' tools have no block here."""
        block = read_raw(event.raw, NAME) or {}
        kind, output = string(block.get("type")), event.output
        if kind.endswith("_tool_use") and event.block not in self._begun:
            use = self._whole({**block, "input": {}})
            # Invalid JSON is a string here, which clients refuse.
            if written := mapping(event.input):
                piece = msgspec.json.encode(written).decode()
                use.add({"type": "input_json_delta", "partial_json": piece})
        elif kind.endswith("_tool_result") and output is not UNSET:
            failed = block.get("is_error") is True
            self._whole({**block, "content": mapping(output).get("content") if failed else output})

    def _provider_data(self, event: ProviderData) -> None:
        """Render what only this dialect has."""
        fields = read_raw(event.raw, NAME)
        if fields is None:
            return
        self._same = True
        number = -1 if event.block is None else event.block
        provider_block = self._provider_blocks.get(number)
        block = provider_block or self._blocks.get(number)
        match string(fields.get("type")):
            case "content_block_start" if event.block is None:
                self._members = fields
            case "content_block_start":
                content = mapping(fields.get("content_block"))
                if string(content.get("type")):
                    begun = self._start(None, content)
                    self._current_block = self._provider_blocks[number] = begun
                    self._begun.add(number)
            case "content_block_delta" if block is not None:
                delta = mapping(fields.get("delta"))
                if string(delta.get("type")):
                    block.add(delta, fields)
            case "content_block_stop" if provider_block is not None:
                if self._current_block is provider_block:
                    self._current_block = None
                provider_block.ended = True
                del self._provider_blocks[number]
            case "message_delta" | "message_stop" as kind:
                self._last[kind] = fields
            case "error":
                self._last["error"] = mapping(fields.get("error"))
            case kind if kind not in EVENTS and _NAME.fullmatch(kind):
                (self._queue[-1].waiting if self._queue else self._between_blocks).append(fields)

    def _source(self, event: Source) -> None:
        """Render Anthropic's citations, and those of web pages; the format has no others."""
        if event.block not in self._blocks:
            return
        citation = read_raw(event.raw, NAME)
        if citation is None and event.url is None:
            return
        citation = citation or {
            "type": "web_search_result_location",
            "url": event.url,
            "title": event.title,
            "cited_text": event.cited_text or "",
            "encrypted_index": "",
        }
        self._delta(event.block, {"type": "citations_delta", "citation": citation})


def _add(payload: Payload, fields: Payload) -> Payload:
    """Add the members that the payload has not."""
    return payload | {k: v for k, v in fields.items() if k not in payload}


def _complete(usage: Payload, given: Payload) -> Payload:
    """Return a usage with the provider's own members."""
    return usage | {k: v for k, v in given.items() if v is not None}


def _sign(event: ReasoningEnd) -> str:
    """Return Anthropic's signature, or another provider's packed, so that clients return it."""
    if event.signature and event.format == CLAUDE_THINKING and not event.encrypted:
        return event.signature
    return pack(PackedSignature(event.format, event.signature, event.encrypted))


def render_usage(counts: TokenCounts) -> Payload:
    """Return Anthropic's counts, whose input excludes cache reads and writes.

    Clients require the first two: they are 0 if unknown.
    """
    cached, written = counts.cached_input_tokens, counts.cache_write_tokens
    fresh = (counts.input_tokens or 0) - (cached or 0) - (written or 0)
    if fresh < 0:
        # More cached than input [azure-openai/grok-cached-gt-prompt]: clients sum them.
        fresh, cached, written = counts.input_tokens or 0, None, None
    usage: Payload = {
        "input_tokens": fresh,
        "output_tokens": counts.output_tokens or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
    }
    if counts.reasoning_tokens is not None:
        usage["output_tokens_details"] = {"thinking_tokens": counts.reasoning_tokens}
    return {name: value for name, value in usage.items() if value is not None}

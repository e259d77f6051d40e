"""Conversion of events to Chat Completions deltas, for streams and complete responses.

A stream sends each delta in a chunk; a complete response is their sum. Events without a
counterpart in the format are dropped: provider-executed tools, content filter results other
than OpenAI's moderation, notices.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, assert_never

import msgspec

from ....events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    FinishReason,
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
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from ...answering.custom_tools import decode_input
from ...answering.ids import public_token, show_call
from ...answering.moderation import Moderation
from ...answering.pieces import Pieces
from ...answering.stream_end import render_cost
from ...answering.token_logprobs import render_logprobs
from ...reading.json_values import decode, read_raw
from ...reasoning_signatures import GOOGLE_SIGNATURE, OPENAI_CUSTOM_CALL
from ..member_records import FORMAT, Members, merge
from ..reasoning_details import render_encrypted_detail, render_text_detail
from .provider_members import ProviderMembers
from .unknown_fields import CUSTOM

OWN_AUDIO: Final = re.compile(r"audio_.+_[0-9]+")
"""The relay's ids of sounds; OpenAI's have one part after `audio_`."""

EXTRA: Final = "seseragi"
"""The key in a call's `extra_content` for signatures of providers other than Google."""

_SIGNATURES: Final = (GOOGLE_SIGNATURE, "gemini.thought_signature")

Finish = Literal["stop", "length", "tool_calls", "content_filter"]
FINISH: Final[dict[FinishReason, Finish]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "pause": "length",
    "error": "stop",
    "cancelled": "stop",
    "unknown": "stop",
}
"""`pause` maps to "length": both can be continued."""


SILENT: Final = frozenset((TextEnd, RefusalEnd, Usage, Notice))
"""Events without a counterpart in the format."""

BlockEvent = ToolCallStart | ToolCallDelta | ToolCallEnd | Opaque


class Delta(NamedTuple):
    """The part of a chunk that belongs to one choice."""

    choice: int
    delta: dict[str, Any]
    finish_reason: Finish | None = None
    logprobs: dict[str, Any] | None = None
    members: Members | None = None
    """The provider's own members of the choice, and of its delta."""
    delta_members: Members | None = None
    text: str = ""
    """The text in the holes of the delta's members."""


class ChoiceState(msgspec.Struct):
    length: int = 0
    """Characters of text so far."""
    calls: int = 0
    finish: FinishReason | None = None
    finish_members: Members | None = None
    annotations: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []


class DeltaBuilder:
    """Converts the events of one stream; holds the fields that all its chunks share."""

    def __init__(self, stream: str) -> None:
        self.created = 0
        self.model = ""
        self.labels: dict[str, str] = {}
        self.moderation = Moderation()
        self.members = ProviderMembers()
        self._stream = stream
        self._token = public_token(stream, "openai_chat")
        self.choices: dict[int, ChoiceState] = {}
        self._calls: dict[int, tuple[int, bool]] = {}
        """By a call's block: its index, and whether it has any arguments yet."""
        self._starts: dict[int, int] = {}
        """By a text's block: its offset in the content."""
        self._thoughts: dict[int, Pieces] = {}
        self._logprobs_names: dict[int, str] = {}
        """By a non-content block: the key of its list of log probabilities."""
        self._custom_tools: set[str] | tuple[()] = ()
        """The names of custom tools, whose input is text."""
        self._custom: set[int] | tuple[()] = ()
        """The blocks of calls of custom tools."""
        self._texts: set[int] = set()
        """Those whose arguments are the text itself, and no JSON with it."""

    @property
    def id(self) -> str:
        return f"chatcmpl-{self._token}"

    def feed(self, event: Event) -> Iterable[Delta]:
        """Return the deltas for an event; each is to be rendered before the next one is taken."""
        if self.members.plain and type(event) is not ProviderData:
            return self._feed(event)
        return self._with_members(event)

    def pass_over(self, event: Event) -> int | None:
        """Take a delta that is one delta of the format, and no more; return None for others."""
        if not self.members.plain:
            return None
        match event:
            case TextDelta():
                self.choices[event.choice].length += len(event.text)
            case ReasoningDelta():
                self._thoughts[event.block].append(event.text)
            case ToolCallDelta() if event.block not in self._custom:
                self._calls[event.block] = (self._calls[event.block][0], True)
            case _:
                return None
        return 1

    def _with_members(self, event: Event) -> Iterable[Delta]:
        """Yield the deltas for an event with the provider's own members."""
        text = event.text if isinstance(event, (TextDelta, ReasoningDelta)) else ""
        for delta in self._feed(event):
            if "role" in delta.delta:
                yield delta
                continue
            members, of_delta = self.members.take(delta.choice, text=bool(text))
            if members and delta.members and not members.keys().isdisjoint(delta.members):
                yield Delta(delta.choice, {}, members=members)
                members = {}
            yield delta._replace(
                members=merge(members, delta.members or {}), delta_members=of_delta, text=text
            )

    def _feed_members(self, event: ProviderData) -> Iterable[Delta]:
        """Take the provider's own members; yield a delta without content if they cannot wait."""
        found = read_raw(event.raw, FORMAT)
        if found is None:
            return
        if not self.members.plain and self.members.conflicts(found, event.choice):
            yield from self._begin(event.choice, text=False)
            yield Delta(event.choice, {})
        self.members.feed(found, event.choice)
        if "now" in found:
            yield from self._begin(event.choice, text=False)
            yield Delta(event.choice, {})

    def _feed(self, event: Event) -> Iterable[Delta]:
        match event:
            case TextDelta():
                self.choices[event.choice].length += len(event.text)
                return (Delta(event.choice, {"content": event.text}),)
            case ReasoningDelta():
                self._thoughts[event.block].append(event.text)
                return (Delta(event.choice, dict.fromkeys(self.members.reasoning, event.text)),)
            case RefusalDelta():
                return (Delta(event.choice, {"refusal": event.text}),)
            case ToolCallDelta():
                index, _ = self._calls[event.block]
                self._calls[event.block] = (index, True)
                if event.block in self._texts:
                    return (self._call(event, {"input": event.arguments}),)
                if event.block in self._custom:
                    return ()
                return (self._call(event, {"arguments": event.arguments}),)
            case StreamStart():
                self.created, self.model = event.created, event.model
                self.labels = event.labels or {}
                if CUSTOM in self.labels:
                    self._custom_tools = {str(name) for name in decode(self.labels[CUSTOM])}
            case StreamTarget():
                if not self.choices:  # a later target continues an answer that has begun
                    self.model = event.model
            case StreamEnd():
                return self._end(event)
            case ProviderData():
                return self._feed_members(event)
            case Notice() | Usage():
                pass
            case _:
                begun = self._begin(event.choice, text=isinstance(event, TextStart))
                return [*begun, *self._rare_event(event, self.choices[event.choice])]
        return ()

    def _begin(self, choice: int, *, text: bool) -> Iterable[Delta]:
        """Start a choice and all lower ones: the official clients' helpers expect them in order."""
        if choice in self.choices:
            return ()
        new = [index for index in range(choice + 1) if index not in self.choices]
        self.choices.update((index, ChoiceState()) for index in new)
        content = "" if text else None
        delta = {"role": "assistant", "content": None}
        return [Delta(i, {**delta, "content": content} if i == choice else delta) for i in new]

    def _rare_event(self, event: Event, state: ChoiceState) -> Iterable[Delta]:
        """Handle block starts and ends, and rare events."""
        match event:
            case TextStart():
                self._starts[event.block] = state.length
            case ChoiceEnd():
                state.finish = event.finish_reason
                state.finish_members = read_raw(event.raw, FORMAT)
            case ReasoningStart():
                self._thoughts[event.block] = Pieces()
                self._logprobs_names[event.block] = "reasoning_content"
            case ReasoningEnd():
                state.details += _render_details(event, self._thoughts.pop(event.block).text())
            case RefusalStart():
                self._logprobs_names[event.block] = "refusal"
            case ToolCallStart():
                self._calls[event.block] = (state.calls, False)
                state.calls += 1
                kind, text = "function", "arguments"
                if event.name in self._custom_tools:
                    self._custom = self._custom or set()
                    self._custom.add(event.block)
                    kind, text = "custom", "input"
                shown = show_call(self._stream, event.id)
                function = {"name": event.name, text: ""}
                call = self._call(event, function, id=shown, type=kind)
                if others := read_raw(event.raw, FORMAT):
                    rows = [merge(others, row) for row in call.delta["tool_calls"]]
                    call = call._replace(delta={"tool_calls": rows})
                return (call,)
            case ToolCallEnd() if event.block in self._texts:
                pass  # its deltas have the text
            case ToolCallEnd() if event.block in self._custom:
                return (self._call(event, {"input": decode_input(event.arguments)}),)
            case ToolCallEnd():
                _, has_arguments = self._calls[event.block]
                if not has_arguments and event.arguments:
                    return (self._call(event, {"arguments": event.arguments}),)
            case Opaque(format=name) if name == OPENAI_CUSTOM_CALL and event.block in self._custom:
                self._texts.add(event.block or 0)
            case Opaque() if event.block in self._calls:
                # A helper of the official clients fails on a delta without a function.
                text = "input" if event.block in self._custom else "arguments"
                return (self._call(event, {text: ""}, extra_content=_extra(event)),)
            case Opaque():
                state.details.append(render_encrypted_detail(event.data, format=event.format))
            case Source(url=str()):
                state.annotations.append(_cite(event, self._starts.get(event.block or 0, 0)))
            case LogProbs():
                name = self._logprobs_names.get(event.block, "content")
                found = {"content": None, "refusal": None, name: render_logprobs(event.content)}
                return (Delta(event.choice, {}, logprobs=found),)
            case Media():
                return self._media(event, state)
            case ContentFilter():
                self.moderation.feed(event)
            case TextEnd() | RefusalEnd() | Source() | ProviderTool() | Notice() | Usage():
                pass  # no counterpart in the format
            case ProviderData():
                pass
            case TextDelta() | ReasoningDelta() | RefusalDelta() | ToolCallDelta():
                pass  # `feed` has rendered them
            case StreamStart() | StreamTarget() | StreamEnd():
                pass
            case _:
                assert_never(event)
        return ()

    def _call(self, event: BlockEvent, function: dict[str, str], **fields: Any) -> Delta:
        block = event.block or 0
        kind = "custom" if block in self._custom else "function"
        call = {"index": self._calls[block][0], **fields, kind: function}
        return Delta(event.choice, {"tool_calls": [call]})

    def _media(self, event: Media, state: ChoiceState) -> Iterable[Delta]:
        if event.media_type.startswith("audio/") and event.data:
            audio = {"id": f"audio_{self._token}_{event.choice}", "data": event.data}
            if self.members.has_sent(event.choice, "audio"):
                del audio["id"]  # the provider's id has been sent
            return (Delta(event.choice, {"audio": audio}),)
        url = event.url or f"data:{event.media_type};base64,{event.data}"
        state.images.append({"type": "image_url", "image_url": {"url": url}})
        return ()

    def _end(self, end: StreamEnd) -> Iterable[Delta]:
        """Finish the choices of a completed stream only: clients act on a finish reason."""
        if end.status != "completed":
            return
        if not self.choices:
            yield from self._begin(0, text=True)
        for choice, state in sorted(self.choices.items()):
            # One helper of the official clients merges lists by `index`, another replaces
            # them: send each list once, complete.
            lists = {
                "annotations": state.annotations,
                "reasoning_details": state.details,
                "images": state.images,
            }
            values = {
                name: [{**row, "index": index} for index, row in enumerate(rows)]
                for name, rows in lists.items()
                if rows and not self.members.has_sent(choice, name)
            }
            if values:
                yield Delta(choice, values)
            finish = FINISH[state.finish or end.finish_reason]
            yield Delta(choice, {}, finish, members=state.finish_members)


def _render_details(end: ReasoningEnd, text: str) -> list[dict[str, Any]]:
    """Return `reasoning_details` for reasoning with a signature, encrypted data or a known
    format.
    """
    found = []
    if end.signature or (text and (end.encrypted or end.format)):
        found.append(render_text_detail(text, signature=end.signature, format=end.format))
    if end.encrypted:
        found.append(render_encrypted_detail(end.encrypted, format=end.format))
    return found


def _extra(opaque: Opaque) -> dict[str, Any]:
    if opaque.format in _SIGNATURES:
        return {"google": {"thought_signature": opaque.data}}
    return {EXTRA: {opaque.format: opaque.data}}


def _cite(source: Source, start: int) -> dict[str, Any]:
    """Return a `url_citation`; one without a position is put at the start of the content."""
    known = source.start is not None and source.end is not None
    first, last = (source.start or 0, source.end or 0) if known else (-start, -start)
    span = {"start_index": start + first, "end_index": start + last}
    return {
        "type": "url_citation",
        "url_citation": {**span, "url": source.url, "title": source.title or ""},
    }


def render_usage(end: StreamEnd, provider: Members | None = None) -> dict[str, Any] | None:
    """Return token counts and cost; unknown counts are 0 where the format requires a number.

    They replace those of the provider's own object, as does the cost, but not one that is an
    object: that has the replaced `total_cost`.
    """
    counts = end.usage
    if counts is None:
        return None
    prompt_tokens, completion_tokens = counts.input_tokens or 0, counts.output_tokens or 0
    usage: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens
        if counts.total_tokens is None
        else counts.total_tokens,
    }
    details = {
        "cached_tokens": counts.cached_input_tokens,
        "cache_write_tokens": counts.cache_write_tokens,
    }
    if any(value is not None for value in details.values()):
        usage["prompt_tokens_details"] = {k: v for k, v in details.items() if v is not None}
    if counts.reasoning_tokens is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning_tokens}
    cost = render_cost(end)
    if provider and isinstance(provider.get("cost"), dict) and "cost" in cost:
        cost["cost"] = {"total_cost": cost["cost"]}
    return merge(provider or {}, usage | cost)

"""Renderer of a UI message stream, for choice 0, in the chunks of version 5 of the SDK.

A chunk of an unknown type ends the chat, so events without a chunk of their own go into
`data-seseragi` parts, which only a page's `onData` receives.
"""

from collections.abc import Iterable
from typing import Any, Final, assert_never

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
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    encode,
)
from ....requests import Opaque as OpaqueValue
from ...answering.ids import public_token, show_call
from ...client_format import DELTAS, Frame
from ...reading.json_values import compact, decode, string
from ...reading.split_text import join_base64
from ...reasoning_signatures import OPENAI_CUSTOM_CALL, OPENAI_ITEM, OPENAI_PHASE, SignatureFields
from ...writing.conversation import parse_object
from .messages import DENIED, KEY

Chunk = dict[str, Any]

FINISH: Final[dict[FinishReason, str]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
}
"""The SDK's finish reasons; the others are "other"."""

DONE = Frame(b"[DONE]")

MAX_FAILURE: Final = 1000
"""Characters of the error of a provider's tool."""


class _Call:
    """A tool call until the end of the stream."""

    def __init__(self, event: ToolCallStart, *, stream: str) -> None:
        self.names = {
            "toolCallId": show_call(stream, event.id),
            "toolName": event.name,
            "dynamic": True,
        }
        self.arguments = ""
        self.incomplete = False
        self.opaque: list[OpaqueValue] = []

    def chunk(self) -> Chunk:
        """Return the complete call, or its error."""
        metadata = _metadata(SignatureFields(opaque=self.opaque)) if self.opaque else {}
        try:
            value = compact(self.arguments)
        except ValueError:
            free = any(one.format == OPENAI_CUSTOM_CALL for one in self.opaque)
            if self.incomplete or not free:
                return {
                    "type": "tool-input-error",
                    **self.names,
                    "input": self.arguments,
                    "errorText": "the model's arguments are not valid JSON",
                    **metadata,
                }
            value = self.arguments
        return {"type": "tool-input-available", **self.names, "input": value, **metadata}


class Renderer:
    """The frames of one stream."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._token = public_token(stream, "ui")
        self._model: str | None = None
        self._calls: dict[int, _Call] = {}
        self._open: dict[int, list[OpaqueValue]] = {}
        """The open blocks of text and reasoning, with their opaque values."""
        self._phase: list[OpaqueValue] = []
        """The phase of the next text."""
        self._citations: dict[int, list[Chunk]] = {}
        """The citations of open blocks of text, which version 7 of the SDK shows."""
        self._audio: dict[int, tuple[str, list[str]]] = {}
        self._ran: set[int] = set()
        """The blocks of provider tools whose input was sent."""
        self._running: dict[int, None] = {}
        """The blocks of provider tools that have not ended."""
        self._count = 0

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        if getattr(event, "choice", 0):
            return ()
        match event:
            case TextDelta() | RefusalDelta():
                chunk = {"type": "text-delta", "id": f"t{event.block}", "delta": event.text}
                return (_frame(chunk),)
            case ReasoningDelta():
                chunk = {"type": "reasoning-delta", "id": f"r{event.block}", "delta": event.text}
                return (_frame(chunk),)
            case ToolCallDelta():
                call_id = self._calls[event.block].names["toolCallId"]
                delta = {"toolCallId": call_id, "inputTextDelta": event.arguments}
                return (_frame({"type": "tool-input-delta", **delta}),)
            case StreamEnd():
                return self._end(event)
            case _:
                return map(_frame, self._chunks(event))

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`: deltas change nothing."""
        return int(not event.choice) if isinstance(event, DELTAS) else None

    def _chunks(self, event: Event) -> Iterable[Chunk]:
        match event:
            case StreamStart():
                return self._start(event)
            case TextStart() | RefusalStart():
                self._open[event.block], self._phase = self._phase, []
                # Text follows the tools that it uses: those without a result have ended.
                start = {"type": "text-start", "id": f"t{event.block}"}
                return (*self._ended_tools({"output": None}), start)
            case TextEnd() | RefusalEnd():
                signatures = SignatureFields(opaque=self._open.pop(event.block) or None)
                end = {"type": "text-end", "id": f"t{event.block}", **_metadata(signatures)}
                citations = self._citations.pop(event.block, None)
                return ({**end, "citations": citations} if citations else end,)
            case ReasoningStart():
                self._open[event.block] = []
                return ({"type": "reasoning-start", "id": f"r{event.block}"},)
            case ReasoningEnd():
                signatures = SignatureFields(
                    event.signature,
                    event.encrypted,
                    format=event.format,
                    opaque=self._open.pop(event.block) or None,
                )
                return (
                    {"type": "reasoning-end", "id": f"r{event.block}", **_metadata(signatures)},
                )
            case ToolCallStart():
                call = self._calls[event.block] = _Call(event, stream=self._stream)
                return ({"type": "tool-input-start", **call.names},)
            case ToolCallEnd():
                # Clients run a call once it is available: only after a completed stream.
                self._calls[event.block].arguments = event.arguments
                self._calls[event.block].incomplete = event.incomplete
                return ()
            case Opaque():
                return self._opaque(event)
            case Source():
                return (self._source(event),)
            case Media():
                return self._media(event)
            case ProviderTool():
                return self._provider_tool(event)
            case StreamTarget():
                self._model = event.model
                return (_data(event),)
            case Notice() | ContentFilter():
                return (_data(event),)
            case TextDelta() | RefusalDelta() | ReasoningDelta() | ToolCallDelta() | StreamEnd():
                return ()  # `feed` has rendered them
            case ChoiceEnd() | Usage() | LogProbs() | ProviderData():
                return ()
            case _:
                assert_never(event)

    def _start(self, event: StreamStart) -> Iterable[Chunk]:
        message = (event.labels or {}).get("message_id") or f"msg_{self._token}"
        self._model = event.model
        yield {"type": "start", "messageId": message}
        yield _data(event)
        for call in decode((event.labels or {}).get(DENIED, "[]")):
            yield {"type": "tool-output-denied", "toolCallId": call}
        yield {"type": "start-step"}

    def _opaque(self, event: Opaque) -> Iterable[Chunk]:
        value = OpaqueValue(event.format, event.data)
        block = -1 if event.block is None else event.block
        if block in self._running and (approval := _approval(event)) is not None:
            del self._running[block]
            names = {"approvalId": approval, "toolCallId": self._provider_call(block)}
            yield {"type": "tool-approval-request", **names}
        if block in self._calls:
            self._calls[block].opaque.append(value)
        elif block in self._open:
            self._open[block].append(value)
        elif event.format == OPENAI_PHASE:
            self._phase = [value]
        else:
            part = f"o{self._next()}"
            yield {"type": "reasoning-start", "id": part}
            yield {
                "type": "reasoning-end",
                "id": part,
                **_metadata(SignatureFields(opaque=[value])),
            }

    def _source(self, event: Source) -> Chunk:
        source = f"source_{self._token}_{self._next()}"
        if event.url is not None:
            kind, fields = "url", _known({"url": event.url, "title": event.title})
        else:
            media_type = "application/octet-stream"  # the SDK requires one
            title = event.title or event.document or ""
            kind, fields = "document", {"mediaType": media_type, "title": title}
        if event.block in self._open:
            cited = {"type": "source", "sourceType": kind, "id": source, **fields}
            span = {"startIndex": event.start, "endIndex": event.end}
            citation = _known({**span, "citedText": event.cited_text})
            self._citations.setdefault(event.block, []).append({"source": cited, **citation})
        metadata = {KEY: msgspec.Raw(encode(event))}
        return {
            "type": f"source-{kind}",
            "sourceId": source,
            **fields,
            "providerMetadata": metadata,
        }

    def _media(self, event: Media) -> Iterable[Chunk]:
        if event.data is None:
            return (_file(event.url or "", event.media_type),)
        if not event.media_type.startswith("audio/"):
            return (_file(_data_url(event.media_type, event.data), event.media_type),)
        # Audio arrives in pieces; a `file` is complete.
        self._audio.setdefault(event.block, (event.media_type, []))[1].append(event.data)
        return ()

    def _provider_tool(self, event: ProviderTool) -> Iterable[Chunk]:
        arguments = {} if event.input is msgspec.UNSET else event.input
        if event.block not in self._ran or event.input is not msgspec.UNSET:
            self._ran.add(event.block)
            self._running[event.block] = None
            names = {**self._provider_names(event.block), "toolName": event.name}
            yield {"type": "tool-input-available", **names, "input": arguments}
        if event.output is not msgspec.UNSET:
            text = _failure(event.output)
            ended = {"output": event.output} if text is None else {"errorText": text}
            yield self._ended_tool(event.block, ended)

    def _ended_tools(self, ended: Chunk) -> list[Chunk]:
        """End the provider tools without a result: some providers send none."""
        return [self._ended_tool(block, ended) for block in list(self._running)]

    def _ended_tool(self, block: int, ended: Chunk) -> Chunk:
        self._running.pop(block, None)
        kind = "tool-output-error" if "errorText" in ended else "tool-output-available"
        return {"type": kind, **self._provider_names(block), **ended}

    def _provider_names(self, block: int) -> Chunk:
        call = self._provider_call(block)
        return {"toolCallId": call, "providerExecuted": True, "dynamic": True}

    def _provider_call(self, block: int) -> str:
        return f"tool_{self._token}_{block}"

    def _end(self, event: StreamEnd) -> Iterable[Frame]:
        yield from map(_frame, self._last_files())
        completed = event.status == "completed"
        ended = {"output": None} if completed else {"errorText": "the answer ended before the tool"}
        yield from map(_frame, self._ended_tools(ended))
        match event.status:
            case "completed":
                for call in self._calls.values():
                    yield _frame(call.chunk())
                yield _frame({"type": "finish-step"})
                reason = FINISH.get(event.finish_reason, "other")
                metadata = {"messageMetadata": self._summary(event)}
                yield _frame({"type": "finish", "finishReason": reason, **metadata})
            case "cancelled":
                yield _frame({"type": "finish-step"})
                yield _frame({"type": "message-metadata", "messageMetadata": self._summary(event)})
                yield _frame({"type": "abort", "reason": "cancelled"})
            case "failed" | "interrupted":
                text = event.error.message if event.error else "the answer is incomplete"
                yield _frame(_data(event))
                yield _frame({"type": "error", "errorText": text})
        yield DONE

    def _last_files(self) -> Iterable[Chunk]:
        for media_type, pieces in self._audio.values():
            if (data := join_base64(pieces)) is not None:
                yield _file(_data_url(media_type, data), media_type)

    def _summary(self, event: StreamEnd) -> Chunk:
        if event.usage is None:
            return {"model": self._model}
        cost = _known({"cost": event.cost, "estimated": event.usage.estimated})
        return {"model": self._model, "usage": _usage(event.usage) | cost}

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def _approval(event: Opaque) -> str | None:
    """Return the id of a request to approve a call, which the provider will run."""
    item = (parse_object(event.data) if event.format == OPENAI_ITEM else None) or {}
    return string(item.get("id")) if item.get("type") == "mcp_approval_request" else None


def _failure(output: Any) -> str | None:
    """Return the error of a provider's tool, None if it has a result."""
    match output:
        case {"is_error": True, "content": content}:
            error = content
        case {"error": error, **others} if error and not others:
            pass
        case {"type": str(kind)} if kind.endswith("_error"):
            error = output.get("error_message") or output.get("error_code") or kind
        case _:
            return None
    text = error if isinstance(error, str) else msgspec.json.encode(error).decode()
    return text[:MAX_FAILURE]


def _frame(chunk: Chunk) -> Frame:
    return Frame(msgspec.json.encode(chunk))


def _data(event: Event) -> Chunk:
    return {"type": f"data-{KEY}", "data": msgspec.Raw(encode(event)), "transient": True}


def _metadata(signatures: SignatureFields) -> Chunk:
    return {} if signatures == SignatureFields() else {"providerMetadata": {KEY: signatures}}


def _file(url: str, media_type: str) -> Chunk:
    return {"type": "file", "url": url, "mediaType": media_type}


def _data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def _usage(counts: TokenCounts) -> Chunk:
    """Return the known counts, as the SDK's `LanguageModelUsage`."""
    read, written = counts.cached_input_tokens, counts.cache_write_tokens
    return _known(
        {
            "inputTokens": counts.input_tokens,
            "outputTokens": counts.output_tokens,
            "totalTokens": counts.total_tokens,
            "inputTokenDetails": _known({"cacheReadTokens": read, "cacheWriteTokens": written}),
            "outputTokenDetails": _known({"reasoningTokens": counts.reasoning_tokens}),
        }
    )


def _known(values: Chunk) -> Chunk:
    return {key: value for key, value in values.items() if value not in (None, {})}

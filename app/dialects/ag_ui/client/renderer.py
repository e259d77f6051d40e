"""Renderer of the events of an AG-UI run, for choice 0.

Each block of text or reasoning is a message; the calls belong to the first message of text.
Events that AG-UI lacks are `CUSTOM`, with the relay's own event as the value. Optional fields
are absent, never null: a null ends the run.
"""

from collections.abc import Iterable
from typing import Any, Final, assert_never

import msgspec

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
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    encode,
    type_of,
)
from ....requests import Opaque as OpaqueValue
from ...answering.ids import public_token, show_call
from ...client_format import DELTAS, Frame
from ...reasoning_signatures import OPENAI_PHASE, SignatureFields

VERSION = "1.0"

PROTOCOL_VERSION = "protocol_version"
"""The label of a run with the client's version, which clients send from 1.0 on."""

TOOL_INPUTS = "tool_inputs"
"""The label of a run whose client, TanStack AI's, runs a call when a `CUSTOM` event says so."""

PROVIDER_CALL = "provider_"
"""The beginning of the ids of calls that the provider executed."""

_INCOMPLETE: Final = "The answer ended within this call. It was not run."

RunEvent = dict[str, Any]

_raw: Final = msgspec.json.Decoder(msgspec.Raw)


class Renderer:
    """The frames of one stream."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._token = public_token(stream, "ag_ui")
        self._run: RunEvent = {}
        self._is_before_1 = False
        """Whether the client is older than 1.0: the strict schema of `@ag-ui/client` 0.0.54 to
        0.0.59 knows no outcome `cancelled`, and no ids of pending calls."""
        self._gives_inputs = False
        """Whether the client runs a call only for a `CUSTOM` event with the input."""
        self._target: StreamTarget | None = None
        self._messages: dict[int, str] = {}
        """The message of each open block of text or reasoning."""
        self._texts = 0
        self._calls: dict[int, str] = {}
        """The calls by block; they end with the run."""
        self._inputs: dict[int, RunEvent] = {}
        """The names and, at their ends, the inputs of the calls for such a client."""
        self._incomplete: set[int] = set()
        """The calls among them that were cut."""
        self._provider_calls: dict[int, bool] = {}
        """The calls that the provider executes, by block, and whether they have ended."""
        self._given: set[int] = set()
        """Those whose input has been sent."""
        self._opaque: dict[int, list[OpaqueValue]] = {}
        """The opaque values of a block, for the end of its message."""
        self._phase: list[OpaqueValue] = []
        """The phase of the next text."""
        self._count = 0

    def feed(self, event: Event) -> Iterable[Frame]:
        """Return the frames for the next event."""
        if getattr(event, "choice", 0):
            return ()
        return [Frame(msgspec.json.encode(one)) for one in self._feed(event)]

    def pass_over(self, event: Event) -> int | None:
        """See `client_format.Renderer`: deltas change nothing."""
        return int(not event.choice) if isinstance(event, DELTAS) else None

    def _feed(self, event: Event) -> Iterable[RunEvent]:
        match event:
            case TextDelta() | RefusalDelta():
                message = self._messages[event.block]
                return (
                    {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": event.text},
                )
            case ReasoningDelta():
                message = self._messages[event.block]
                return (
                    {
                        "type": "REASONING_MESSAGE_CONTENT",
                        "messageId": message,
                        "delta": event.text,
                    },
                )
            case ToolCallDelta():
                call = self._calls[event.block]
                return ({"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": event.arguments},)
            case StreamStart():
                return self._start(event)
            case TextStart() | RefusalStart():
                return (self._start_text(event.block),)
            case TextEnd() | RefusalEnd():
                return self._end_text(event.block)
            case ReasoningStart():
                self._messages[event.block] = f"reasoning_{self._token}_{event.block}"
                return _start_reasoning(self._messages[event.block])
            case ReasoningEnd():
                opaque = self._opaque.pop(event.block, None)
                signatures = SignatureFields(
                    event.signature, event.encrypted, format=event.format, opaque=opaque
                )
                return _end_reasoning(self._messages.pop(event.block), signatures)
            case ToolCallStart():
                return (self._start_call(event),)
            case ToolCallEnd():
                # Clients run a call once it ends: it may only end with a completed stream.
                if event.incomplete:
                    self._incomplete.add(event.block)
                elif self._gives_inputs:
                    self._inputs[event.block]["input"] = _read_input(event.arguments)
                return ()
            case Opaque():
                return self._take_opaque(event)
            case StreamTarget():
                self._target = event
                return (_custom(event),)
            case ProviderTool():
                return self._run_tool(event)
            case Notice() | ContentFilter() | Source() | Media():
                return (_custom(event),)
            case StreamEnd():
                return self._end(event)
            case ChoiceEnd() | Usage() | LogProbs() | ProviderData():
                return ()
            case _:
                assert_never(event)

    def _start(self, event: StreamStart) -> Iterable[RunEvent]:
        labels = event.labels or {}
        self._run = {
            "threadId": labels.get("thread_id", f"thread_{self._token}"),
            "runId": labels.get("run_id", f"run_{self._token}"),
        }
        self._is_before_1 = PROTOCOL_VERSION not in labels
        self._gives_inputs = TOOL_INPUTS in labels
        parent = labels.get("parent_run_id")
        parents = {} if parent is None else {"parentRunId": parent}
        yield {"type": "RUN_STARTED", **self._run, "protocolVersion": VERSION, **parents}
        yield _custom(event)

    def _start_text(self, block: int) -> RunEvent:
        # The calls' message is the first one, whether it has begun or not.
        message = f"msg_{self._token}" + (f"_{block}" if self._texts else "")
        self._texts += 1
        self._messages[block] = message
        if self._phase:
            self._opaque[block], self._phase = self._phase, []
        return {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}

    def _end_text(self, block: int) -> Iterable[RunEvent]:
        message = self._messages.pop(block)
        yield {"type": "TEXT_MESSAGE_END", "messageId": message}
        if opaque := self._opaque.pop(block, None):
            yield _encrypted("message", message, SignatureFields(opaque=opaque))

    def _start_call(self, event: ToolCallStart) -> RunEvent:
        call = self._calls[event.block] = show_call(self._stream, event.id)
        self._inputs[event.block] = {"toolCallId": call, "toolName": event.name}
        return self._announce_call(call, event.name)

    def _announce_call(self, call: str, name: str) -> RunEvent:
        message = f"msg_{self._token}"
        names = {"toolCallId": call, "toolCallName": name, "parentMessageId": message}
        return {"type": "TOOL_CALL_START", **names}

    def _run_tool(self, event: ProviderTool) -> Iterable[RunEvent]:
        call = f"{PROVIDER_CALL}{self._token}_{event.block}"
        if event.block not in self._provider_calls:
            self._provider_calls[event.block] = False
            yield self._announce_call(call, event.name)
        is_open = not self._provider_calls[event.block]
        if event.input is not msgspec.UNSET and is_open and event.block not in self._given:
            # OpenAI's tools have it at their end only.
            self._given.add(event.block)
            arguments = msgspec.json.encode(event.input).decode()
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": arguments}
        if event.output is not msgspec.UNSET and is_open:
            output = event.output
            text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
            self._provider_calls[event.block] = True
            yield from self._end_tool(event.block, text)

    def _end_tool(self, block: int, content: str) -> Iterable[RunEvent]:
        # The end comes with the result, so that no client runs the call itself.
        call = self._calls.get(block) or f"{PROVIDER_CALL}{self._token}_{block}"
        yield {"type": "TOOL_CALL_END", "toolCallId": call}
        message = f"result_{self._token}_{block}"
        names = {"messageId": message, "toolCallId": call, "role": "tool"}
        yield {"type": "TOOL_CALL_RESULT", **names, "content": content}

    def _take_opaque(self, event: Opaque) -> Iterable[RunEvent]:
        value = OpaqueValue(event.format, event.data)
        block = -1 if event.block is None else event.block
        if block in self._messages or block in self._calls:
            self._opaque.setdefault(block, []).append(value)
            return
        if event.format == OPENAI_PHASE:
            self._phase = [value]
            return
        message = f"opaque_{self._token}_{self._count}"
        self._count += 1
        yield from _start_reasoning(message)
        yield from _end_reasoning(message, SignatureFields(opaque=[value]))

    def _end(self, event: StreamEnd) -> Iterable[RunEvent]:
        usage = self._usage(event)
        cancelled = event.status == "cancelled"
        if event.status in ("failed", "interrupted") or (cancelled and self._is_before_1):
            error = event.error
            code = {"code": error.code} if error else {"code": "cancelled"} if cancelled else {}
            message = error.message if error else "the answer is incomplete"
            metadata = {"metadata": cost} if (cost := _cost(event)) else {}
            yield {"type": "RUN_ERROR", "message": message, **code, **usage, **metadata}
            return
        for block, ended in self._provider_calls.items():
            if not ended:  # some providers send no result
                yield from self._end_tool(block, "")
        for block, call in self._calls.items():
            if block in self._incomplete:
                yield from self._end_tool(block, _INCOMPLETE)
            else:
                yield {"type": "TOOL_CALL_END", "toolCallId": call}
                if self._gives_inputs and event.status == "completed":
                    value = self._inputs[block]
                    yield {"type": "CUSTOM", "name": "tool-input-available", "value": value}
            if opaque := self._opaque.pop(block, None):
                yield _encrypted("tool-call", call, SignatureFields(opaque=opaque))
        outcome: RunEvent = {"type": "cancelled"}
        if event.status == "completed":
            pending = [c for block, c in self._calls.items() if block not in self._incomplete]
            ids = {"pendingToolCallIds": pending} if pending and not self._is_before_1 else {}
            outcome = {"type": "success", **ids}
        yield {
            "type": "RUN_FINISHED",
            **self._run,
            "outcome": outcome,
            **usage,
            "metadata": {"finishReason": event.finish_reason, **_cost(event)},
        }

    def _usage(self, event: StreamEnd) -> RunEvent:
        if event.usage is None:
            return {}
        counts = {
            "inputTokens": event.usage.input_tokens,
            "outputTokens": event.usage.output_tokens,
            "totalTokens": event.usage.total_tokens,
            "reasoningTokens": event.usage.reasoning_tokens,
            "cachedInputTokens": event.usage.cached_input_tokens,
            "cacheWriteInputTokens": event.usage.cache_write_tokens,
        }
        known = {name: count for name, count in counts.items() if count is not None}
        target = self._target
        model = {"provider": target.upstream, "model": target.model} if target else {}
        return {"usage": [{**model, **known}]}


def _cost(event: StreamEnd) -> RunEvent:
    """Return the cost and whether the usage is estimated: `usage` has no fields for them."""
    fields: RunEvent = {} if event.cost is None else {"cost": event.cost}
    if event.usage is not None and event.usage.estimated:
        fields["usageEstimated"] = True
    return fields


def _read_input(arguments: str) -> Any:
    """Return the input as JSON, or as it is: that of a custom tool is free text."""
    try:
        return _raw.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments


def _start_reasoning(message: str) -> Iterable[RunEvent]:
    yield {"type": "REASONING_START", "messageId": message}
    yield {"type": "REASONING_MESSAGE_START", "messageId": message, "role": "reasoning"}


def _end_reasoning(message: str, signatures: SignatureFields) -> Iterable[RunEvent]:
    yield {"type": "REASONING_MESSAGE_END", "messageId": message}
    if signatures != SignatureFields():
        yield _encrypted("message", message, signatures)
    yield {"type": "REASONING_END", "messageId": message}


def _encrypted(subtype: str, entity: str, signatures: SignatureFields) -> RunEvent:
    return {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": subtype,
        "entityId": entity,
        "encryptedValue": msgspec.json.encode(signatures).decode(),
    }


def _custom(event: Event) -> RunEvent:
    name = f"seseragi.{type_of(event)}"
    return {"type": "CUSTOM", "name": name, "value": msgspec.Raw(encode(event))}

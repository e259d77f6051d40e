"""Content of a stream, the request and the answer, for routes that record it.

Bounded, and built in two steps: the request at the start, since it is dropped once the answer has
begun, and the answer at the end.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, assert_never

import msgspec

from ..events import (
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
    type_of,
)
from ..requests import ChatRequest

MAX_REQUEST = 64 * 1024
"""Maximum bytes of a request's messages; the latest ones are stored."""

MAX_TEXT = 16 * 1024
"""Maximum characters of one text in them."""

MAX_ANSWER = 256 * 1024
"""Maximum characters of an answer; its beginning is stored."""

MAX_EVENTS = 200_000

_BINARY = ("data", "file_data", "signature", "encrypted")


class Content:
    """The recorded request and answer of one stream."""

    __slots__ = ("_left_out", "_messages")

    def __init__(self, chat: ChatRequest) -> None:
        newest: list[bytes] = []
        room = MAX_REQUEST
        for message in reversed(chat.messages):
            encoded = msgspec.json.encode(_shorten(msgspec.to_builtins(message)))
            room -= len(encoded)
            if room < 0:
                break
            newest.append(encoded)
        self._messages = newest[::-1]
        self._left_out = len(chat.messages) - len(newest)

    def pack(self, events: Sequence[Event]) -> bytes:
        """Return the content as JSON, with the answer in these events."""
        content: dict[str, Any] = {"messages": [msgspec.Raw(encoded) for encoded in self._messages]}
        if self._left_out:
            content["messages_left_out"] = self._left_out
        return msgspec.json.encode(content | _answer(events))


def _shorten(value: Any, name: str = "") -> Any:
    """Return a value of a request without data other than text, and with long texts shortened."""
    if isinstance(value, str):
        if name in _BINARY or value.startswith("data:"):
            return f"[{len(value)} characters]"
        if len(value) > MAX_TEXT:
            return f"{value[:MAX_TEXT]} [{len(value) - MAX_TEXT} more characters]"
        return value
    if isinstance(value, dict):
        return {key: _shorten(one, key) for key, one in value.items()}
    return [_shorten(one) for one in value] if isinstance(value, list) else value


def _answer(events: Iterable[Event]) -> dict[str, Any]:
    """Return the blocks of an answer in order, up to the limit."""
    blocks: dict[int, dict[str, Any]] = {}
    texts: dict[int, list[str]] = {}
    room, cut = MAX_ANSWER, False
    for event in islice(events, MAX_EVENTS):
        match event:
            case TextDelta() | ReasoningDelta() | RefusalDelta():
                if event.block not in blocks:
                    block = {"type": type_of(event).removesuffix(".delta"), "text": ""}
                    choice = {"choice": event.choice} if event.choice else {}
                    blocks[event.block] = {**block, **choice}
                texts.setdefault(event.block, []).append(event.text[:room])
                room -= len(event.text)
            case ToolCallDelta():
                texts.setdefault(event.block, []).append(event.arguments[:room])
                room -= len(event.arguments)
            case ToolCallStart():
                name = event.name[:MAX_TEXT]
                blocks[event.block] = {"type": "tool_call", "name": name, "arguments": ""}
                room -= len(name)
            case TextStart() | ReasoningStart() | RefusalStart():
                pass
            case TextEnd() | ReasoningEnd() | RefusalEnd() | ToolCallEnd() | ChoiceEnd():
                pass
            case Opaque() | Source() | Media() | LogProbs() | ContentFilter() | ProviderTool():
                pass
            case ProviderData() | StreamStart() | StreamTarget() | Notice() | Usage() | StreamEnd():
                pass
            case _:
                assert_never(event)
        if room < 0:
            cut = True
            break
    for number, parts in texts.items():
        block = blocks.setdefault(number, {"type": "tool_call", "name": "", "arguments": ""})
        block["arguments" if block["type"] == "tool_call" else "text"] = "".join(parts)
    answer: dict[str, Any] = {"answer": [blocks[number] for number in sorted(blocks)]}
    return {**answer, "answer_cut": True} if cut else answer

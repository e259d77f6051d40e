"""Assistant messages, built from an answer or from a client's message."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never

import msgspec

from ...events import Media, Opaque, ProviderTool, Source
from ...requests import (
    AssistantMessage,
    FunctionCall,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
)
from ...requests import Opaque as OpaqueValue
from ..reasoning_signatures import OPENAI_PHASE, PackedSignature, SignatureFields

AssistantPart = TextPart | RefusalPart | ReasoningPart | OpaquePart


class TextBlock(msgspec.Struct, omit_defaults=True):
    """A block of text; reasoning and refusals have the same form."""

    type: Literal["text", "reasoning", "refusal"]
    block: int
    text: str
    choice: int = 0
    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None
    logprobs: list[Any] = []


class ToolCallBlock(msgspec.Struct, omit_defaults=True):
    type: Literal["tool_call"]
    block: int
    id: str
    name: str
    arguments: str
    choice: int = 0
    incomplete: bool = False
    logprobs: list[Any] = []


Block = TextBlock | ToolCallBlock | Opaque | Source | Media | ProviderTool
"""A block of an answer, or an event between blocks."""


def build_message(parts: Sequence[AssistantPart], calls: Sequence[ToolCall]) -> AssistantMessage:
    """Return the message of these parts; a single text becomes a string."""
    only = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else None
    return AssistantMessage(only or [*parts] or None, tool_calls=[*calls] or None)


def build_reasoning(
    text: str, fields: SignatureFields | PackedSignature | TextBlock
) -> list[AssistantPart]:
    """Return the part of a reasoning text and its signature; none without either."""
    if not (text or fields.signature or fields.encrypted):
        return []
    part = ReasoningPart(text, fields.signature, encrypted=fields.encrypted, format=fields.format)
    return [part]


class MessageBuilder:
    """Collects the parts of an assistant message, in the order in which a client sends them."""

    def __init__(self) -> None:
        self._parts: list[AssistantPart] = []
        self._calls: list[ToolCall] = []

    def add_text(self, text: str, fields: SignatureFields) -> None:
        """Add a text with its opaque values: a phase stands before the text, others after it."""
        values = [OpaquePart(one.format, one.data) for one in fields.opaque or ()]
        self._parts += [one for one in values if one.format == OPENAI_PHASE]
        if text:
            self._parts.append(TextPart(text))
        self._parts += [one for one in values if one.format != OPENAI_PHASE]

    def add_reasoning(self, text: str, fields: SignatureFields) -> None:
        self._parts += build_reasoning(text, fields)

    def add_opaque(self, fields: SignatureFields) -> None:
        self._parts += [OpaquePart(one.format, one.data) for one in fields.opaque or ()]

    def add_call(self, call: ToolCall) -> None:
        self._calls.append(call)

    def take(self) -> list[AssistantMessage]:
        """Return the message, none if it is empty, and start the next one."""
        parts, calls = self._parts, self._calls
        self._parts, self._calls = [], []
        return [build_message(parts, calls)] if parts or calls else []


def render_message(blocks: Iterable[Block], *, calls: bool) -> AssistantMessage:
    """Return the message of choice 0, with all signatures and opaque values.

    Without `calls` the tool calls are left out: those of a truncated answer may be truncated too.
    Incomplete ones always are: no provider takes them back.
    """
    parts: list[AssistantPart] = []
    opaque: dict[int | None, list[OpaqueValue]] = {}
    calls_made: list[ToolCallBlock] = []
    first = [block for block in blocks if block.choice == 0]
    of_calls = {block.block for block in first if isinstance(block, ToolCallBlock)}
    for block in first:
        match block:
            case TextBlock("text"):
                parts.append(TextPart(block.text))
            case TextBlock("refusal"):
                parts.append(RefusalPart(block.text))
            case TextBlock():
                parts += build_reasoning(block.text, block)
            case ToolCallBlock():
                calls_made.append(block)
            case Opaque() if block.block in of_calls:
                opaque.setdefault(block.block, []).append(OpaqueValue(block.format, block.data))
            case Opaque():
                parts.append(OpaquePart(block.format, block.data))
            case Source() | Media() | ProviderTool():
                pass  # not in a chat message
            case _:
                assert_never(block)
    tool_calls = [
        ToolCall(one.id, FunctionCall(one.name, one.arguments), opaque=opaque.get(one.block))
        for one in (calls_made if calls else ())
        if not one.incomplete
    ]
    return build_message(parts, tool_calls)

"""The blocks of an answer, and the assistant message that they are on the next turn."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from ...events import Event, Opaque
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


class TextBlock(msgspec.Struct, omit_defaults=True):
    """A block of text; reasoning and refusals have the same form."""

    type: Literal["text", "reasoning", "refusal"]
    block: int
    text: str
    choice: int = 0
    signature: str | None = None
    encrypted: str | None = None
    format: str | None = None


class ToolCallBlock(msgspec.Struct, omit_defaults=True):
    type: Literal["tool_call"]
    block: int
    id: str
    name: str
    arguments: str
    choice: int = 0


def render_turn(
    blocks: Iterable[TextBlock | ToolCallBlock | Event], *, calls: bool
) -> AssistantMessage:
    """Return the message of choice 0: what it says, and all that a provider may want back.

    Without `calls` the tool calls are left out: those of an answer that was cut may be cut.
    """
    parts: list[TextPart | RefusalPart | ReasoningPart | OpaquePart] = []
    proofs: dict[int | None, list[OpaqueValue]] = {}
    called: list[ToolCallBlock] = []
    found = [block for block in blocks if getattr(block, "choice", None) == 0]
    of_calls = {block.block for block in found if isinstance(block, ToolCallBlock)}
    for block in found:
        match block:
            case TextBlock("text"):
                parts.append(TextPart(block.text))
            case TextBlock("refusal"):
                parts.append(RefusalPart(block.text))
            case TextBlock("reasoning"):
                proof = (block.signature, block.encrypted, block.format)
                parts.append(ReasoningPart(block.text, *proof))
            case ToolCallBlock():
                called.append(block)
            case Opaque() if block.block in of_calls:
                proofs.setdefault(block.block, []).append(OpaqueValue(block.format, block.data))
            case Opaque():
                parts.append(OpaquePart(block.format, block.data))
    only = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextPart) else None
    rows = [
        ToolCall(one.id, FunctionCall(one.name, one.arguments), opaque=proofs.get(one.block))
        for one in (called if calls else ())
    ]
    return AssistantMessage(content=only or parts or None, tool_calls=rows or None)

"""An unfinished output item: its position, and the texts within it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from ...answering.pieces import Pieces
from .tool_mapping import ClientTool, read_arguments


class _Thought(NamedTuple):
    """The names of a list of reasoning texts in events."""

    number: str
    part: str
    part_type: str
    text: str


_THOUGHTS: Final = {
    "summary": _Thought(
        "summary_index", "reasoning_summary_part", "summary_text", "reasoning_summary_text"
    ),
    "content": _Thought("content_index", "content_part", "reasoning_text", "reasoning_text"),
}

OutputEvent = tuple[str, dict[str, Any]]
"""The type of an event, and its fields."""


@dataclass(slots=True)
class OpenItem:
    """An unfinished item, and its position."""

    position: dict[str, Any]
    item: dict[str, Any]
    pieces: Pieces = field(default_factory=Pieces)
    """Pieces of the current text, refusal, summary or arguments."""
    block: int | None = None
    writing: bool = False
    """Whether a summary is open."""
    tool: ClientTool | None = None
    """The client's tool, unless it is a plain function."""
    wrapped: bool = False
    """Whether the arguments contain the input of a custom tool."""
    recorded: bool = False
    """Whether the provider's own item is recorded, so that its end is too."""
    thought: Literal["summary", "content"] = "summary"
    """The list of the current text of reasoning."""

    @property
    def part_position(self) -> dict[str, Any]:
        """The position of the last part of a message."""
        return {**self.position, "content_index": len(self.item["content"]) - 1}

    def write_down(self) -> None:
        """Write the pieces so far into the item."""
        text = self.pieces.text()
        match self.item:
            case {"call_id": _}:
                self.item |= read_arguments(self.tool.form if self.tool else "function", text)
            case {"type": "message", "content": [*_, part]}:
                part["text" if part["type"] == "output_text" else "refusal"] = text
            case {"type": "reasoning"} if self.writing:
                self.item[self.thought][-1]["text"] = text

    def think(self, text: str) -> Iterator[OutputEvent]:
        """Add a piece of reasoning, to a new text unless one is open."""
        names = _THOUGHTS[self.thought]
        texts = self.item.setdefault(self.thought, [])
        if not self.writing:
            texts.append({"type": names.part_type, "text": ""})
            self.writing, self.pieces = True, Pieces()
            part = {names.number: len(texts) - 1, "part": copy_item(texts[-1])}
            yield f"response.{names.part}.added", {**self.position, **part}
        self.pieces.append(text)
        piece = {names.number: len(texts) - 1, "delta": text}
        yield f"response.{names.text}.delta", {**self.position, **piece}

    def end_thought(self) -> Iterator[OutputEvent]:
        """End the open text of reasoning, if any."""
        if not self.writing:
            return
        self.write_down()
        names, texts = _THOUGHTS[self.thought], self.item[self.thought]
        self.writing, self.thought = False, "summary"
        position = {**self.position, names.number: len(texts) - 1}
        yield f"response.{names.text}.done", {**position, "text": texts[-1]["text"]}
        yield f"response.{names.part}.done", {**position, "part": copy_item(texts[-1])}


def copy_item(item: dict[str, Any]) -> dict[str, Any]:
    """Copy an item to the depth at which it can change."""
    return {
        key: [copy_item(one) if isinstance(one, dict) else one for one in value]
        if isinstance(value, list)
        else value
        for key, value in item.items()
    }

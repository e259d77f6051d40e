"""Builder of Anthropic's conversation: the system prompt, then alternating turns.

Successive messages of one side become one turn. All results of a turn's tool calls are the first
blocks of the next turn. Blank text blocks, which the API refuses, are left out.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from ....errors import RequestError
from ....requests import (
    AssistantMessage,
    CacheControl,
    DeveloperMessage,
    FilePart,
    FileSource,
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    UserPart,
    VideoPart,
)
from ...reasoning_signatures import CLAUDE_COMPACTION, CLAUDE_REDACTED, CLAUDE_THINKING
from ...writing.conversation import (
    parse_arguments,
    parse_data_url,
    parse_object,
    unsupported,
)
from .rules import IMAGES, MAX_MARKS

FORMAT: Final = "Anthropic Messages"

Blocks = list[dict[str, Any]]


def render_messages(messages: list[Message]) -> tuple[Blocks, Blocks]:
    """Return the blocks of the system prompt, and the turns.

    Raises:
        RequestError: the format cannot express a message.
    """
    system: Blocks = []
    turns = _Turns()
    for number, message in enumerate(messages):
        path = f"messages[{number}]"
        match message:
            case SystemMessage() | DeveloperMessage():
                system += mark_last(_blocks(message.content, path=path), message.cache_control)
            case UserMessage():
                blocks = _blocks(message.content, path=path)
                turns.take("user", mark_last(blocks, message.cache_control))
            case AssistantMessage():
                blocks = _assistant(message, path=path)
                turns.take("assistant", mark_last(blocks, message.cache_control))
            case _:
                results = [_result(message, path=path)]
                turns.take("user", [], results=mark_last(results, message.cache_control))
    return system, turns.end()


def mark_last(blocks: Blocks, mark: CacheControl | None) -> Blocks:
    """Mark the last block, unless it is thinking, which cannot have a mark; return the blocks."""
    if mark is not None and blocks and "thinking" not in blocks[-1]["type"]:
        blocks[-1].setdefault("cache_control", render_mark(mark))
    return blocks


def limit_marks(body: dict[str, Any]) -> list[str]:
    """Remove the first cache marks of a body beyond those that are allowed; return the change."""
    turns = [block for turn in body["messages"] for block in turn["content"]]
    blocks = [*body.get("tools", ()), *body.get("system", ())]
    for block in turns:
        inner = block.get("content")
        blocks += [*(inner if isinstance(inner, list) else ()), block]
    marked = [block for block in blocks if "cache_control" in block]
    surplus = marked[: max(0, len(marked) + ("cache_control" in body) - MAX_MARKS)]
    for block in surplus:
        del block["cache_control"]
    return [f"allows {MAX_MARKS} cache_control: dropped the first"] if surplus else []


def render_mark(mark: CacheControl | None) -> dict[str, str] | None:
    if mark is None:
        return None
    return {"type": mark.type, **({"ttl": mark.ttl} if mark.ttl else {})}


class _Turns:
    """The turns of the two sides, with tool results first in each."""

    def __init__(self) -> None:
        self._turns: Blocks = []
        self._role = ""
        self._results: Blocks = []
        self._others: Blocks = []

    def take(self, role: str, blocks: Blocks, *, results: Blocks | None = None) -> None:
        """Add blocks to the turn of a side; begin one if the last turn is the other side's."""
        if not blocks and not results:
            return
        if role != self._role:
            self._end_turn()
            self._role = role
        self._others += blocks
        self._results += results or ()

    def end(self) -> Blocks:
        """Return all turns."""
        self._end_turn()
        return self._turns

    def _end_turn(self) -> None:
        if content := [*self._results, *self._others]:
            self._turns.append({"role": self._role, "content": content})
        self._results, self._others = [], []


def _text(text: str) -> Blocks:
    """Return the block of a text, which may not be blank."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _blocks(content: str | Sequence[UserPart], *, path: str) -> Blocks:
    """Return the blocks of the content of a user, tool or system message."""
    blocks: Blocks = []
    parts = (TextPart(content),) if isinstance(content, str) else content
    for number, part in enumerate(parts):
        where = f"{path}.content[{number}]"
        match part:
            case TextPart():
                blocks += _text(part.text)
            case ImagePart():
                blocks.append(_image(part.image_url.url, path=where))
            case FilePart():
                blocks.append(_file(part.file, path=where))
            case VideoPart():
                raise unsupported(where, "video", format=FORMAT)
            case _:
                raise unsupported(where, "sound", format=FORMAT)
        mark_last(blocks, part.cache_control)
    return blocks


def _image(url: str, *, path: str) -> dict[str, Any]:
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    inline = parse_data_url(url)
    if inline is None:
        raise unsupported(path, "an image by this kind of URL", format=FORMAT)
    return _inline_image(*inline, path=path)


def _inline_image(media_type: str, data: str, *, path: str) -> dict[str, Any]:
    if media_type not in IMAGES:
        raise unsupported(path, f"an image of the type {media_type[:80]!r}", format=FORMAT)
    return {"type": "image", "source": _base64(IMAGES[media_type], data)}


def _file(file: FileSource, *, path: str) -> dict[str, Any]:
    title = {"title": file.filename} if file.filename else {}
    if file.file_id:
        source: dict[str, Any] = {"type": "file", "file_id": file.file_id}
        return {"type": "document", "source": source, **title}
    if file.url:
        return {"type": "document", "source": {"type": "url", "url": file.url}, **title}
    inline = parse_data_url(file.file_data or "")
    if inline is None:
        raise unsupported(path, "a file without a base64 data: or https: URL", format=FORMAT)
    media_type, data = inline
    if media_type.startswith("image/"):
        return _inline_image(media_type, data, path=path)
    if media_type == "application/pdf":
        source = _base64(media_type, data)
    elif media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": _plain(data, path=path)}
    else:
        raise unsupported(path, f"a file of the type {media_type[:80]!r}", format=FORMAT)
    return {"type": "document", "source": source, **title}


def _base64(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": data}


def _plain(data: str, *, path: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RequestError("invalid_request", f"{path}: must be base64 of UTF-8 text") from None


def _assistant(message: AssistantMessage, *, path: str) -> Blocks:
    blocks: Blocks = []
    content = message.content or ()
    parts = (TextPart(content),) if isinstance(content, str) else content
    for number, part in enumerate(parts):
        match part:
            case TextPart():
                blocks += _text(part.text)
                mark_last(blocks, part.cache_control)
            case RefusalPart():
                blocks += _text(part.refusal)
            case ReasoningPart() if part.signature and part.format in (None, CLAUDE_THINKING):
                blocks.append(_thinking(part.text, part.signature))
            case OpaquePart(format=format) if format == CLAUDE_THINKING:
                blocks.append(_thinking("", part.data))
            case OpaquePart(format=format) if format == CLAUDE_REDACTED:
                blocks.append({"type": "redacted_thinking", "data": part.data})
            case OpaquePart(format=format) if format == CLAUDE_COMPACTION:
                blocks.append(_compaction(part.data, path=f"{path}.content[{number}].data"))
    blocks += _text(message.refusal or "")
    for number, call in enumerate(message.tool_calls or ()):
        where = f"{path}.tool_calls[{number}].function"
        blocks.append(
            {
                "type": "tool_use",
                "id": call.id,
                "name": call.function.name,
                "input": parse_arguments(call.function, path=where),
            }
        )
    return blocks


def _thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _compaction(data: str, *, path: str) -> dict[str, Any]:
    block = parse_object(data)
    if block is None or block.get("type") != "compaction":
        raise RequestError("invalid_request", f"{path}: must be a compaction block")
    return block


def _result(message: ToolMessage, *, path: str) -> dict[str, Any]:
    content = message.content
    return {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content if isinstance(content, str) else _blocks(content, path=path),
        **({"is_error": True} if message.is_error else {}),
    }

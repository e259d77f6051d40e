"""A conversation as Anthropic Messages takes it: the system's words apart, then turns.

User and assistant take turns: messages of one side that follow each other are one turn. All
results of a turn's tool calls stand together at the head of the turn after it. The API
refuses text blocks without text, so there are none.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, Final

from app.dialects.anthropic.blocks import COMPACTION, REDACTED, THINKING
from app.dialects.conversation import parse_arguments, parse_data_url, unsupported
from app.dialects.untyped import decode
from app.errors import RequestError
from app.requests import (
    AssistantMessage,
    AudioPart,
    DeveloperMessage,
    FileData,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

FORMAT: Final = "Anthropic Messages"

_ODD = re.compile(r"[^a-zA-Z0-9_-]")

Blocks = list[dict[str, Any]]
Part = TextPart | ImagePart | AudioPart | FilePart


def render_messages(messages: list[Message]) -> tuple[Blocks, Blocks]:
    """Give the blocks of the system's prompt, and the turns.

    Raises:
        RequestError: a message holds what the format has no words for.
    """
    system: Blocks = []
    turns: Blocks = []
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        match message:
            case SystemMessage() | DeveloperMessage():
                system += _blocks(message.content, place=place)
            case UserMessage():
                _take(turns, "user", _blocks(message.content, place=place))
            case AssistantMessage():
                _take(turns, "assistant", _assistant(message, place=place))
            case _:
                _take_result(turns, _result(message, place=place))
    return system, turns


def _take(turns: Blocks, role: str, blocks: Blocks) -> None:
    """Add blocks to the turn of a side, beginning it if the other side had the last one."""
    if not blocks:
        return
    if not turns or turns[-1]["role"] != role:
        turns.append({"role": role, "content": []})
    turns[-1]["content"] += blocks


def _take_result(turns: Blocks, result: dict[str, Any]) -> None:
    """Add a tool's result behind those that are there, before anything else of the turn."""
    _take(turns, "user", [result])
    content = turns[-1]["content"]
    # Sorting is stable; the API wants the results first.
    content.sort(key=lambda block: block["type"] != "tool_result")


def _add_text(blocks: Blocks, text: str) -> None:
    """Add a text; one of white space alone, which the API refuses, goes to that before it."""
    if text.strip():
        blocks.append({"type": "text", "text": text})
    elif text and blocks and blocks[-1]["type"] == "text":
        blocks[-1]["text"] += text


def _blocks(content: str | Sequence[Part], *, place: str) -> Blocks:
    """Give the blocks of what a user, a tool or the system says."""
    blocks: Blocks = []
    parts = (TextPart(content),) if isinstance(content, str) else content
    for number, part in enumerate(parts):
        where = f"{place}.content[{number}]"
        match part:
            case TextPart():
                _add_text(blocks, part.text)
            case ImagePart():
                blocks.append(_image(part.image_url.url, place=where))
            case FilePart():
                blocks.append(_file(part.file, place=where))
            case _:
                raise unsupported(where, "sound", format=FORMAT)
    return blocks


def _image(url: str, *, place: str) -> dict[str, Any]:
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    inline = parse_data_url(url)
    if inline is None:
        raise unsupported(place, "an image by this kind of URL", format=FORMAT)
    return {"type": "image", "source": _base64(*inline)}


def _file(file: FileData, *, place: str) -> dict[str, Any]:
    title = {"title": file.filename} if file.filename else {}
    if file.file_id:
        source: dict[str, Any] = {"type": "file", "file_id": file.file_id}
        return {"type": "document", "source": source, **title}
    inline = parse_data_url(file.file_data or "")
    if inline is None:
        raise unsupported(place, "a file that is no base64 data URL", format=FORMAT)
    media_type, data = inline
    if media_type.startswith("image/"):
        return {"type": "image", "source": _base64(media_type, data)}
    if media_type == "application/pdf":
        source = _base64(media_type, data)
    elif media_type.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": _plain(data, place=place)}
    else:
        raise unsupported(place, f"a file of the type {media_type!r}", format=FORMAT)
    return {"type": "document", "source": source, **title}


def _base64(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": data}


def _plain(data: str, *, place: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RequestError("invalid_request", f"{place}: it is no UTF-8 text in base64") from None


def _assistant(message: AssistantMessage, *, place: str) -> Blocks:
    blocks: Blocks = []
    content = message.content or ()
    parts = (TextPart(content),) if isinstance(content, str) else content
    for number, part in enumerate(parts):
        match part:
            case TextPart():
                _add_text(blocks, part.text)
            case RefusalPart():
                _add_text(blocks, part.refusal)
            case ReasoningPart() if part.signature and part.format in (None, THINKING):
                blocks.append(_thinking(part.text, part.signature))
            case OpaquePart(format=format) if format == THINKING:
                blocks.append(_thinking("", part.data))
            case OpaquePart(format=format) if format == REDACTED:
                blocks.append({"type": "redacted_thinking", "data": part.data})
            case OpaquePart(format=format) if format == COMPACTION:
                blocks.append(_compaction(part.data, place=f"{place}.content[{number}].data"))
    _add_text(blocks, message.refusal or "")
    for number, call in enumerate(message.tool_calls or ()):
        where = f"{place}.tool_calls[{number}].function"
        blocks.append(
            {
                "type": "tool_use",
                "id": _id(call.id),
                "name": call.function.name,
                "input": parse_arguments(call.function, place=where),
            }
        )
    return blocks


def _thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _compaction(data: str, *, place: str) -> dict[str, Any]:
    try:
        block = decode(data)
    except ValueError:
        block = None
    if not isinstance(block, dict) or block.get("type") != "compaction":
        raise RequestError("invalid_request", f"{place}: it is no compaction block")
    return block


def _result(message: ToolMessage, *, place: str) -> dict[str, Any]:
    content = message.content
    return {
        "type": "tool_result",
        "tool_use_id": _id(message.tool_call_id),
        "content": content if isinstance(content, str) else _blocks(content, place=place),
        **({"is_error": True} if message.is_error else {}),
    }


def _id(id: str) -> str:
    """Give a call's id in the letters that the API takes; other providers use more."""
    return _ODD.sub("_", id)

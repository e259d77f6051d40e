"""Renderer of Converse content blocks: texts, images, documents, calls and results."""

import re
from typing import Any, Final, NamedTuple

from ....requests import (
    AssistantMessage,
    CacheControl,
    DeveloperMessage,
    FilePart,
    ImagePart,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    VideoPart,
)
from ...writing.cache_marks import last_mark
from ...writing.conversation import (
    join_text,
    list_reasoning,
    parse_arguments,
    parse_data_url,
    unsupported,
)
from .rules import DOCUMENTS, IMAGES, MAX_DOCUMENTS, MAX_POINTS, NO_OUTPUT, TEXT_BESIDE, VIDEOS
from .signatures import SIGNATURE, render_redacted

FORMAT: Final = "Bedrock Converse"

_MAX_NAME: Final = 200
_MAX_PARSED: Final = 1_000
"""The number of parsed characters of a file name."""


class Points(NamedTuple):
    """The cache points that a model supports; each follows the blocks that it marks."""

    known: bool
    claude: bool
    """Whether they may have a TTL, and follow tools."""

    def add(self, blocks: list[dict[str, Any]], mark: CacheControl | None) -> None:
        """Append a cache point for a mark, unless it would be first or follow another point."""
        if mark is None or not self.known or not blocks or "cachePoint" in blocks[-1]:
            return
        point = {"type": "default"}
        if mark.ttl and self.claude:
            point["ttl"] = mark.ttl
        blocks.append({"cachePoint": point})


class DocumentNames:
    """Unique document names of one request, limited to the characters that Bedrock allows."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The last number assigned to each name: all lower ones are taken too."""

    def take(self, filename: str | None) -> str:
        stem, _, end = (filename or "").rpartition(".")
        if not re.fullmatch(r"\w{1,5}", end) or not filename:
            stem = filename or ""
        plain = " ".join(re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", stem[:_MAX_PARSED]).split())
        plain = plain[: _MAX_NAME - 10].strip() or "document"
        name, number = plain, self._numbers.get(plain, 1)
        while name in self._taken:
            number += 1
            name = f"{plain} {number}"
        self._numbers[plain] = number
        self._taken.add(name)
        return name


def render_system(
    message: SystemMessage | DeveloperMessage, *, points: Points
) -> list[dict[str, Any]]:
    """Return the texts of a message, with cache points at its marks."""
    blocks: list[dict[str, Any]] = []
    content = message.content
    for part in [TextPart(content)] if isinstance(content, str) else content:
        blocks += render_text(part.text)
        points.add(blocks, part.cache_control)
    points.add(blocks, message.cache_control)
    return blocks


def render_user(
    message: UserMessage, *, path: str, names: DocumentNames, points: Points
) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    content = message.content
    for index, part in enumerate([TextPart(content)] if isinstance(content, str) else content):
        where = f"{path}.content[{index}]"
        match part:
            case TextPart():
                blocks += render_text(part.text)
            case ImagePart():
                blocks.append(_render_image(part, path=where))
            case VideoPart():
                blocks.append(_render_video(part, path=where))
            case FilePart():
                blocks.append(_render_document(part, path=where, names=names))
            case _:
                raise unsupported(where, "sound", format=FORMAT)
        points.add(blocks, part.cache_control)
    points.add(blocks, message.cache_control)
    return blocks


def render_assistant(
    message: AssistantMessage, *, path: str, signatures: bool, points: Points
) -> list[dict[str, Any]]:
    """Return the blocks of an assistant message, Claude's reasoning only with `signatures`."""
    blocks: list[dict[str, Any]] = []
    parts = message.content if isinstance(message.content, list) else list_reasoning(message)
    for part in parts:
        match part:
            case TextPart():
                blocks += render_text(part.text)
                points.add(blocks, part.cache_control)
            case RefusalPart():
                blocks += render_text(part.refusal)
            case ReasoningPart() | OpaquePart() if signatures:
                blocks += _render_reasoning(part)
    if not isinstance(message.content, list):
        blocks += render_text(message.content or "")
    blocks += render_text(message.refusal or "")
    for index, call in enumerate(message.tool_calls or ()):
        where = f"{path}.tool_calls[{index}].function"
        use = {
            "toolUseId": call.id,
            "name": call.function.name,
            "input": parse_arguments(call.function, path=where),
        }
        blocks.append({"toolUse": use})
    points.add(blocks, message.cache_control)
    return blocks


def render_tool(message: ToolMessage, *, path: str, points: Points) -> list[dict[str, Any]]:
    """Return the block of a result; cache points follow it, since they cannot be inside."""
    content: list[dict[str, Any]] = []
    mark = message.cache_control
    if isinstance(message.content, str):
        content = render_text(message.content)
    else:
        mark = mark or last_mark(message.content)
        for index, part in enumerate(message.content):
            if isinstance(part, TextPart):
                content += render_text(part.text)
            else:
                content.append(_render_image(part, path=f"{path}.content[{index}]"))
    content = content or [{"text": NO_OUTPUT}]
    result: dict[str, Any] = {"toolUseId": message.tool_call_id, "content": content}
    if message.is_error:
        result["status"] = "error"
    blocks: list[dict[str, Any]] = [{"toolResult": result}]
    points.add(blocks, mark)
    return blocks


def add_texts(turns: list[dict[str, Any]]) -> list[str]:
    """Add a text to turns of documents alone; return the changes.

    Raises:
        RequestError: a turn has too many documents.
    """
    changes = []
    for number, turn in enumerate(turns):
        blocks = turn["content"]
        count = sum(TEXT_BESIDE in block for block in blocks)
        if count > MAX_DOCUMENTS:
            what = f"more than {MAX_DOCUMENTS} documents"
            raise unsupported(f"messages: turn {number + 1}", what, format=FORMAT)
        if count and not any("text" in block for block in blocks):
            changes = [f"does not allow a {TEXT_BESIDE} without a text: added one"]
            turn["content"] = [*blocks, {"text": f"See the {TEXT_BESIDE}."}]
    return changes


def limit_points(*lists: list[dict[str, Any]]) -> list[str]:
    """Remove the first cache points beyond those that are allowed; return the change."""
    surplus = sum("cachePoint" in one for blocks in lists for one in blocks) - MAX_POINTS
    if surplus <= 0:
        return []
    for blocks in lists:
        kept = []
        for one in blocks:
            if "cachePoint" in one and surplus > 0:
                surplus -= 1
            else:
                kept.append(one)
        blocks[:] = kept
    return [f"allows {MAX_POINTS} cache_control: dropped the first"]


def render_text(content: object) -> list[dict[str, Any]]:
    """Return the block of a text; Bedrock rejects a blank one."""
    text = join_text(content) if isinstance(content, str | list) else ""
    return [{"text": text}] if text.strip() else []


def _render_reasoning(part: ReasoningPart | OpaquePart) -> list[dict[str, Any]]:
    """Return Claude's signed reasoning; Bedrock rejects unsigned reasoning."""
    if isinstance(part, OpaquePart):
        if part.format == SIGNATURE:
            return [_reasoning_text("", part.data)]
        blob = render_redacted(part.format, part.data)
        return [{"reasoningContent": {"redactedContent": blob}}] if blob else []
    if part.signature and part.format in (None, SIGNATURE):
        return [_reasoning_text(part.text, part.signature)]
    return []


def _reasoning_text(text: str, signature: str) -> dict[str, Any]:
    return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}


def _render_image(part: ImagePart, *, path: str) -> dict[str, Any]:
    url = part.image_url.url
    if url.startswith("s3://"):
        kind = {"jpg": "jpeg"}.get(ending := url.rpartition(".")[2].lower(), ending)
        if kind not in IMAGES.values():
            raise unsupported(path, "an image of an unknown type", format=FORMAT)
        return {"image": {"format": kind, "source": {"s3Location": {"uri": url}}}}
    parsed = parse_data_url(url)
    if parsed is None:
        raise unsupported(path, "an image by its URL (send a data: URL)", format=FORMAT)
    media_type, data = parsed
    if media_type not in IMAGES:
        raise unsupported(path, f"an image of the type {media_type[:80]!r}", format=FORMAT)
    return {"image": {"format": IMAGES[media_type], "source": {"bytes": data}}}


def _render_video(part: VideoPart, *, path: str) -> dict[str, Any]:
    url = part.video_url.url
    parsed = parse_data_url(url)
    ending = parsed[0].removeprefix("video/") if parsed else url.rpartition(".")[2].lower()
    kind = VIDEOS.get(ending, ending)
    if parsed is None and not url.startswith("s3://"):
        raise unsupported(path, "a video by its URL (send a data: or s3: URL)", format=FORMAT)
    if kind not in VIDEOS.values():
        raise unsupported(path, f"a video of the type {ending[:80]!r}", format=FORMAT)
    source: dict[str, Any] = {"bytes": parsed[1]} if parsed else {"s3Location": {"uri": url}}
    return {"video": {"format": kind, "source": source}}


def _render_document(part: FilePart, *, path: str, names: DocumentNames) -> dict[str, Any]:
    parsed = parse_data_url(part.file.file_data or "")
    if parsed is None:
        subject = "a file by its id" if part.file.file_id else "a file without a data: URL"
        raise unsupported(path, subject, format=FORMAT)
    media_type, data = parsed
    if media_type not in DOCUMENTS:
        raise unsupported(path, f"a file of the type {media_type[:80]!r}", format=FORMAT)
    name = names.take(part.file.filename)
    source = {"bytes": data}
    return {"document": {"format": DOCUMENTS[media_type], "name": name, "source": source}}

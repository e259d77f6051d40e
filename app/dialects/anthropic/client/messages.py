"""Parser of the messages of Anthropic's clients, to those of the chat request.

A block that the chat request cannot express becomes a short text, and a notice names its type:
so one such block does not end a session with another provider. An upstream of
Anthropic's format receives the client's own body.
"""

from typing import Any, Final, Literal

import msgspec

from ....requests import (
    AssistantMessage,
    FilePart,
    FileSource,
    FunctionCall,
    ImagePart,
    ImageUrl,
    Message,
    Opaque,
    OpaquePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    convert_body,
)
from ...answering.assistant_message import AssistantPart, build_reasoning
from ...answering.ids import unpack_id
from ...reasoning_signatures import (
    CLAUDE_REDACTED,
    CLAUDE_THINKING,
    UNSIGNED,
    PackedSignature,
    unpack,
)
from ...writing.cache_marks import last_mark, parse_mark
from .. import ATTRIBUTION
from .block_texts import render_text

Block = dict[str, Any]
Content = str | list[Block]


class Turn(msgspec.Struct, frozen=True):
    """A message; its blocks are parsed one by one."""

    role: Literal["user", "assistant", "system"]
    content: Content


class _Kind(msgspec.Struct, frozen=True):
    type: str


class _Text(msgspec.Struct, frozen=True):
    text: str
    cache_control: Any = None


class _Source(msgspec.Struct, frozen=True):
    type: str
    media_type: str = ""
    data: str = ""
    url: str = ""
    content: Content = ""


class _Image(msgspec.Struct, frozen=True):
    source: _Source
    cache_control: Any = None


class _Document(msgspec.Struct, frozen=True):
    source: _Source
    title: str | None = None
    context: str | None = None
    cache_control: Any = None


class _ToolUse(msgspec.Struct, frozen=True):
    id: str
    name: str
    input: dict[str, Any]
    cache_control: Any = None


class _ToolResult(msgspec.Struct, frozen=True):
    tool_use_id: str
    content: Content | None = None
    is_error: bool | None = None
    cache_control: Any = None


class _Thinking(msgspec.Struct, frozen=True):
    thinking: str
    signature: str = ""


class _Redacted(msgspec.Struct, frozen=True):
    data: str


UserPart = TextPart | ImagePart | FilePart

_DROPPED: Final = ("fallback",)
"""Types of blocks without content for a model."""
_MAX_KINDS: Final = 10
"""Types of blocks in a notice."""
_MAX_IGNORED: Final = 20
"""Members in a notice."""

_BLOCKS: Final[dict[str, type[msgspec.Struct]]] = {
    "text": _Text,
    "image": _Image,
    "document": _Document,
    "tool_use": _ToolUse,
    "tool_result": _ToolResult,
    "thinking": _Thinking,
    "redacted_thinking": _Redacted,
}
_PLAIN: Final = frozenset(("type", "caller"))
"""Members of blocks that lose nothing: the relay adds a `caller` to each call."""


class Conversation:
    """Converts Anthropic's messages, one by one, to those of the chat request."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.shortened: dict[str, None] = {}
        """The types of the blocks that became texts, in order."""
        self.ignored: dict[str, None] = {}
        """The paths of members that the chat request lacks, in order."""

    def note(self, fields: Block, kind: type[msgspec.Struct], *, path: str) -> None:
        """Record the members of an object that its type lacks."""
        for name in sorted(fields.keys() - kind.__struct_fields__ - _PLAIN):
            if fields[name] not in (None, "", []) and len(self.ignored) < _MAX_IGNORED:
                self.ignored[f"{path}.{name[:60]}"] = None

    def _kind(self, block: Block, path: str) -> str:
        """Return the type of a block, and record its unknown members."""
        kind = convert_body(block, _Kind, path=path).type
        if (known := _BLOCKS.get(kind)) is not None:
            self.note(block, known, path="messages[].content[]")
        return kind

    def system(self, content: Content, *, path: str = "system") -> None:
        """Add the system prompt, without Claude Code's mark."""
        parts = [
            part if isinstance(part, TextPart) else self._shorten("media of the system", {})
            for part in self._parts(content, path=path)
        ]
        parts = [part for part in parts if not part.text.startswith(ATTRIBUTION)]
        if parts:
            self.messages.append(SystemMessage(_simplify(parts)))

    def turn(self, turn: Turn, *, path: str) -> None:
        """Add a message."""
        match turn.role:
            case "user" | "assistant" if isinstance(turn.content, str):
                kind = UserMessage if turn.role == "user" else AssistantMessage
                self.messages += [kind(turn.content)] if turn.content else []
            case "user":
                self._user(turn.content, path=path)
            case "assistant":
                self._assistant(turn.content, path=path)
            case _:
                self.system(turn.content, path=f"{path}.content")

    def _user(self, content: Content, *, path: str) -> None:
        """Add a user's turn: tool results come first, directly after the calls."""
        parts: list[UserPart] = []
        for block, where in _blocks(content, path=f"{path}.content"):
            if self._kind(block, where) == "tool_result":
                parts += self._result(convert_body(block, _ToolResult, path=where), path=where)
            else:
                parts += self._part(block, path=where)
        if parts:
            self.messages.append(UserMessage(_simplify(parts)))

    def _result(self, result: _ToolResult, *, path: str) -> list[UserPart]:
        """Add a result; return its files for the user message, since no other format nests them."""
        parts: list[TextPart | ImagePart] = []
        files: list[UserPart] = []
        for part in self._parts(result.content or "", path=f"{path}.content"):
            if isinstance(part, FilePart):
                # For a provider without files, the text in the result replaces it.
                files.append(msgspec.structs.replace(part, optional=True))
                name = part.file.filename
                parts.append(self._shorten("document", {"title": name} if name else {}))
            else:
                parts.append(part)
        call = unpack_id(result.tool_use_id)
        mark = parse_mark(result.cache_control)
        self.messages.append(
            ToolMessage(
                _simplify(parts), call, is_error=result.is_error or None, cache_control=mark
            )
        )
        return files

    def _parts(self, content: Content, *, path: str) -> list[UserPart]:
        return [
            part
            for block, where in _blocks(content, path=path)
            for part in self._part(block, path=where)
        ]

    def _part(self, block: Block, *, path: str) -> list[UserPart]:
        """Return the parts of a block of a user message, a result or the system prompt."""
        match self._kind(block, path):
            case "text":
                return [*_text(block, path=path)]
            case "image":
                image = convert_body(block, _Image, path=path)
                source = image.source
                url = _url(source)
                if url is not None:
                    return [ImagePart(ImageUrl(url), parse_mark(image.cache_control))]
                return [self._shorten("image", block["source"])]
            case "document":
                return self._document(block, path=path)
            case kind:
                return [self._shorten(kind, block)]

    def _shorten(self, kind: str, block: Block) -> TextPart:
        """Return the text that replaces a block, and record its type."""
        if len(self.shortened) < _MAX_KINDS:
            self.shortened[kind[:60]] = None
        summary = block.get("content")
        if kind == "compaction" and isinstance(summary, str):
            return TextPart(f"[compaction: {summary}]")  # all that is left of the conversation
        return TextPart(render_text(kind, block))

    def _document(self, block: Block, *, path: str) -> list[UserPart]:
        document = convert_body(block, _Document, path=path)
        source = document.source
        context = [TextPart(document.context)] if document.context else []
        if source.type == "text":
            title = [TextPart(document.title)] if document.title else []
            return [*title, *context, TextPart(source.data, parse_mark(document.cache_control))]
        if source.type == "base64":
            url = f"data:{source.media_type};base64,{source.data}"
            file = FileSource(file_data=url, filename=document.title)
            return [*context, FilePart(file, parse_mark(document.cache_control))]
        if source.type == "content":
            title = [TextPart(document.title)] if document.title else []
            return [*title, *context, *self._parts(source.content, path=f"{path}.source.content")]
        if source.type == "url":
            file = FileSource(file_url=source.url, filename=document.title)
            return [*context, FilePart(file, parse_mark(document.cache_control))]
        fields = {"title": document.title, **block["source"]}
        return [*context, self._shorten("document", fields)]

    def _assistant(self, content: Content, *, path: str) -> None:
        parts: list[AssistantPart] = []
        uses: list[_ToolUse] = []
        opaque: dict[str, list[Opaque]] = {}
        for block, where in _blocks(content, path=f"{path}.content"):
            match self._kind(block, where):
                case "text":
                    parts += _text(block, path=where)
                case "thinking":
                    parts += _think(convert_body(block, _Thinking, path=where))
                case "redacted_thinking":
                    data = convert_body(block, _Redacted, path=where).data
                    packed = unpack(data) or PackedSignature(CLAUDE_REDACTED, data=data)
                    parts += _opaque(packed, opaque)
                case "tool_use":
                    uses.append(convert_body(block, _ToolUse, path=where))
                case kind if kind not in _DROPPED:
                    parts.append(self._shorten(kind, block))
        calls = [
            ToolCall(
                unpack_id(use.id),
                FunctionCall(use.name, msgspec.json.encode(use.input).decode()),
                opaque=opaque.get(use.id),
            )
            for use in uses
        ]
        if parts or calls:
            # The calls come last, so the last mark of a call covers the message.
            mark = parse_mark(last_mark(uses))
            answer = _simplify(parts) or None
            message = AssistantMessage(answer, tool_calls=calls or None, cache_control=mark)
            self.messages.append(message)


def _simplify(parts: list[Any]) -> Any:
    """Return a single text as a string, which every upstream accepts."""
    if not parts:
        return ""
    alone = len(parts) == 1 and isinstance(parts[0], TextPart)
    return parts[0].text if alone and parts[0].cache_control is None else parts


def _blocks(content: Content, *, path: str) -> list[tuple[Block, str]]:
    if isinstance(content, str):
        return [({"type": "text", "text": content}, path)]
    return [(block, f"{path}[{number}]") for number, block in enumerate(content)]


def _url(source: _Source) -> str | None:
    match source.type:
        case "base64":
            return f"data:{source.media_type};base64,{source.data}"
        case "url":
            return source.url
        case _:
            return None


def _text(block: Block, *, path: str) -> list[TextPart]:
    """Return the part of a text block; none for an empty text."""
    text = convert_body(block, _Text, path=path)
    return [TextPart(text.text, parse_mark(text.cache_control))] if text.text else []


def _think(block: _Thinking) -> list[AssistantPart]:
    """Return the reasoning of a thinking block, with the signature in its provider's format."""
    packed = unpack(block.signature)
    if packed is not None or not block.signature:
        return build_reasoning(block.thinking, packed or UNSIGNED)
    if not block.thinking:
        return [OpaquePart(CLAUDE_THINKING, block.signature)]
    return [ReasoningPart(block.thinking, block.signature, format=CLAUDE_THINKING)]


def _opaque(packed: PackedSignature, opaque: dict[str, list[Opaque]]) -> list[AssistantPart]:
    """Return an opaque part; add a call's to `opaque` instead, under the call's id."""
    value = Opaque(packed.format or "", packed.data or "")
    if packed.call is None:
        return [OpaquePart(value.format, value.data)]
    opaque.setdefault(packed.call, []).append(value)
    return []

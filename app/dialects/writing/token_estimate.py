"""Estimate of the tokens of a request or an answer, without its provider. No I/O.

A token is four characters of ASCII, two of the alphabets with two bytes in UTF-8, one of
Chinese, Japanese or Korean, and half an emoji. Tokenizers differ from this by a third either
way in prose, and by more in code. Images count as the largest that Anthropic does not shrink,
files by their size.
"""

from collections.abc import Iterable
from typing import Any, Final, assert_never

import msgspec

from ...events import (
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
)
from ...requests import (
    AssistantMessage,
    AudioPart,
    ChatRequest,
    FilePart,
    ImagePart,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolMessage,
    VideoPart,
)

REQUEST: Final = 3
"""Tokens before the answer."""
MESSAGE: Final = 4
"""The role of a message, and its end mark."""
TOOL: Final = 12
"""Overhead of a tool, a call or a result."""
TOOLS: Final = 300
"""The provider's own instructions about tools, if the request has any."""
IMAGE: Final = 1_600
MADE_IMAGE: Final = 1_300
"""A generated image: Gemini's count, and OpenAI's for medium quality."""
VIDEO_IMAGES: Final = 10
"""A video is estimated as so many images: Gemini's minute has 16,000 tokens."""
SMALL_IMAGE: Final = 85
"""An image of low detail."""
STORED_FILE: Final = 2_000
"""A small file, or a file by its id: a page."""

_FILE_BYTES: Final = 40
"""Bytes of a PDF per token: a page has some 80 KB and 2,000 tokens."""
AUDIO_BYTES: Final = 1_000
"""Bytes of audio per token: 32 KB and 32 tokens a second."""

_ASCII: Final = bytes(range(0x80))
_TAILS: Final = bytes(range(0x80, 0xC0))
_TWO: Final = bytes(range(0xC0, 0xE0))
_FOUR: Final = bytes(range(0xF0, 0x100))


def estimate_tokens(chat: ChatRequest) -> int:
    """Estimate the input tokens of a request; at least one."""
    total = REQUEST + MESSAGE * len(chat.messages)
    for message in chat.messages:
        content = message.content
        if isinstance(content, str):
            total += -(-len(content) // 4) if content.isascii() else estimate_text(content)
        else:
            total += sum(map(_part, content or ()))
        if type(message) is AssistantMessage:
            total += _assistant(message)
        if not isinstance(message, ToolMessage) and message.name:
            total += estimate_text(message.name)
    if chat.tools or chat.client_body is not None:
        total += _tools(chat)
    # Provider options may contain documents, or a conversation.
    for fields in filter(None, (chat.response_format, chat.provider_options, chat.extras)):
        total += estimate_text(msgspec.json.encode(fields))
    body = chat.client_body
    if body is not None and (
        body.untranslatable or body.ignored or body.unsupported or body.shortened
    ):
        # The chat request lacks parts of the client's body.
        total = max(total, tokens_of(_weigh_value(body.body)))
    return total


def _weigh_value(value: Any) -> int:
    """Estimate all texts of a JSON value, in quarters of a token: 0.2 us a value."""
    weight = 0
    unvisited = [value]
    while unvisited:
        match unvisited.pop():
            case str(text):
                is_file = text.startswith("data:")
                weight += 4 * _file_or_image(text) if is_file else weigh_text(text)
            case {"type": "base64", "data": str(data)}:
                weight += 4 * _file_or_image(data)
            case dict(fields):
                unvisited += fields.values()
            case list(items):
                unvisited += items
            case _:
                weight += 1
    return weight


def _file_or_image(data: str) -> int:
    return max(IMAGE, _file(data))


def estimate_text(text: str | bytes) -> int:
    """Estimate the tokens of a text: 1 ns a byte."""
    return -(-weigh_text(text) // 4)


_WEIGHTLESS: Final = frozenset(
    (StreamStart, StreamTarget, TextStart, TextEnd, ChoiceEnd, StreamEnd)
)
"""Events of nearly every answer that `weigh_event` would return 0 for."""


def estimate_output(events: Iterable[Event]) -> int:
    """Estimate the tokens of an answer, or of a part of one: 0.1 us an event."""
    texts: list[str] = []
    weight = 0
    for event in events:
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta:
            texts.append(event.text)  # type: ignore[union-attr]  # it is one of the two
        elif kind not in _WEIGHTLESS:
            weight += weigh_event(event)
    return tokens_of(weight + weigh_text("".join(texts)))


def weigh_event(event: Event) -> int:
    """Estimate a piece of an answer, in quarters of a token."""
    match event:
        case TextDelta() | ReasoningDelta() | RefusalDelta():
            return weigh_text(event.text)
        case ToolCallDelta():
            return weigh_text(event.arguments)
        case ToolCallStart():
            return 4 * TOOL + weigh_text(event.name)
        case Media(media_type=kind, data=data):
            sound = len(data or "") * 3 // 4 // AUDIO_BYTES
            return 4 * (sound if kind.startswith("audio/") else MADE_IMAGE)
        case TextStart() | ReasoningStart() | RefusalStart():
            return 0
        case TextEnd() | ReasoningEnd() | RefusalEnd() | ToolCallEnd() | ChoiceEnd():
            return 0
        case Opaque() | Source() | LogProbs() | ContentFilter() | ProviderTool() | Notice():
            return 0
        case ProviderData() | StreamStart() | StreamTarget() | Usage() | StreamEnd():
            return 0
        case _:
            assert_never(event)


def has_unsized(chat: ChatRequest) -> bool:
    """Return whether a request has a video, or a file of unknown size."""
    return any(
        isinstance(part, VideoPart)
        or (isinstance(part, FilePart) and not (part.file.file_data or "").startswith("data:"))
        for message in chat.messages
        if isinstance(message.content, list)
        for part in message.content
    )


def has_media(chat: ChatRequest) -> bool:
    """Return whether a request has images, videos, audio or files."""
    return any(
        isinstance(part, ImagePart | VideoPart | AudioPart | FilePart)
        for message in chat.messages
        if isinstance(message.content, list)
        for part in message.content
    )


def tokens_of(weight: int) -> int:
    """Convert quarters of a token to tokens, rounded up."""
    return -(-weight // 4)


def weigh_text(text: str | bytes) -> int:
    """Estimate a text, in quarters of a token."""
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if data.isascii():
        return len(data)
    heads = data.translate(None, _TAILS)
    others = heads.translate(None, _ASCII)
    two = len(others) - len(others.translate(None, _TWO))
    four = len(others) - len(others.translate(None, _FOUR))
    three = len(others) - two - four
    return len(heads) - len(others) + 2 * two + 4 * three + 8 * four


def _assistant(message: AssistantMessage) -> int:
    """Estimate what an assistant message has beside its content."""
    total = 0
    if message.refusal or message.reasoning_content:
        total += estimate_text(message.refusal or "")
        total += estimate_text(message.reasoning_content or "")
    for call in message.tool_calls or ():
        function = call.function
        total += TOOL + estimate_text(function.name) + estimate_text(function.arguments)
    return total


def _part(part: Any) -> int:
    match part:
        case TextPart() | ReasoningPart():
            return estimate_text(part.text)
        case RefusalPart():
            return estimate_text(part.refusal)
        case ImagePart():
            return SMALL_IMAGE if part.image_url.detail == "low" else IMAGE
        case AudioPart():
            return max(1, len(part.input_audio.data) * 3 // 4 // AUDIO_BYTES)
        case VideoPart():
            return IMAGE * VIDEO_IMAGES
        case FilePart():
            return _file(part.file.file_data or "")
        case OpaquePart():
            return estimate_text(part.data)
        case _:
            return estimate_text(msgspec.json.encode(part))


def _file(data: str) -> int:
    head, _, coded = data.partition(",")
    size = len(coded or head) * 3 // 4
    if head.startswith("data:text/"):
        return -(-size // 4)
    return max(STORED_FILE, size // _FILE_BYTES)


def _tools(chat: ChatRequest) -> int:
    client_body = chat.client_body
    listed = client_body.body.get("tools") if client_body else None
    if isinstance(listed, list) and listed:
        # The client's tools may have fields that the chat request lacks.
        return TOOLS + TOOL * len(listed) + estimate_text(msgspec.json.encode(listed))
    sizes = [TOOL + estimate_text(msgspec.json.encode(tool)) for tool in chat.tools or ()]
    return TOOLS + sum(sizes) if sizes else 0

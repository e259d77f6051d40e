"""Prompt-cache affinity: a conversation keeps its target, whose provider has cached its prefix.

Rendezvous hashing: each target has a number by the conversation, its owner and its own name. So all
processes with one secret agree without shared state, and only the conversations of a target that is
added or removed move.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from ..requests import (
    AssistantMessage,
    AudioPart,
    ChatRequest,
    FilePart,
    ImagePart,
    RefusalPart,
    TextPart,
    ToolMessage,
    UserMessage,
)

MAX_HASHED: Final = 65_536
"""Characters that are hashed, of all contents together: the first and the last ones of each, so
that a long system prompt does not hide the question after it."""


SESSION_KEYS: Final = ("session_id", "thread_id", "chat")
"""The keys of metadata with a conversation's id: the client's own, AG-UI's, the AI SDK's."""


def hash_conversation(
    chat: ChatRequest,
    metadata: Mapping[str, str] | None = None,
    *,
    owner: str = "",
    secret: bytes = b"",
) -> bytes:
    """Return the key of an owner's conversation, the same for all its turns: 2 us if it is short.

    Without the `secret`, of at most 64 bytes, nobody can compute which conversations share a
    target.

    It depends on `prompt_cache_key`, or without one on the conversation's id in the metadata, or
    without one on the system prompt and the user's texts and media before the model's first answer.
    Tools are left out, since agents load them later; so are cache marks, which move.
    """
    name = chat.prompt_cache_key or _find_session(chat, metadata or {})
    parts = [name] if name else list(_opening(chat))
    if sum(map(len, parts)) > MAX_HASHED:
        half = max(1, MAX_HASHED // (2 * len(parts)))
        parts = [part if len(part) <= 2 * half else part[:half] + part[-half:] for part in parts]
    text = "\0".join((owner, *parts)).encode()
    return blake2b(text, digest_size=16, key=secret).digest()


def draw(key: bytes, target: str) -> float:
    """Return the number of a target for a conversation, uniform in [0, 1): 1 us."""
    digest = blake2b(key + target.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) / 2**53


def _find_session(chat: ChatRequest, metadata: Mapping[str, str]) -> str | None:
    found = next((metadata[key] for key in SESSION_KEYS if metadata.get(key)), None)
    if found is None and chat.extras:
        extra = chat.extras.get("session_id")
        return extra if isinstance(extra, str) else None
    return found


def _opening(chat: ChatRequest) -> Iterator[str]:
    """Yield the contents before the first answer; a greeting is not one."""
    has_user_turn = False
    for message in chat.messages:
        kind, content = type(message), message.content
        if has_user_turn and kind is AssistantMessage:
            return
        has_user_turn = has_user_turn or kind is UserMessage or kind is ToolMessage
        if isinstance(content, str):
            yield content
        elif content:
            yield from _contents(content)


def _contents(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts:
        match part:
            case TextPart():
                yield part.text
            case RefusalPart():
                yield part.refusal
            case ImagePart():
                yield part.image_url.url
            case AudioPart():
                yield part.input_audio.data
            case FilePart():
                yield part.file.file_data or part.file.file_id or ""

"""Fast path for chunks that contain only text, finish reasons and usage.

Nearly every chunk is one; decoding into types instead of dicts takes 0.6 of the time in a
stream. All other fields that `chunks` and `parser` read are declared as null here, so that a
chunk with any of them fails to decode and takes the full path. For a client of the same dialect
any unknown field does, and `provider_members` compares the declared ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

MAX_CHOICES: Final = 128
"""The highest `n` that OpenAI accepts; any other index is treated as 0."""


class ChunkDelta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None
    reasoning_details: None = None
    thinking_blocks: None = None
    extra_content: None = None
    audio: None = None
    images: None = None
    annotations: None = None
    executed_tools: None = None


class ChunkChoice(msgspec.Struct, gc=False):
    delta: ChunkDelta
    index: int = 0
    finish_reason: str | None = None
    native_finish_reason: None = None
    stop_reason: None = None
    logprobs: None = None
    content_filter_results: None = None
    usage: None = None
    error: None = None


class TextChunk(msgspec.Struct, gc=False):
    choices: Sequence[ChunkChoice]
    id: Any = None
    model: Any = None
    object: str = ""
    type: None = None
    error: None = None
    usage: dict[str, Any] | None = None
    service_tier: Any = None
    base_resp: None = None
    x_groq: None = None
    moderation: None = None
    prompt_filter_results: None = None
    search_results: None = None
    citations: None = None
    web_search: None = None


class SameDialectDelta(ChunkDelta, forbid_unknown_fields=True, gc=False):
    role: Any = None
    channel: str | None = None
    """Groq's, for gpt-oss."""
    token_id: Any = None


class SameDialectChoice(ChunkChoice, forbid_unknown_fields=True, gc=False):
    delta: SameDialectDelta
    token_ids: None = None
    seed: None = None
    text: Any = None


class SameDialectChunk(TextChunk, forbid_unknown_fields=True, gc=False):
    """A text chunk for a client of the same dialect."""

    choices: Sequence[SameDialectChoice]
    created: Any = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    provider: str | None = None
    obfuscation: Any = None
    p: Any = None


Chunk = TypeVar("Chunk", bound=TextChunk)
Decode = Callable[[str], Chunk]

decode_any: Decode[TextChunk] = msgspec.json.Decoder(TextChunk).decode
decode_same_dialect: Decode[SameDialectChunk] = msgspec.json.Decoder(SameDialectChunk).decode


def parse(data: str, decode: Decode[Chunk]) -> Chunk | None:
    """Parse a text chunk; return None for any other message."""
    try:
        chunk = decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return None if chunk.object == "error" else chunk

"""A chunk of a Chat Completions stream that has text, and nothing else that is read.

Nearly every message is one, so it has a way of its own: decoded into types, without a table
for each of its objects, it takes 0.6 of the time in a stream. Whatever else `chunks` and
`parser` look at stands here as null: a chunk that has any of it is not parsed here, but
read in full.
"""

import msgspec


class Delta(msgspec.Struct, gc=False):
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


class Choice(msgspec.Struct, gc=False):
    delta: Delta
    index: int = 0
    finish_reason: None = None
    logprobs: None = None
    content_filter_results: None = None
    usage: None = None
    error: None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice]
    object: str = ""
    type: None = None
    error: None = None
    usage: None = None
    base_resp: None = None
    x_groq: None = None
    moderation: None = None
    prompt_filter_results: None = None
    search_results: None = None
    citations: None = None
    web_search: None = None


_decode = msgspec.json.Decoder(Chunk).decode


def parse(data: str) -> Chunk | None:
    """Read a message; None if it is any other chunk."""
    try:
        chunk = _decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return None if chunk.object == "error" else chunk

"""The demo's vectors: texts that share words lie near each other.

A vector is the sum of a fixed direction for each word, at unit length. The same text always has
the same one.
"""

import hashlib
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from .renderer import Step
from .request import ApiError

MODEL: Final = "demo-embedding"

DIMENSIONS: Final = 256
MAX_TEXTS: Final = 1_000
MAX_WORDS: Final = 300
"""Distinct words of a text that count: each takes some microseconds."""

MAX_TOKENS: Final = 10_000
"""Limit on one text that comes as tokens."""

_WORD: Final = re.compile(r"[^\W_]+")
_LONG: Final = 20_000
"""Characters of a text that count."""
_MOMENT: Final = 1e-6
"""A pause that yields to other tasks, in tokens."""


class _Request(msgspec.Struct, frozen=True):
    model: str
    input: str | Annotated[list[str | int | list[int]], Meta(min_length=1, max_length=MAX_TOKENS)]
    dimensions: Annotated[int, Meta(ge=1, le=1024)] = DIMENSIONS


_decoder = msgspec.json.Decoder(_Request)


def render_embeddings(body: bytes) -> Iterator[Step]:
    """Answer a request for embeddings, a vector at a time.

    Raises:
        ApiError: the request is invalid, or names another model.
    """
    try:
        request = _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ApiError(400, str(error)) from None
    if request.model != MODEL:
        reason = f"The model {request.model!r} makes no embeddings; {MODEL!r} does"
        raise ApiError(404, reason, code="model_not_found")
    given = request.input
    one = isinstance(given, str) or isinstance(given[0], int)
    texts = [_text(item) for item in ([given] if one else given)]
    if len(texts) > MAX_TEXTS:
        raise ApiError(400, f"input: {MODEL} takes at most {MAX_TEXTS} texts in a request")
    return _steps(texts, request)


def _steps(texts: list[str], request: _Request) -> Iterator[Step]:
    yield Step(0, b'{"object":"list","data":[')
    for index, text in enumerate(texts):
        vector = embed(text, dimensions=request.dimensions)
        row = {"object": "embedding", "index": index, "embedding": vector}
        yield Step(_MOMENT, b"," * bool(index) + msgspec.json.encode(row))
    tokens = sum(-(-len(text.encode(errors="replace")) // 4) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    rest = msgspec.json.encode({"model": MODEL, "usage": usage})
    yield Step(0, b"]," + rest.removeprefix(b"{"))


def _text(item: Any) -> str:
    """Return a text; tokens become one too, since they have no meaning here."""
    return item if isinstance(item, str) else " ".join(map(str, item))


def embed(text: str, *, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the vector of a text, of length 1."""
    words = Counter(_WORD.findall(text[:_LONG].casefold()) or [text[:_LONG]])
    sums = [0.0] * dimensions
    for word, times in words.most_common(MAX_WORDS):
        weight = math.sqrt(times)
        digest = hashlib.shake_128(word.encode(errors="replace")).digest(16)
        for at in range(0, 16, 2):
            value = int.from_bytes(digest[at : at + 2])
            sums[(value >> 1) % dimensions] += weight if value & 1 else -weight
    length = math.hypot(*sums)
    if not length:
        sums[0] = length = 1.0
    return array("f", (value / length for value in sums)).tolist()  # float32, as in base64

"""Ollama's embeddings."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ...embeddings import EmbeddingsCall, Parsed, Request, rename
from ...reading.json_values import count, short

_FIELDS: Final = {"dimensions": "dimensions", "truncate": "truncate"}


class _Answer(msgspec.Struct):
    embeddings: list[Raw]
    prompt_eval_count: Any = None
    model: Any = None


_decoder = msgspec.json.Decoder(_Answer)


def _render(request: Request, inputs: Sequence[str], *, model: str, **_: object) -> dict[str, Any]:
    more = rename(request, _FIELDS)
    return {"input": inputs, **more, **request.provider_options, "model": model}


def _parse(body: bytes) -> Parsed:
    answer = _decoder.decode(body)
    return Parsed(answer.embeddings, count(answer.prompt_eval_count), short(answer.model))


EMBEDDINGS: Final = (EmbeddingsCall("api/embed", _render, _parse, fields=_FIELDS),)

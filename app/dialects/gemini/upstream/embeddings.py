"""Embeddings of Google's API, and of Vertex AI for the same models."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ...embeddings_calls import EmbeddingsCall, Parsed, Request, add_counts, rename
from ...reading.json_values import count, mapping
from .request import GOOGLES

_FIELDS: Final = {
    "dimensions": "outputDimensionality",
    "task_type": "taskType",
    "title": "title",
}
_ABOUT: Final = {"task_type": "task_type", "title": "title"}


class _Values(msgspec.Struct):
    values: Raw
    statistics: Any = None


class _Answer(msgspec.Struct, rename="camel"):
    embeddings: list[_Values]
    usage_metadata: Any = None


_decoder = msgspec.json.Decoder(_Answer)


def _render(request: Request, inputs: Sequence[str], *, model: str, **_: object) -> dict[str, Any]:
    options = {**rename(request, _FIELDS), **request.provider_options}
    shared = {"model": f"models/{model}", **options}
    return {"requests": [{**shared, "content": {"parts": [{"text": text}]}} for text in inputs]}


def _parse(body: bytes) -> Parsed:
    answer = _decoder.decode(body)
    usage = mapping(answer.usage_metadata)
    return Parsed([row.values for row in answer.embeddings], count(usage.get("promptTokenCount")))


class _Prediction(msgspec.Struct):
    embeddings: _Values


class _Predictions(msgspec.Struct):
    predictions: list[_Prediction]


_predictions = msgspec.json.Decoder(_Predictions)


def _render_instances(request: Request, inputs: Sequence[str], **_: object) -> dict[str, Any]:
    about = rename(request, _ABOUT)
    parameters = {
        **rename(request, {"dimensions": "outputDimensionality"}),
        **request.provider_options,
    }
    instances = [{"content": text, **about} for text in inputs]
    return {"instances": instances, **({"parameters": parameters} if parameters else {})}


def _parse_predictions(body: bytes) -> Parsed:
    rows = [one.embeddings for one in _predictions.decode(body).predictions]
    tokens = [count(mapping(row.statistics).get("token_count")) for row in rows]
    return Parsed([row.values for row in rows], add_counts(tokens))


EMBEDDINGS: Final = (
    EmbeddingsCall(
        "models/{model}:predict",
        _render_instances,
        _parse_predictions,
        most=1,  # the limit of gemini-embedding-001
        fields=_FIELDS,
        base_url=GOOGLES,
    ),
    EmbeddingsCall("models/{model}:batchEmbedContents", _render, _parse, most=100, fields=_FIELDS),
)

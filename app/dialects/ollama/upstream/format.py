"""Ollama's native API for upstreams."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ....framing.ndjson import NdjsonDecoder
from ...embeddings_calls import EmbeddingsCall, Parsed, Request, rename
from ...reading.json_values import count, short
from ...upstream_format import OptionNames, Quirks, UpstreamFormat, under
from . import request
from .parser import Parser

_OPTIONS = OptionNames(
    refused={"another model": "adapter*", "another destination": "remote*"},
    safe=(
        "think format logprobs top_logprobs truncate shift"
        + under(
            "options",
            "frequency_penalty min_p mirostat* num_keep num_predict penalize_newline "
            "presence_penalty repeat_last_n repeat_penalty seed stop temperature tfs_z top_k "
            "top_p typical_p",
        )
    ),
)

_EMBEDDING_FIELDS: Final = {"dimensions": "dimensions", "truncate": "truncate"}


class _Embeddings(msgspec.Struct):
    embeddings: list[Raw]
    prompt_eval_count: Any = None
    model: Any = None


_embeddings = msgspec.json.Decoder(_Embeddings)


def _render_embeddings(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    more = rename(request, _EMBEDDING_FIELDS)
    return {"input": inputs, **more, **request.provider_options, "model": model}


def _parse_embeddings(body: bytes) -> Parsed:
    answer = _embeddings.decode(body)
    return Parsed(answer.embeddings, count(answer.prompt_eval_count), short(answer.model))


DIALECT = UpstreamFormat(
    path="api/chat",
    decoder=NdjsonDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=Quirks,
    models_path="api/tags",
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    options=_OPTIONS,
    limit="options.num_predict",
    embeddings=(
        EmbeddingsCall(
            "api/embed", _render_embeddings, _parse_embeddings, fields=_EMBEDDING_FIELDS
        ),
    ),
)

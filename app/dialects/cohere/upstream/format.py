"""Cohere's v2 chat for upstreams."""

from collections.abc import Sequence
from typing import Any

from ....framing.lenient import LenientDecoder
from ...embeddings_calls import COHERE_FIELDS, EmbeddingsCall, Request, parse_cohere, render_cohere
from ...upstream_format import OptionNames, UpstreamFormat
from . import request
from .parser import Parser


def _render_embeddings(
    request: Request, inputs: Sequence[str], *, model: str, **_: object
) -> dict[str, Any]:
    return {**render_cohere(request, inputs), "model": model}


_OPTIONS = OptionNames(
    refused={
        "another destination": "connectors",
        "another bill": "priority",
        "what is stored": "conversation_id chat_history_id",
    },
    safe=(
        "k p temperature seed max_tokens stop_sequences frequency_penalty presence_penalty"
        " logprobs safety_mode documents citation_options thinking response_format strict_tools"
        " tool_choice tools.function"
    ),
)

DIALECT = UpstreamFormat(
    path="v2/chat",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    # The default is 20 models of every kind.
    models_path="v1/models?endpoint=chat&page_size=1000",
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    options=_OPTIONS,
    embeddings=(
        EmbeddingsCall("v2/embed", _render_embeddings, parse_cohere, most=96, fields=COHERE_FIELDS),
    ),
    forwarded={"rerank": "v2/rerank"},
    provider="cohere",
)

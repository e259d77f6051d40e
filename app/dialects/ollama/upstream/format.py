"""Ollama's native chat API for upstreams."""

from ....framing.ndjson import NdjsonDecoder
from ...upstream_format import OptionNames, Quirks, UpstreamFormat, under
from . import request
from .embeddings import EMBEDDINGS
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
    embeddings=EMBEDDINGS,
)

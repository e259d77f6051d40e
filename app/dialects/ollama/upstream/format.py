"""Ollama's native chat API for upstreams."""

from ....framing.ndjson import NdjsonDecoder
from ...upstream_format import Quirks, UpstreamFormat
from . import request
from .embeddings import EMBEDDINGS
from .parser import Parser

DIALECT = UpstreamFormat(
    path="api/chat",
    decoder=NdjsonDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=Quirks,
    models_path="api/tags",
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    limit="options.num_predict",
    embeddings=EMBEDDINGS,
)

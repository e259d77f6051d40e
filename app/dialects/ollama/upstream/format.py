"""Ollama's native chat API for upstreams."""

from ....framing.ndjson import NdjsonDecoder
from ...upstream_format import UpstreamFormat
from .parser import Parser
from .request import (
    IGNORED,
    Quirks,
    find_limit,
    render_extra,
    render_request,
)

DIALECT = UpstreamFormat(
    path="api/chat",
    decoder=NdjsonDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path="api/tags",
    ignored=IGNORED,
    render_extra=render_extra,
    find_limit=find_limit,
)

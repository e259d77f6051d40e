"""Ollama's own chat API."""

from app.dialects.ollama.upstream.parser import Parser
from app.dialects.ollama.upstream.request import (
    IGNORED,
    Quirks,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.ndjson import NdjsonDecoder

DIALECT = UpstreamFormat(
    path="api/chat",
    decoder=NdjsonDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    models_path="api/tags",
    ignored=IGNORED,
    place_extra=place_extra,
    list_changes=list_changes,
)

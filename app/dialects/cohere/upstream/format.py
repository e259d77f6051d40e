"""Cohere's v2 chat."""

from app.dialects.cohere.upstream.parser import Parser
from app.dialects.cohere.upstream.request import (
    IGNORED,
    Quirks,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.lenient import LenientDecoder

DIALECT = UpstreamFormat(
    path="v2/chat",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    # Without these it lists 20 models, of every kind.
    models_path="v1/models?endpoint=chat&page_size=1000",
    ignored=IGNORED,
    place_extra=place_extra,
    list_changes=list_changes,
)

"""Cohere's v2 chat for upstreams."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import UpstreamFormat
from . import request
from .parser import Parser

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
)

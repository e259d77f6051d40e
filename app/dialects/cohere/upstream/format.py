"""Cohere's v2 chat for upstreams."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import UpstreamFormat
from .parser import Parser
from .request import (
    IGNORED,
    Quirks,
    render_extra,
    render_request,
)

DIALECT = UpstreamFormat(
    path="v2/chat",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    # The default is 20 models of every kind.
    models_path="v1/models?endpoint=chat&page_size=1000",
    ignored=IGNORED,
    render_extra=render_extra,
)

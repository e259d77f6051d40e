"""OpenAI Chat Completions for upstreams."""

from ....framing.lenient import LenientDecoder
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
    path="chat/completions",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    ignored=IGNORED,
    render_extra=render_extra,
    find_limit=find_limit,
)

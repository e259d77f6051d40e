"""OpenAI Responses for upstreams."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import Passthrough, UpstreamFormat
from .. import NAME
from .parser import Parser
from .passthrough import finish, pass_on
from .request import (
    IGNORED,
    Quirks,
    find_limit,
    render_extra,
    render_request,
)

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    ignored=IGNORED,
    passthrough={NAME: Passthrough(pass_on, finish)},
    render_extra=render_extra,
    find_limit=find_limit,
)

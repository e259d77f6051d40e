"""OpenAI Responses for upstreams."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import Passthrough, UpstreamFormat
from .. import NAME
from . import request
from .parser import Parser
from .passthrough import finish, pass_on, restore_items

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    ignored=request.IGNORED,
    client_format=NAME,
    passthrough={NAME: Passthrough(pass_on, finish, restore_items)},
    render_extra=request.render_extra,
    limit="max_output_tokens",
)

"""OpenAI Responses for upstreams."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import Passthrough, ResumableAnswer, UpstreamFormat
from .. import NAME
from . import request
from .parser import Parser
from .passthrough import add_system, finish, pass_on, restore_items

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    ignored=request.IGNORED,
    client_format=NAME,
    passthrough={NAME: Passthrough(pass_on, finish, add_system, restore_items)},
    render_extra=request.render_extra,
    limit="max_output_tokens",
    # "Background mode" of OpenAI's guides; a stream can be read on for 5 minutes.
    resume=ResumableAnswer(
        fields={"background": True, "store": True},
        cursor="sequence_number",
        query="starting_after",
        first=("type", "response.created"),
        repeated="include",
    ),
)

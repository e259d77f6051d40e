"""OpenAI Responses for upstreams."""

from ....framing.lenient import LenientDecoder
from ... import embeddings, forwarded
from ...upstream_format import Passthrough, ResumableAnswer, UpstreamFormat
from ...writing.token_counts import CountCall, send_some
from .. import NAME
from . import request
from .parser import Parser
from .passthrough import add_system, finish, pass_on, restore_items

_COUNTED = (
    "input instructions tools tool_choice parallel_tool_calls text reasoning truncation"
    " previous_response_id conversation personality"
)

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
    token_count=CountCall("responses/input_tokens", send_some(_COUNTED), "input_tokens"),
    embeddings=embeddings.OPENAI,
    forwarded=forwarded.OPENAI,
    effort_words=True,
)

"""Anthropic Messages, at Anthropic's own API, on Vertex AI, and under Bedrock's `invoke`."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import Passthrough, UpstreamFormat
from . import request
from .bedrock_invoke import Decoder as BedrockDecoder
from .parser import Parser
from .passthrough import add_system, mark_cache, pass_on, pass_on_bedrock

DIALECT = UpstreamFormat(
    path="v1/messages",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    headers={"anthropic-version": "2023-06-01"},
    models_path="v1/models",
    ignored=request.IGNORED,
    client_format="anthropic",
    find_hosted_tool=request.find_hosted_tool,
    render_extra=request.render_extra,
    passthrough={
        "anthropic": Passthrough(pass_on, request.finish_own, add_system, mark_cache=mark_cache)
    },
    continues=request.continues,
)

VERTEX = DIALECT._replace(
    path="{model}:streamRawPredict",
    render_request=request.render_vertex_request,
    headers={},
    models_path=None,
    passthrough={
        "anthropic": Passthrough(pass_on, request.finish_vertex, add_system, mark_cache=mark_cache)
    },
)

BEDROCK = UpstreamFormat(
    path="model/{model}/invoke-with-response-stream",
    decoder=BedrockDecoder,
    parser=Parser,
    render_request=request.render_bedrock_request,
    quirks=request.Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=request.IGNORED,
    client_format="anthropic",
    render_extra=request.render_extra,
    passthrough={
        "anthropic": Passthrough(
            pass_on_bedrock, request.finish_bedrock, add_system, mark_cache=mark_cache
        )
    },
    continues=request.continues,
)

"""Anthropic Messages, at Anthropic's own API, on Vertex AI, and under Bedrock's `invoke`."""

from ....framing.lenient import LenientDecoder
from ...upstream_format import Passthrough, UpstreamFormat
from .bedrock_invoke import Decoder as BedrockDecoder
from .parser import Parser
from .passthrough import pass_on, pass_on_bedrock
from .request import (
    IGNORED,
    Quirks,
    find_hosted_tool,
    finish,
    finish_bedrock,
    finish_vertex,
    render_bedrock_request,
    render_extra,
    render_request,
    render_vertex_request,
)

DIALECT = UpstreamFormat(
    path="v1/messages",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    headers={"anthropic-version": "2023-06-01"},
    models_path="v1/models",
    ignored=IGNORED,
    find_hosted_tool=find_hosted_tool,
    render_extra=render_extra,
    passthrough={"anthropic": Passthrough(pass_on, finish)},
)

VERTEX = UpstreamFormat(
    path="{model}:streamRawPredict",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_vertex_request,
    quirks=Quirks,
    models_path=None,
    ignored=IGNORED,
    find_hosted_tool=find_hosted_tool,
    render_extra=render_extra,
    passthrough={"anthropic": Passthrough(pass_on, finish_vertex)},
)

BEDROCK = UpstreamFormat(
    path="model/{model}/invoke-with-response-stream",
    decoder=BedrockDecoder,
    parser=Parser,
    render_request=render_bedrock_request,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=IGNORED,
    render_extra=render_extra,
    passthrough={"anthropic": Passthrough(pass_on_bedrock, finish_bedrock)},
)

"""Anthropic Messages, at Anthropic's own API, on Vertex AI, and under Bedrock's `invoke`."""

from app.dialects.anthropic.upstream.bedrock_invoke import Decoder as BedrockDecoder
from app.dialects.anthropic.upstream.parser import Parser
from app.dialects.anthropic.upstream.passthrough import pass_on, pass_on_bedrock
from app.dialects.anthropic.upstream.request import (
    IGNORED,
    Quirks,
    host,
    list_changes,
    place_extra,
    render_bedrock_request,
    render_request,
    render_vertex_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.lenient import LenientDecoder

DIALECT = UpstreamFormat(
    path="v1/messages",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    headers={"anthropic-version": "2023-06-01"},
    models_path="v1/models",
    ignored=IGNORED,
    list_changes=list_changes,
    hosted=host,
    place_extra=place_extra,
    passes={"anthropic": pass_on},
)

VERTEX = UpstreamFormat(
    path="{model}:streamRawPredict",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_vertex_request,
    quirks=Quirks,
    models_path=None,
    ignored=IGNORED,
    list_changes=list_changes,
    hosted=host,
    place_extra=place_extra,
    passes={"anthropic": pass_on},
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
    list_changes=list_changes,
    place_extra=place_extra,
    passes={"anthropic": pass_on_bedrock},
)

"""Amazon Bedrock's Converse for upstreams."""

from ....framing.eventstream import Decoder
from ... import embeddings
from ...upstream_format import Quirks, UpstreamFormat
from ...writing.token_counts import CountCall
from . import request
from .parser import Parser

CONVERSE = UpstreamFormat(
    path="model/{model}/converse-stream",
    decoder=Decoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=request.IGNORED,
    render_extra=request.render_extra,
    limit="inferenceConfig.maxTokens",
    continues=request.continues,
    token_count=CountCall("model/{model}/count-tokens", request.render_count, "inputTokens"),
    embeddings=embeddings.BEDROCK,
    provider="aws.bedrock",
)

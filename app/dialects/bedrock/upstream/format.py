"""Amazon Bedrock's Converse for upstreams."""

from ....framing.eventstream import Decoder
from ...upstream_format import Quirks, UpstreamFormat
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
)

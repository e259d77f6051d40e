"""Amazon Bedrock's Converse for upstreams."""

from ....framing.eventstream import Decoder
from ...upstream_format import UpstreamFormat
from .parser import Parser
from .request import (
    IGNORED,
    Quirks,
    find_limit,
    render_extra,
    render_request,
)

CONVERSE = UpstreamFormat(
    path="model/{model}/converse-stream",
    decoder=Decoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=IGNORED,
    render_extra=render_extra,
    find_limit=find_limit,
)

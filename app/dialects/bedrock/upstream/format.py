"""Amazon Bedrock's Converse."""

from app.dialects.bedrock.upstream.parser import Parser
from app.dialects.bedrock.upstream.request import (
    IGNORED,
    Quirks,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.eventstream import Decoder

CONVERSE = UpstreamFormat(
    path="model/{model}/converse-stream",
    decoder=Decoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    headers={"accept": "application/vnd.amazon.eventstream"},
    models_path=None,
    ignored=IGNORED,
    list_changes=list_changes,
    place_extra=place_extra,
)

"""OpenAI Responses."""

from app.dialects.openai_responses.name import NAME
from app.dialects.openai_responses.upstream.parser import Parser
from app.dialects.openai_responses.upstream.passthrough import pass_on
from app.dialects.openai_responses.upstream.quirks import Quirks
from app.dialects.openai_responses.upstream.request import (
    IGNORED,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.lenient import LenientDecoder

DIALECT = UpstreamFormat(
    path="responses",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    ignored=IGNORED,
    passes={NAME: pass_on},
    place_extra=place_extra,
    list_changes=list_changes,
)

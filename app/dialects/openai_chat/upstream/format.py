"""OpenAI Chat Completions."""

from app.dialects.openai_chat.upstream.parser import Parser
from app.dialects.openai_chat.upstream.request import (
    IGNORED,
    Quirks,
    list_changes,
    place_extra,
    render_request,
)
from app.dialects.upstream_format import UpstreamFormat
from app.framing.lenient import LenientDecoder

DIALECT = UpstreamFormat(
    path="chat/completions",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    ignored=IGNORED,
    list_changes=list_changes,
    place_extra=place_extra,
)

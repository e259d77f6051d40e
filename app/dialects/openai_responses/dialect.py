"""OpenAI Responses."""

from app.dialects.dialect import Dialect
from app.dialects.openai_responses.original import NAME, pass_on
from app.dialects.openai_responses.parser import Parser
from app.dialects.openai_responses.quirks import Quirks
from app.dialects.openai_responses.request import (
    IGNORED,
    list_changes,
    place_extra,
    render_request,
)
from app.framing.lenient import LenientDecoder

DIALECT = Dialect(
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

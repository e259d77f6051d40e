"""OpenAI Chat Completions."""

from app.dialects.dialect import Dialect
from app.dialects.openai_chat.parser import Parser
from app.dialects.openai_chat.request import Quirks, list_changes, render_request
from app.framing.lenient import LenientDecoder

DIALECT = Dialect(
    path="chat/completions",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=render_request,
    quirks=Quirks,
    list_changes=list_changes,
)

"""OpenAI Chat Completions for upstreams."""

from ....framing.lenient import LenientDecoder
from ... import embeddings, forwarded
from ...upstream_format import UpstreamFormat
from . import request
from .parser import Parser

DIALECT = UpstreamFormat(
    path="chat/completions",
    decoder=LenientDecoder,
    parser=Parser,
    render_request=request.render_request,
    quirks=request.Quirks,
    ignored=request.IGNORED,
    client_format="openai_chat",
    render_extra=request.render_extra,
    continues=request.continues,
    embeddings=embeddings.OPENAI,
    forwarded=forwarded.OPENAI,
    effort_words=True,
)

"""OpenAI Chat Completions for clients."""

from ...answering.openai_errors import render_failure
from ...client_format import ClientFormat
from .. import NAME
from .renderer import Renderer
from .request import Request, parse_request
from .result import render_result

CLIENT_FORMAT = ClientFormat(
    name=NAME,
    path="/v1/chat/completions",
    letter="c",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=Request,
    lingers=False,
    client_retries=True,
    breaks_off=True,
)

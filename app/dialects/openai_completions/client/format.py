"""OpenAI's legacy Completions for clients."""

from ...answering.openai_errors import render_failure
from ...client_format import ClientFormat
from .renderer import Renderer
from .request import Request, parse_request
from .result import render_result

CLIENT_FORMAT = ClientFormat(
    name="openai_completions",
    path="/v1/completions",
    letter="t",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=Request,
    lingers=False,
    client_retries=True,
    breaks_off=True,
)

"""OpenAI Responses for clients."""

from ...answering.openai_errors import render_failure
from ...client_format import ClientFormat
from .renderer import Renderer
from .request import Request, parse_request
from .result import name_of, render_answer, response_id

CLIENT_FORMAT = ClientFormat(
    name="openai_responses",
    path="/v1/responses",
    letter="r",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_answer,
    render_failure=render_failure,
    lingers=False,  # as at OpenAI, unless `background` is set
    client_retries=True,
    request_type=Request,
    name_of=lambda stream: name_of(response_id(stream)),
)

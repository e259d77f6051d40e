"""OpenAI Responses towards clients."""

from app.dialects.answering.openai_errors import render_failure
from app.dialects.client_format import ClientFormat
from app.dialects.openai_responses.client.renderer import Renderer
from app.dialects.openai_responses.client.request import parse_request
from app.dialects.openai_responses.client.result import name_of, render_result, response_id

FRONT = ClientFormat(
    name="openai_responses",
    path="/v1/responses",
    letter="r",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    name_of=lambda stream: name_of(response_id(stream)),
)

"""OpenAI Responses towards clients."""

from app.dialects.front import Front
from app.dialects.openai_chat.failure import render_failure
from app.dialects.openai_responses.body import parse_request
from app.dialects.openai_responses.renderer import Renderer
from app.dialects.openai_responses.result import name_of, render_result, response_id

FRONT = Front(
    name="openai_responses",
    path="/v1/responses",
    letter="r",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    name_of=lambda stream: name_of(response_id(stream)),
)

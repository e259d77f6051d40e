"""OpenAI's older Completions towards clients."""

from app.dialects.answering.openai_errors import render_failure
from app.dialects.client_format import ClientFormat
from app.dialects.openai_completions.client.renderer import Renderer
from app.dialects.openai_completions.client.request import parse_request
from app.dialects.openai_completions.client.result import render_result

FRONT = ClientFormat(
    name="openai_completions",
    path="/v1/completions",
    letter="t",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    lingers=False,
)

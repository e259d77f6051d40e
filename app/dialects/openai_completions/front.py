"""OpenAI's older Completions towards clients."""

from app.dialects.front import Front
from app.dialects.openai_chat.failure import render_failure
from app.dialects.openai_completions.body import parse_request
from app.dialects.openai_completions.renderer import Renderer
from app.dialects.openai_completions.result import render_result

FRONT = Front(
    name="openai_completions",
    path="/v1/completions",
    letter="t",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    lingers=False,
)

"""OpenAI Chat Completions towards clients."""

from app.dialects.front import Front
from app.dialects.openai_chat.body import parse_request
from app.dialects.openai_chat.failure import render_failure
from app.dialects.openai_chat.renderer import Renderer
from app.dialects.openai_chat.result import render_result

FRONT = Front(
    name="openai_chat",
    path="/v1/chat/completions",
    letter="c",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    lingers=False,
)

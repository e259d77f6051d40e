"""OpenAI Chat Completions towards clients."""

from app.dialects.answering.openai_errors import render_failure
from app.dialects.client_format import ClientFormat
from app.dialects.openai_chat.client.renderer import Renderer
from app.dialects.openai_chat.client.request import parse_request
from app.dialects.openai_chat.client.result import render_result

FRONT = ClientFormat(
    name="openai_chat",
    path="/v1/chat/completions",
    letter="c",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    lingers=False,
)

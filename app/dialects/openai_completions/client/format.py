"""OpenAI's legacy Completions for clients: Chat Completions in an older form."""

from ...openai_chat.client.format import CLIENT_FORMAT as CHAT_COMPLETIONS
from .renderer import Renderer
from .request import Request, parse_request
from .result import render_result

CLIENT_FORMAT = CHAT_COMPLETIONS._replace(
    name="openai_completions",
    path="/v1/completions",
    letter="t",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    request_type=Request,
)

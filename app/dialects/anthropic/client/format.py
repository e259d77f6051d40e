"""Anthropic Messages, as a client speaks it."""

from typing import Final

from app.dialects.anthropic.client.errors import render_failure
from app.dialects.anthropic.client.renderer import Renderer
from app.dialects.anthropic.client.request import NAME, parse_request
from app.dialects.anthropic.client.result import render_result
from app.dialects.anthropic.headers import BETA
from app.dialects.client_format import ClientFormat

FRONT: Final = ClientFormat(
    name=NAME,
    path="/v1/messages",
    letter="a",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    asking_headers=(BETA,),
    # Its clients cannot come back to a stream.
    lingers=False,
)

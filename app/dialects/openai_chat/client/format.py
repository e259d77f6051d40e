"""OpenAI Chat Completions for clients."""

import re
from typing import Final

from ...answering.openai_errors import render_failure
from ...client_format import ClientFormat, UnnumberedWriter
from .. import NAME
from .renderer import Renderer
from .request import Request, parse_request
from .result import render_result

_IGNORE_ERRORS: Final = re.compile(r"litellm/1\.(?:\d\d?|10[0-5])\.")
"""LiteLLM before 1.106 with its own HTTP client drops the error, and finishes with `stop`
(measured: 1.84 to 1.91; BerriAI/litellm#32237, #40578). It raises at an unclean end."""

CLIENT_FORMAT = ClientFormat(
    name=NAME,
    path="/v1/chat/completions",
    letter="c",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=Request,
    lingers=False,
    client_retries=True,
    breaks_off=_IGNORE_ERRORS,
    # LiteLLM takes every other line for an empty chunk, and counts wrong tokens after them.
    post_writer=UnnumberedWriter,
)

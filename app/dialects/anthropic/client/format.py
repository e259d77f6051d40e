"""Anthropic Messages, as a client speaks it."""

from typing import Final

from ...client_format import ClientFormat
from .. import BETA, NAME, VERSION
from .anthropic_errors import render_failure
from .renderer import Renderer
from .request import Request, parse_request
from .result import render_result

CLIENT_FORMAT: Final = ClientFormat(
    name=NAME,
    path="/v1/messages",
    letter="a",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=Request,
    request_headers=(BETA, VERSION),
    # Its clients cannot reconnect to a stream.
    lingers=False,
    client_retries=True,
    rate_limit_header="anthropic-ratelimit-{kind}-{field}",
    resets_are_times=True,
)

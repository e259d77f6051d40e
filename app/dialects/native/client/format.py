"""The native format."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ....errors import CODES, RelayError
from ....requests import ChatBody
from ...client_format import ClientFormat, Failure, ParsedRequest
from .. import NAME
from .renderer import LineWriter, PingWriter, Renderer, Writer, render_result


class Problem(msgspec.Struct, omit_defaults=True):
    """An error, as `application/problem+json` (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(extra_json_schema={"enum": [*CODES]})]
    retryable: bool
    request_id: str
    retry_after_s: float | None = None
    stream: str | None = None
    """The running stream that is in the way."""


def render_failure(error: RelayError, request_id: str) -> Failure:
    """Return the error as a problem."""
    problem = Problem(
        "about:blank",
        error.title,
        status=error.status,
        detail=error.message,
        code=error.code,
        retryable=error.retryable,
        request_id=request_id,
        retry_after_s=error.retry_after_s,
        stream=error.stream,
    )
    return Failure(error.status, msgspec.json.encode(problem), "application/problem+json")


CLIENT_FORMAT: Final = ClientFormat(
    name=NAME,
    path="/v1/chat",
    letter="",
    parse_request=ParsedRequest.of_chat,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    fast_writer=Writer,
    request_type=ChatBody,
)

WITH_PINGS: Final = CLIENT_FORMAT._replace(fast_writer=PingWriter)
"""The same with a heartbeat that pages see."""

JSON_LINES: Final = CLIENT_FORMAT._replace(fast_writer=LineWriter)
"""The same as JSON lines."""

"""AG-UI towards clients."""

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ....errors import RelayError
from ....events import Event
from ...client_format import ClientFormat, Failure
from .renderer import Renderer
from .request import RunAgentInput, parse_request


def render_result(stream: str, events: Iterable[Event]) -> Any:
    """Return all events of the run as one list."""
    renderer = Renderer(stream)
    return [json.loads(frame.data) for event in events for frame in renderer.feed(event)]


def render_failure(error: RelayError, request_id: str) -> Failure:
    """Return the error event of a run as a response."""
    body = {"type": "RUN_ERROR", "message": error.message, "code": error.code}
    return Failure(error.status, msgspec.json.encode(body))


CLIENT_FORMAT: Final = ClientFormat(
    name="ag_ui",
    path="/v1/ag-ui",
    letter="g",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=RunAgentInput,
    replays=True,
    lingers=False,  # its clients cannot reconnect
)

"""AG-UI towards clients."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ....errors import RelayError
from ....events import Event
from ...client_format import ClientFormat, Failure, list_frames
from .renderer import Renderer
from .request import RunAgentInput, parse_request


def render_result(stream: str, events: Iterable[Event]) -> Any:
    """Return all events of the run as one list."""
    return list_frames(Renderer(stream), events)


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

"""The UI message stream towards clients."""

from collections.abc import Iterable
from typing import Any, Final

from ....errors import RelayError
from ....events import Event
from ...client_format import ClientFormat, Failure, list_frames
from .renderer import Renderer
from .request import UiRequest, parse_request


def render_result(stream: str, events: Iterable[Event]) -> Any:
    """Return all chunks as one list."""
    return list_frames(Renderer(stream), events)


def render_failure(error: RelayError, request_id: str) -> Failure:
    """Return the message alone: the client uses the whole body as its error message."""
    return Failure(error.status, error.message.encode(), "text/plain")


CLIENT_FORMAT: Final = ClientFormat(
    name="ui",
    path="/v1/ui/chat",
    letter="u",
    parse_request=parse_request,
    renderer=Renderer,
    render_result=render_result,
    render_failure=render_failure,
    request_type=UiRequest,
    replays=True,
    headers={"x-vercel-ai-ui-message-stream": "v1"},
)

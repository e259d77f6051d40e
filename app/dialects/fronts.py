"""The dialects that clients may speak, by the names that `?format=` has for them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from app.dialects import native
from app.dialects.ag_ui.front import FRONT as AG_UI
from app.dialects.anthropic.front import FRONT as ANTHROPIC
from app.dialects.front import Asked, Failure, Front
from app.dialects.openai_chat.front import FRONT as OPENAI_CHAT
from app.dialects.openai_responses.front import FRONT as OPENAI_RESPONSES
from app.dialects.ui.front import FRONT as UI
from app.errors import RelayError
from app.requests import parse_chat_request


def _problem(error: RelayError, request_id: str) -> Failure:
    """Give `application/problem+json` (RFC 9457)."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": error.title,
        "status": error.status,
        "detail": error.message,
        "code": error.code,
        "retryable": error.retryable,
        "request_id": request_id,
    }
    if error.retry_after_s is not None:
        body["retry_after_s"] = error.retry_after_s
    return Failure(error.status, msgspec.json.encode(body), "application/problem+json")


NATIVE: Final = Front(
    name="native",
    path="/v1/chat",
    letter="",
    parse_request=lambda body: Asked(parse_chat_request(body)),
    renderer=native.Renderer,
    render_result=native.render_result,
    render_failure=_problem,
    own_writer=native.Writer,
)

FRONTS: Final[Mapping[str, Front]] = MappingProxyType(
    {front.name: front for front in (NATIVE, OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, UI, AG_UI)}
)


def front_of(path: str) -> Front:
    """Give the dialect of a client that asks for a path, the native one if it may be any."""
    fronts = sorted(FRONTS.values(), key=lambda front: -len(front.path))
    return next((f for f in fronts if f"{path}/".startswith(f"{f.path}/")), NATIVE)

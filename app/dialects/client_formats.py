"""The client formats, by the values of `?format=`."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ..errors import CODES, RelayError
from ..requests import ChatRequest
from .ag_ui.client.format import CLIENT_FORMAT as AG_UI
from .anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from .client_format import ClientFormat, Failure, ParsedRequest
from .native.client import renderer as native
from .openai_chat.client.format import CLIENT_FORMAT as OPENAI_CHAT
from .openai_completions.client.format import CLIENT_FORMAT as OPENAI_COMPLETIONS
from .openai_responses.client.format import CLIENT_FORMAT as OPENAI_RESPONSES
from .ui.client.format import CLIENT_FORMAT as UI


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


def _problem(error: RelayError, request_id: str) -> Failure:
    problem = Problem(
        "about:blank",
        error.title,
        status=error.status,
        detail=error.message,
        code=error.code,
        retryable=error.retryable,
        request_id=request_id,
        retry_after_s=error.retry_after_s,
    )
    return Failure(error.status, msgspec.json.encode(problem), "application/problem+json")


NATIVE: Final = ClientFormat(
    name="native",
    path="/v1/chat",
    letter="",
    parse_request=ParsedRequest.of_chat,
    renderer=native.Renderer,
    render_result=native.render_result,
    render_failure=_problem,
    own_writer=native.Writer,
    request_type=ChatRequest,
)

CLIENT_FORMATS: Final[Mapping[str, ClientFormat]] = MappingProxyType(
    {
        client_format.name: client_format
        for client_format in (
            NATIVE,
            OPENAI_CHAT,
            OPENAI_RESPONSES,
            OPENAI_COMPLETIONS,
            ANTHROPIC,
            UI,
            AG_UI,
        )
    }
)


OPENAIS: Final = (
    "assistants",
    "audio",
    "batches",
    "chat",
    "completions",
    "containers",
    "conversations",
    "embeddings",
    "engines",
    "evals",
    "files",
    "fine_tuning",
    "images",
    "models",
    "moderations",
    "organization",
    "realtime",
    "threads",
    "uploads",
    "vector_stores",
    "videos",
)
"""OpenAI's paths below /v1/, which its clients request."""

_BELOW_V1: Final = re.compile(r"/v1/(\w+)(?:/|$)")
_WITHOUT_V1: Final = re.compile(
    r"/(?:chat/completions|completions|embeddings|messages|models|responses)(?:/|$)"
)
_OPENAIS_CLIENT: Final = re.compile(rb"(?:Async)?(?:Azure)?OpenAI/")


def client_format_of(path: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> ClientFormat:
    """Return the dialect of a request, by its path or its headers; the native one if unknown.

    The headers have names in lower case.
    """
    path = mend_path(path)
    client_formats = sorted(
        CLIENT_FORMATS.values(), key=lambda client_format: -len(client_format.path)
    )
    client_format = next((f for f in client_formats if f"{path}/".startswith(f"{f.path}/")), None)
    below = _BELOW_V1.match(path)
    if client_format is not None or below is None or below[1] == "streams":
        return client_format or NATIVE
    agent = b""
    for name, value in headers:
        if name == b"anthropic-version":
            return ANTHROPIC
        if name == b"user-agent":
            agent = value
    if below[1] in OPENAIS or _OPENAIS_CLIENT.match(agent):
        return OPENAI_CHAT
    return NATIVE


def mend_path(path: str) -> str:
    """Return the intended path where a base URL has "/v1" twice, or lacks it."""
    if path.startswith("/v1/v1/"):
        return path.removeprefix("/v1")
    return f"/v1{path}" if _WITHOUT_V1.match(path) else path

"""The client formats, by the values of `?format=`."""

import re
from collections.abc import Iterable
from typing import Final

from ..plugins import Registry
from .ag_ui.client.format import CLIENT_FORMAT as AG_UI
from .anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from .client_format import ClientFormat
from .forwarded import CALLS
from .native.client.format import CLIENT_FORMAT as NATIVE
from .openai_chat.client.format import CLIENT_FORMAT as OPENAI_CHAT
from .openai_completions.client.format import CLIENT_FORMAT as OPENAI_COMPLETIONS
from .openai_responses.client.format import CLIENT_FORMAT as OPENAI_RESPONSES
from .ui.client.format import CLIENT_FORMAT as UI

CLIENT_FORMATS: Final[Registry[ClientFormat]] = Registry(
    "client format",
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
    },
    group="seseragi.client_formats",
    is_part=lambda part: isinstance(part, ClientFormat),
    wants="a seseragi.dialects.client_format.ClientFormat",
)


_OPENAI_PATHS: Final = frozenset(
    ("embeddings", "models", *(call.path.partition("/")[0] for call in CALLS))
)
"""The paths below /v1/ that are OpenAI's, and start no generation."""

_BELOW_V1: Final = re.compile(r"/v[12]/(\w+)(?:/|$)")
_WITHOUT_V1: Final = re.compile(
    r"/(?:chat/completions|completions|embeddings|messages|models|responses"
    rf"|{'|'.join(call.path for call in CALLS)})(?:/|$)"
)
_OPENAIS_CLIENT: Final = re.compile(rb"(?:Async)?(?:Azure)?OpenAI/")


def client_format_of(path: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> ClientFormat:
    """Return the dialect of a request, by its path or its headers; the native one if unknown.

    The headers have names in lower case.
    """
    path = correct_path(path)
    longest = sorted(CLIENT_FORMATS.values(), key=lambda one: -len(one.path))
    client_format = next((one for one in longest if f"{path}/".startswith(f"{one.path}/")), None)
    below = _BELOW_V1.match(path)
    if client_format is not None or below is None or below[1] == "streams":
        return client_format or NATIVE
    agent = b""
    for name, value in headers:
        if name == b"anthropic-version":
            return ANTHROPIC
        if name == b"user-agent":
            agent = value
    if below[1] in _OPENAI_PATHS or _OPENAIS_CLIENT.match(agent):
        return OPENAI_CHAT
    return NATIVE


def correct_path(path: str) -> str:
    """Return the intended path where a base URL has "/v1" twice, or lacks it."""
    if path.startswith("/v1/v1/"):
        return path.removeprefix("/v1")
    return f"/v1{path}" if _WITHOUT_V1.match(path) else path

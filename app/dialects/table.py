"""The wire formats that an upstream may speak, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from app.dialects import openai_chat
from app.dialects.parser import Decoder, Parser
from app.framing.lenient import LenientDecoder


class Dialect(NamedTuple):
    """All that a relay needs to speak one format with an upstream."""

    path: str
    """Appended to the upstream's base URL."""
    decoder: type[Decoder]
    parser: type[Parser]
    render_request: Callable[..., dict[str, Any]]


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        "openai_chat": Dialect(
            path="chat/completions",
            decoder=LenientDecoder,
            parser=openai_chat.Parser,
            render_request=openai_chat.render_request,
        )
    }
)

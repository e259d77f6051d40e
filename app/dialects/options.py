"""What a client may say beside the conversation: the other fields of a chat request.

For dialects whose own requests have no such fields, but a place where clients can put them.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, get_type_hints

import msgspec

from app.errors import RequestError
from app.requests import Body, ChatRequest, Message

_OWN = ("messages", "n")
"""The conversation, and how many answers: these dialects have one each."""

_HINTS = get_type_hints(ChatRequest, include_extras=True)

OPTIONS: Final = tuple(name for name in ChatRequest.__struct_fields__ if name not in _OWN)
"""The fields, by name."""

_Options = msgspec.defstruct(
    "_Options", [(name, _HINTS[name], None) for name in OPTIONS], bases=(Body,), frozen=True
)


def build_chat(messages: Sequence[Message], options: dict[str, Any], *, place: str) -> ChatRequest:
    """Give the chat request of a conversation and of options that stand at a place.

    Raises:
        RequestError: `invalid_request`, an option is unknown or has a wrong value, or
            nothing is said in the conversation.
    """
    if not messages:
        raise RequestError("invalid_request", "messages: nothing is said in them")
    given = convert(options, _Options, place=place)
    return ChatRequest(messages=list(messages), **{name: getattr(given, name) for name in OPTIONS})


def convert(value: Any, kind: Any, *, place: str) -> Any:
    """Give decoded JSON that stands at a place of a request as a type.

    Raises:
        RequestError: `invalid_request`, with the place and the reason.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        match = re.fullmatch(r"(.*) - at `(?:key in )?\$(.*)`", str(error), re.DOTALL)
        reason, inner = (match[1], match[2]) if match else (str(error), "")
        reason = reason[0].lower() + reason[1:]
        reason = reason.replace("object contains unknown field", "unknown field")
        where = f"{place}{inner}".removeprefix(".")
        raise RequestError("invalid_request", f"{where}: {reason}" if where else reason) from None

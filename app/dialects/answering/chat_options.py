"""Options: the fields of a chat request beside the conversation.

For dialects with an object for the client's own values instead of such fields.
"""

from collections.abc import Sequence
from typing import Any, Final, get_type_hints

import msgspec

from ...errors import RequestError
from ...requests import Body, ChatBody, ChatRequest, Message, convert_body

_EXCLUDED = ("messages", "n")
"""Not options: the conversation, and the number of answers, which is always one here."""

_HINTS = get_type_hints(ChatBody, include_extras=True)

OPTIONS: Final = tuple(name for name in ChatBody.__struct_fields__ if name not in _EXCLUDED)
"""The fields, by name."""

_Options = msgspec.defstruct(
    "_Options", [(name, _HINTS[name], None) for name in OPTIONS], bases=(Body,), frozen=True
)


def build_chat(messages: Sequence[Message], options: dict[str, Any], *, path: str) -> ChatRequest:
    """Return the chat request of a conversation and its options; `path` is for errors.

    Raises:
        RequestError: `invalid_request`, an option is unknown or has a wrong value, or
            the conversation is empty.
    """
    if not messages:
        raise RequestError("invalid_request", "messages: the conversation is empty; send a message")
    fields = convert_body(options, _Options, path=path)
    return ChatRequest(messages=list(messages), **{name: getattr(fields, name) for name in OPTIONS})

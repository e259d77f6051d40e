"""Hooks on requests: finds the texts of a request, and replaces them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ..errors import RequestError, ServiceError
from ..requests import (
    ChatRequest,
    JsonObjectFormat,
    JsonSchemaFormat,
    Message,
    TextFormat,
    Tool,
    TranslatedRequest,
)
from .contract import Check, Hook, Text, apply

_NO_TEXT: Final = frozenset(
    (
        *("role", "type", "id", "name", "tool_call_id", "url", "data", "file_data", "file_id"),
        "format",
        *("signature", "encrypted", "detail", "cache_control", "media_type"),
    )
)
"""Keys whose values are no text for the model, or have to stay as they are."""


_Format = TextFormat | JsonObjectFormat | JsonSchemaFormat | None


class Checked(NamedTuple):
    """A request after all hooks, and their notes."""

    chat: ChatRequest
    notes: Sequence[str] = ()


class _Place(NamedTuple):
    """A text in a list or an object."""

    holder: Any
    key: Any
    kind: str


async def check_request(
    hooks: Sequence[Hook], chat: ChatRequest, *, route: str, stream: str
) -> Checked:
    """Return a request that hooks have checked; a client's own body is translated.

    Raises:
        RequestError: `content_filtered`, a hook stops it; `invalid_request`, only the client's own
            body can express it.
        ServiceError: `internal`, a hook failed.
    """
    fields: dict[str, Any] = {
        "messages": msgspec.to_builtins(chat.messages),
        "tools": msgspec.to_builtins(chat.tools),
        "response_format": msgspec.to_builtins(chat.response_format),
        "provider_options": msgspec.to_builtins(chat.provider_options),
    }
    if isinstance(chat, TranslatedRequest):
        body = chat.client_body
        if body is not None and (beyond := body.beyond or body.foreign):
            raise RequestError(
                "invalid_request", f"{beyond[0]} cannot be sent: a hook could not check it"
            )
        fields["extras"] = msgspec.to_builtins(chat.extras)
    places = list(_find(fields))
    texts = [Text(place.kind, place.holder[place.key]) for place in places]
    found = await apply(hooks, Check("request", route, stream, texts))
    for place, text in zip(places, found.texts, strict=True):
        place.holder[place.key] = text
    try:
        changes = {
            **fields,
            "messages": msgspec.convert(fields["messages"], list[Message]),
            "tools": msgspec.convert(fields["tools"], list[Tool] | None),
            "response_format": msgspec.convert(fields["response_format"], _Format),
        }
    except msgspec.ValidationError:
        raise ServiceError("internal", "hooks have made the request invalid") from None
    if isinstance(chat, TranslatedRequest):
        changes["client_body"] = None
    return Checked(msgspec.structs.replace(chat, **changes), found.notes)


def _find(fields: dict[str, Any]) -> Iterator[_Place]:
    for message in fields["messages"]:
        yield from _walk(message, message["role"])
    for definition in (*(fields["tools"] or ()), fields["response_format"] or {}):
        yield from _walk(definition, "tool")
    for name in ("provider_options", "extras"):
        yield from _walk(fields.get(name) or {}, "option")


def _walk(value: Any, kind: str) -> Iterator[_Place]:
    """Yield the texts in a value, except those of keys without text."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if key in _NO_TEXT and kind != "option":
            continue
        if isinstance(item, str):
            if item:
                yield _Place(value, key, kind)
        elif isinstance(item, dict | list):
            yield from _walk(item, kind)

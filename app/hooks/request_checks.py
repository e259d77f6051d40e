"""Hooks on requests."""

from collections.abc import Sequence
from typing import Any

from ..errors import RequestError
from ..requests import ChatRequest
from .contract import Check, Hook, apply
from .text_walk import Texts


async def check_request(
    hooks: Sequence[Hook], chat: ChatRequest, *others: Any, route: str, stream: str
) -> tuple[list[Any], Sequence[str]]:
    """Return a request and `others`, values made from it, after all hooks, and the hooks' notes.

    The request returned has no client body: its translation is what the hooks checked.

    Raises:
        RequestError: `content_filtered`, a hook stops it; `invalid_request`, only the client's own
            body can express it.
        ServiceError: `overloaded`, a hook failed.
    """
    body = chat.client_body
    if body is not None and (refused := body.untranslatable or body.unsupported):
        raise RequestError(
            "invalid_request", f"{refused[0]} cannot be sent: a hook could not check it"
        )
    values = [(chat, "option"), *((one, "") for one in others)]
    return await check_values(hooks, values, route=route, stream=stream)


async def check_values(
    hooks: Sequence[Hook], values: Sequence[tuple[Any, str]], *, route: str, stream: str = ""
) -> tuple[list[Any], Sequence[str]]:
    """Return values of a request after all hooks, by the kinds of their texts, and the notes."""
    texts = Texts()
    for value, kind in values:
        texts.walk(value, kind)
    found = await apply(hooks, Check("request", route, stream, texts.collected()))
    texts.replace(found.texts)
    return [texts.walk(value, kind) for value, kind in values], found.notes

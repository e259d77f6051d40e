"""Shared parts of the request builders: texts, URLs, arguments, tools.

Content that a format cannot express is refused with its path and the reason, and never silently
dropped: the answer would look complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from ...errors import RequestError
from ...requests import (
    AssistantMessage,
    ChatRequest,
    FunctionCall,
    ReasoningPart,
    RefusalPart,
    TextPart,
    Tool,
)
from ..reading.json_values import decode

JSON_ONLY: Final = "Answer with one JSON object and nothing else."
"""The system instruction for `json_object` if the API only supports schemas."""

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64")
"""A base64 `data:` URL up to its comma."""

_MAX_HEAD: Final = 1_000
"""Characters of that. RFC 6838 limits a media type to 255, and parameters are few."""


def unsupported(path: str, what: str, *, format: str) -> RequestError:
    """Return the error for content at a `path` that a format cannot express."""
    return RequestError("invalid_request", f"{path}: {what} cannot be sent in {format}")


def refuse_choices(
    request: ChatRequest, *, format: str, what: str = "more than one choice"
) -> None:
    """Refuse a request for several answers, for formats with one.

    Raises:
        RequestError: it requests more than one.
    """
    if request.n is not None and request.n > 1:
        raise unsupported("n", what, format=format)


def restrict_tools(request: ChatRequest) -> ChatRequest:
    """Return a request with the allowed tools only, for formats without `allowed_tools`.

    Raises:
        RequestError: none of the tools is allowed.
    """
    if request.allowed_tools is None:
        return request
    allowed = {*request.allowed_tools}
    tools = [tool for tool in request.tools or () if tool.function.name in allowed]
    if not tools:
        what = f"allowed_tools: {request.allowed_tools[0][:80]!r} is not in `tools`"
        raise RequestError("invalid_request", what)
    return msgspec.structs.replace(request, tools=tools, allowed_tools=None)


def fit_user(user: str | None, *, longest: int) -> str | None:
    """Return a `user`, or its SHA-256 in hex if it is longer than the provider allows.

    The provider can still distinguish users by it.
    """
    if user is None or len(user) <= longest:
        return user
    return sha256(user.encode(errors="replace")).hexdigest()


def join_options(body: dict[str, Any], options: Mapping[str, Any] | None) -> None:
    """Merge options into a body: they replace its fields, and extend its objects."""
    for key, value in (options or {}).items():
        ours = body.get(key)
        if isinstance(ours, dict) and isinstance(value, dict):
            value = {**ours, **value}
        body[key] = value


def parse_data_url(url: str) -> tuple[str, str] | None:
    """Split a base64 `data:` URL into media type and data; None for any other URL."""
    comma = url.find(",", 0, _MAX_HEAD)
    match = _DATA_URL.fullmatch(url, 0, comma) if comma > 0 else None
    return (match[1].lower(), url[comma + 1 :]) if match else None


def join_text(content: str | Sequence[object] | None) -> str:
    """Return the joined text parts of a content."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content if isinstance(part, TextPart))


def join_visible(message: AssistantMessage) -> str:
    """Return the visible text of an assistant message, including refusals."""
    if not isinstance(message.content, list):
        return message.content or message.refusal or ""
    texts = [
        part.refusal if isinstance(part, RefusalPart) else join_text([part])
        for part in message.content
    ]
    return "".join(texts) or message.refusal or ""


def render_function(tool: Tool, **defaults: Any) -> dict[str, Any]:
    """Return a tool in the form of Chat Completions, without `strict`."""
    function = {**defaults, **msgspec.to_builtins(tool.function)}
    function.pop("strict", None)
    return {"type": "function", "function": function}


def parse_arguments(call: FunctionCall, *, path: str) -> dict[str, Any]:
    """Parse a call's arguments for formats that require an object; "" and null are {}.

    Raises:
        RequestError: they are not a JSON object.
    """
    if call.arguments.strip() in ("", "null"):
        return {}
    arguments = parse_object(call.arguments)
    if arguments is None:
        raise RequestError("invalid_request", f"{path}.arguments: must be a JSON object")
    return arguments


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object that a client sent as text; None for any other text.

    The object can be encoded again. `requests.check_chat` has bounded such texts.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # The standard library accepts NaN, and half a surrogate pair, which becomes "?":
        # replacing each half on its own costs 100 times as much.
        try:
            encoded = json.dumps(decode(text), ensure_ascii=False)
        except ValueError:
            return None
        value = msgspec.json.decode(encoded.encode(errors="replace"))
    return value if isinstance(value, dict) else None


def list_reasoning(message: AssistantMessage) -> list[ReasoningPart]:
    """Return the reasoning of an assistant message, regardless of its form."""
    parts: list[ReasoningPart] = []
    if isinstance(message.content, list):
        parts = [part for part in message.content if isinstance(part, ReasoningPart)]
    if not parts and message.reasoning_content:
        parts = [ReasoningPart(message.reasoning_content)]
    return parts

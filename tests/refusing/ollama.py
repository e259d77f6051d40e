"""Ollama's /api/chat, by the types of its server (github.com/ollama/ollama, api/types.go).

Go refuses a value of another type; the server refuses roles and images that it does not know.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from .reading import list_of, object_of


def refuse(
    body: Mapping[str, Any], headers: Mapping[str, str] = {}, host: str = "", *, model: str = ""
) -> list[str]:
    """Return what Ollama answers."""
    found = []
    for number, message in enumerate(list_of(body.get("messages"))):
        path = f"messages[{number}]"
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            found.append(f"{path}: invalid role {message.get('role')!r}")
        if not isinstance(message.get("content", ""), str):
            found.append(f"json: cannot unmarshal into Go struct field {path}.content of string")
        for call in list_of(message.get("tool_calls")):
            if not isinstance(object_of(call.get("function")).get("arguments"), dict):
                found.append(f"json: cannot unmarshal {path}.tool_calls.function.arguments")
        for image in list_of(message.get("images")):
            try:
                base64.b64decode(image, validate=True)
            except (binascii.Error, TypeError, ValueError):
                found.append(f"{path}: illegal base64 data in images")
    if not body.get("messages"):
        found.append("the model is only loaded: messages is empty")
    think = body.get("think")
    if think is not None and think not in (True, False, "high", "medium", "low", "max"):
        found.append(f"invalid think value: {think!r}")
    options = object_of(body.get("options"))
    if not isinstance(options.get("stop", []), list):
        found.append("option 'stop' must be of type array")
    return found

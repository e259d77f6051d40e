"""What tests ask of each path."""

import json
from typing import Any

from app.dialects.client_formats import CLIENT_FORMATS
from tests.dialects.clients import REQUESTS

M = "openai/m"
CHAT = "a chat"
FORMATS = {one.path: name for name, one in CLIENT_FORMATS.items()}


def body_of(path: str, *, streams: bool = True) -> dict[str, Any]:
    """Return a request that says hello, and that it `streams` where that has to be said."""
    message = {"role": "user", "content": "hello"}
    more: dict[str, Any] = {"max_tokens": 99, "stream": True} if streams else {}
    match path:
        case "/v1/responses":
            more.pop("max_tokens", None)
            return {"model": M, "input": "hello", **more}
        case "/v1/completions":
            return {"model": M, "prompt": "hello", **more}
        case "/v1/ui/chat":
            parts = [{"type": "text", "text": "hello"}]
            return {"id": CHAT, "messages": [{"id": "1", "role": "user", "parts": parts}]}
        case "/v1/embeddings" | "/v1/responses/input_tokens" | "/v1/responses/compact":
            return {"model": M, "input": "hello"}
        case "/v1/messages":
            return {"model": M, "messages": [message], "max_tokens": 9, **more}
        case _ if (name := FORMATS.get(path, "native")) not in ("native", "openai_chat"):
            found: dict[str, Any] = json.loads(json.dumps(REQUESTS[name]).replace("Hi", "hello"))
            return found
        case _:
            return {"model": M, "messages": [message], **more}

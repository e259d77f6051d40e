"""What tests ask of each path."""

from typing import Any

M = "openai/m"
CHAT = "a chat"


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
        case "/v1/ag-ui":
            empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
            return {"threadId": "a", "runId": "b", "messages": [{**message, "id": "1"}], **empty}
        case "/v1/admin/targets":
            return {"target": M, "action": "wake"}
        case "/v1/embeddings" | "/v1/responses/input_tokens" | "/v1/responses/compact":
            return {"model": M, "input": "hello"}
        case "/v1/messages":
            return {"model": M, "messages": [message], "max_tokens": 9, **more}
        case _:
            return {"model": M, "messages": [message], **more}

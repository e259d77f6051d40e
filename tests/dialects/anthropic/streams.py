"""Streams of Anthropic Messages, written by hand."""

import json
from typing import Any


def sse(*payloads: dict[str, Any]) -> bytes:
    """Write payloads as the API does: an event named after each one's type."""
    return b"".join(
        f"event: {payload.get('type', 'x')}\ndata: {json.dumps(payload)}  \n\n".encode()
        for payload in payloads
    )


def head(id: str = "msg_1", **more: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": id, "model": "m", "content": [], **more}}


def start(index: int, kind: str, **more: Any) -> dict[str, Any]:
    content = {"type": kind, **more}
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def last(reason: str | None = "end_turn", usage: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


STOP: dict[str, Any] = {"type": "message_stop"}
PING: dict[str, Any] = {"type": "ping"}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    """A block of text."""
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [start(index, "text", text=""), *deltas, stop(index)]


def inputs(index: int, kind: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    """A block with an input that comes in pieces."""
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, kind, input={}, **more), *deltas, stop(index)]

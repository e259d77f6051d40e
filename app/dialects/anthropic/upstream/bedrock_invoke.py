"""Bedrock's invoke: Claude's own events in Bedrock's frames, and its token counting call.

Each `chunk` frame has one of Anthropic's events in base64. Bedrock's exceptions become errors of
Anthropic's form. A truncated frame is dropped: the answer lacks `message_stop` anyway.
"""

import json
from base64 import b64decode, b64encode
from typing import Any

import msgspec

from ....bounds import has_more_values
from ....framing import eventstream
from ....framing.eventstream import TRUNCATED
from ....framing.sse import Message
from ...reading.answer_bounds import LARGE, MAX_VALUES
from ...reading.json_values import count, decode, decode_or, mapping, string


class Decoder(eventstream.Decoder):
    """An event stream decoder that unwraps the payloads."""

    def feed(self, data: bytes) -> list[Message]:
        """Append the next bytes; return the messages that they complete.

        Raises:
            FramingError: a frame is broken or longer than its limit.
        """
        unwrapped = map(_unwrap, super().feed(data))
        return [message for message in unwrapped if message is not None]

    def close(self) -> Message | None:
        """End the input; return the body if it is one JSON document instead of a stream.

        Raises:
            FramingError: a frame is broken or longer than its limit.
        """
        message = super().close()
        return None if message is None or message.event == TRUNCATED else message


def _unwrap(frame: Message) -> Message | None:
    kind, _, name = frame.event.partition(":")
    payload = mapping(decode_or(frame.data, None))
    if kind in ("exception", "error") or name.endswith("Exception"):
        text = string(payload.get("message")) or string(payload.get("originalMessage"))
        error = {"type": "error", "error": {"type": name, "message": text}}
        return Message("error", json.dumps(error))
    if name != "chunk":
        return None
    wrapped = string(payload.get("bytes")) or frame.data
    try:
        raw = b64decode(wrapped)
        data = raw.decode(errors="replace")
        if len(raw) > LARGE and has_more_values(raw, MAX_VALUES):
            return Message("message", data)  # not decoded: the parser refuses its size
        event = string(mapping(decode(data)).get("type"))
    except ValueError:
        return Message("message", wrapped)  # not a JSON object
    return Message(event or "message", data)


def render_count(body: dict[str, Any], *, model: str, base_url: str) -> dict[str, Any]:
    """Return the body of a counting call for that of an answer."""
    budget = count(mapping(body.get("thinking")).get("budget_tokens")) or 0
    # A count needs no `max_tokens`, but invoke requires one, above the thinking budget.
    whole = {**body, "max_tokens": max(count(body.get("max_tokens")) or 1, budget + 1)}
    encoded = b64encode(msgspec.json.encode(whole)).decode()
    return {"input": {"invokeModel": {"body": encoded}}}

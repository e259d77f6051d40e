"""Claude's own events in Bedrock's frames."""

import json
from base64 import b64encode

import pytest

from app.dialects.anthropic.upstream.bedrock_invoke import Decoder
from app.framing.eventstream import Decoder as EventStreamDecoder
from app.framing.sse import FramingError, Message
from tests.framing.frames import error, event, exception, frame, text

pytestmark = pytest.mark.pure


def wrapped(data: bytes) -> bytes:
    return event("chunk", {"bytes": b64encode(data).decode(), "p": "abc"})


def anthropic(kind: str, told: str) -> Message:
    document = {"type": "error", "error": {"type": kind, "message": told}}
    return Message("error", json.dumps(document))


@pytest.mark.parametrize(
    ("wire", "messages"),
    [
        (wrapped(b'{"type": "ping"}'), [Message("ping", '{"type": "ping"}')]),
        (wrapped('{"a": "せ"}'.encode()), [Message("message", '{"a": "せ"}')]),
        (wrapped(b'{"a'), [Message("message", "eyJh")]),
        (event("chunk", {"bytes": "eyJ"}), [Message("message", "eyJ")]),
        (event("chunk", {"bytes": 5}), [Message("message", '{"bytes": 5}')]),
        (event("chunk", [1]), [Message("message", "[1]")]),
        (
            frame(text(":event-type", "chunk") + text(":message-type", "event"), b"<html>"),
            [Message("message", "<html>")],
        ),
        (event("initial-response", {}), []),
        (
            exception("throttlingException", {"message": "m"}),
            [anthropic("throttlingException", "m")],
        ),
        (event("throttlingException", {"message": "m"}), [anthropic("throttlingException", "m")]),
        (
            exception("modelStreamErrorException", {"originalMessage": "m"}),
            [anthropic("modelStreamErrorException", "m")],
        ),
        (error("InternalError", "m"), [anthropic("InternalError", "m")]),
    ],
)
def test_frames_are_unwrapped(wire: bytes, messages: list[Message]) -> None:
    decoder = Decoder()

    assert messages == [m for i in range(len(wire)) for m in decoder.feed(wire[i : i + 1])]
    assert decoder.close() is None
    decoder.feed(wire[:-1])
    assert decoder.close() is None


def test_limits_and_broken_frames_are_the_event_streams() -> None:
    assert issubclass(Decoder, EventStreamDecoder)
    with pytest.raises(FramingError, match="limit of 3 bytes"):
        Decoder(max_event=3).feed(wrapped(b"{}"))

"""Recorded streams as clients get them: whole, and cut in each way that there is."""

from collections.abc import Sequence
from typing import Any, Final

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.client.renderer import USAGE
from app.dialects.openai_responses.client.result import BACKGROUND
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import UpstreamError
from app.events import Event, Status, StreamStart, StreamTarget
from app.framing.sse import Decoder, Message
from tests.dialects.streams import DIALECT_OF, body_of

STREAM: Final = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
WAYS: Final[list[tuple[float, Status | None]]] = [
    (1, None),
    (0.6, "failed"),
    (0.7, "cancelled"),
    (0.4, "interrupted"),
]
"""How much of a body comes, and how the stream ends then; None as the provider ends it."""


def played(row: dict[str, Any], *, part: float = 1, status: Status | None = None) -> list[Event]:
    """Return the events of a part of a recorded stream, which then ends in some way."""
    body = body_of(row)
    spoken = UPSTREAM_FORMATS[DIALECT_OF[row["format"]]]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u", choices=len(row["truth"]["choices"]))
    labels = {USAGE: "1", BACKGROUND: "1"}
    found: list[Event] = [StreamStart(STREAM, "fast", 1700000000, labels)]
    found.append(StreamTarget("u", "m", 1, "up-1"))
    for message in decoder.feed(body[: int(len(body) * part)]):
        found += parser.feed(message)
    if part == 1:
        found += parser.close(decoder.close())
    elif status == "failed":
        found += parser.cut(UpstreamError("upstream_truncated", "it broke"))
    elif status is not None:
        found += parser.stop(status)
    return found


def rendered(client_format: str, events: Sequence[Event]) -> list[Message]:
    writer = CLIENT_FORMATS[client_format].writer(STREAM, after=0, retry_ms=2000)
    return Decoder().feed(b"".join(writer.feed(event) for event in events))

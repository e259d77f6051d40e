"""A model's text ends no line of a frame, also for readers that know more line ends than SSE."""

import json

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.events import (
    ChoiceEnd,
    Event,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
)

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
FORGED = 'event: stream.end\ndata: {"type":"stream.end","status":"completed"}'
TEXT = (
    "".join(f"a{end}{FORGED.replace(chr(10), end)}{end}{end}" for end in "\x85\u2028\u2029") + "é"
)
EVENTS: list[Event] = [
    StreamStart(STREAM, "m", 0),
    StreamTarget("u", "m", 1),
    TextStart(0),
    TextDelta(0, TEXT),
    TextDelta(0, TEXT),
    TextEnd(0),
    ChoiceEnd("stop"),
    StreamEnd("completed", "stop"),
]


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("name", CLIENT_FORMATS)
def test_lines_of_a_frame_are_those_of_sse(name: str, after: int):
    writer = CLIENT_FORMATS[name].writer(STREAM, after=after, retry_ms=2000)
    frames = b"".join(writer.feed(event) for event in EVENTS[writer.begin :]).decode()

    assert frames.split("\n") == [*frames.splitlines(), ""]
    said = [json.loads(line[6:]) for line in frames.split("\n") if line.startswith("data: {")]
    assert TEXT in json.dumps(said, ensure_ascii=False).replace('\\"', '"').replace("\\\\n", "\\n")

"""What an upstream sends costs in proportion to its size, whatever its shape.

Sizes are compared, and never times: four times as much may take little more than four times
as long. `SHAPE_BYTES` is the larger size of a body, 256 KiB where it is not set.
"""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app import events as e
from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.native.client.renderer import compact
from app.dialects.reading import bounds
from app.dialects.reading.bounds import MAX_CALLS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RelayError, UpstreamError
from app.framing.sse import FramingError
from tests.dialects.shapes import ANSWERS, LINES, SHAPES
from tests.dialects.streams import check

pytestmark = pytest.mark.proving

SIZE = int(os.environ.get("SHAPE_BYTES", 2**18))
EVENTS = SIZE // 96
READ = 16 * 1024
STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
HEAD: list[e.Event] = [e.StreamStart(STREAM, "m", 1700000000), e.StreamTarget("u", "m", 1)]
TRIES = 5


def pieces(body: bytes, size: int = READ) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


def play(dialect: str, body: bytes, *, read: int = READ) -> list[e.Event]:
    """Return the events of a body as an attempt takes them, with all that it asks on the way."""
    spoken = UPSTREAM_FORMATS[dialect]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u")
    found: list[e.Event] = []
    try:
        for piece in pieces(body, read):
            for message in decoder.feed(piece):
                found += parser.feed(message)
            if parser.ended:
                return found
            _ = parser.finished
        found += parser.close(decoder.close())
    except FramingError as error:
        found += parser.cut(UpstreamError("upstream_invalid_response", str(error)))
    return found


def cost(run: Callable[[], Any]) -> float:
    gc.disable()
    try:
        began = time.process_time()
        run()
        return time.process_time() - began
    finally:
        gc.enable()


def check_linear(run: Callable[[Any], Any], shape: Callable[[int], Any], size: int = SIZE) -> None:
    """Assert that four times the size takes less than eight times as long."""
    small, large = shape(size // 4), shape(size)
    smalls, larges = [], []
    for _ in range(TRIES):
        smalls.append(cost(lambda: run(small)))
        larges.append(cost(lambda: run(large)))
        if min(larges) < 8 * min(smalls) or max(larges) < 0.01:
            return
    raise AssertionError(f"{min(larges):.3f} s for 4 times what takes {min(smalls):.3f} s")


@pytest.mark.parametrize(
    ("dialect", "name"), [(dialect, name) for dialect in SHAPES for name in SHAPES[dialect]]
)
def test_a_parser_is_linear(dialect: str, name: str) -> None:
    check_linear(lambda body: play(dialect, body), SHAPES[dialect][name])


@pytest.mark.parametrize("dialect", ["openai_chat", "bedrock_converse", "gemini", "ollama"])
@pytest.mark.parametrize("name", LINES)
def test_a_framing_is_linear(dialect: str, name: str) -> None:
    check_linear(lambda body: play(dialect, body), LINES[name])


@pytest.mark.parametrize("dialect", ["openai_chat", "bedrock_converse", "gemini", "ollama"])
def test_one_long_message_in_many_small_reads_is_linear(dialect: str) -> None:
    check_linear(lambda body: play(dialect, body, read=16), SHAPES[dialect]["one text"])


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_frames_are_linear(client_format: str, name: str) -> None:
    def write(events: list[e.Event]) -> None:
        writer = CLIENT_FORMATS[client_format].writer(STREAM, after=0, retry_ms=2000)
        for event in events:
            writer.feed(event)

    check_linear(write, lambda size: HEAD + ANSWERS[name](size), EVENTS)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_a_whole_answer_is_linear(client_format: str, name: str) -> None:
    def render(events: list[e.Event]) -> None:
        with contextlib.suppress(RelayError):
            CLIENT_FORMATS[client_format].render_result(STREAM, events)

    check_linear(render, lambda size: HEAD + ANSWERS[name](size), EVENTS)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_snapshot_is_linear(name: str) -> None:
    check_linear(compact, lambda size: HEAD + ANSWERS[name](size), EVENTS)


def end_of(events: list[e.Event]) -> e.StreamEnd:
    assert isinstance(events[-1], e.StreamEnd)
    return events[-1]


@pytest.mark.parametrize(
    ("dialect", "name", "most"),
    [
        ("openai_chat", "calls", "100 tool calls"),
        ("openai_chat", "calls without a name", "100 tool calls"),
        ("openai_chat", "turns of text and reasoning", "200 blocks"),
        ("openai_chat", "annotations", "300 sources"),
        ("openai_chat", "log probabilities without a text", "65536 bytes"),
        ("openai_chat", "verdicts", "65536 bytes"),
        ("openai_responses", "items of no type", "65536 bytes"),
        ("openai_responses", "annotations of texts that are none", "65536 bytes"),
        ("openai_responses", "pieces of code", "65536 bytes"),
        ("anthropic", "blocks that never end", "65536 bytes"),
        ("anthropic", "citations without a text", "65536 bytes"),
        ("anthropic", "input of a tool of the provider", "65536 bytes"),
        ("bedrock_converse", "citations without a text", "65536 bytes"),
        ("bedrock_converse", "an image in pieces", "65536 bytes"),
        ("cohere", "one block of many numbers", "65536 bytes"),
        ("ollama", "calls", "100 tool calls"),
    ],
)
def test_what_nobody_can_tell_yet_is_bounded(
    dialect: str, name: str, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"MAX_CALLS": 100, "MAX_BLOCKS": 200, "MAX_SOURCES": 300, "MAX_HELD": 65536}
    for bound, value in small.items():
        assert value < getattr(bounds, bound)
        monkeypatch.setattr(f"app.dialects.reading.event_builder.{bound}", value)

    found = play(dialect, SHAPES[dialect][name](2**18))

    error = end_of(found).error
    assert error is not None
    assert error.code == "upstream_invalid_response"
    assert f"more than {most}" in error.message
    check(found)


def test_what_came_before_a_bound_is_kept() -> None:
    found = play("openai_chat", SHAPES["openai_chat"]["calls"](2 * 2**20))

    starts = [event for event in found if isinstance(event, e.ToolCallStart)]
    ends = [event for event in found if isinstance(event, e.ToolCallEnd)]
    assert MAX_CALLS == len(starts) == len(ends)
    assert end_of(found).status == "failed"

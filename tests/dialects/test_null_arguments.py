"""Arguments that are null, as Groq and Llama send them for a tool without parameters, are {}."""

import json
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.upstream.parser import Parser
from app.dialects.writing.conversation import parse_arguments
from app.events import (
    Event,
    StreamEnd,
    StreamStart,
    StreamTarget,
    ToolCallDelta,
    ToolCallEnd,
)
from app.framing.sse import Message
from app.requests import FunctionCall

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"


def parse(*pieces: str, finish: str | None = "tool_calls", cut: bool = False) -> list[Event]:
    parser = Parser(upstream="u")
    found: list[Event] = []
    for number, piece in enumerate(pieces):
        function = {"arguments": piece} | ({} if number else {"name": "now"})
        call = {"index": 0, "function": function} | ({} if number else {"id": "call_1"})
        found += parser.feed(message({"tool_calls": [call]}))
    if finish:
        found += parser.feed(message({}, finish))
    return [*found, *parser.close(None)]


def message(delta: dict[str, Any], finish: str | None = None) -> Message:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return Message("message", json.dumps({"choices": [choice]}))


def arguments_of(found: list[Event]) -> tuple[str, str]:
    """Return what was streamed, and what stands at the end."""
    (end,) = [event for event in found if isinstance(event, ToolCallEnd)]
    streamed = "".join(event.arguments for event in found if isinstance(event, ToolCallDelta))
    return streamed, end.arguments


@pytest.mark.parametrize("pieces", [["null"], ["n", "ull"], ["", " nu", "ll "], list("null")])
def test_null_is_no_arguments(pieces: list[str]):
    found = parse(*pieces)

    assert ("", "{}") == arguments_of(found)
    assert isinstance(found[-1], StreamEnd)
    assert "completed" == found[-1].status


@pytest.mark.parametrize(
    "pieces", [["null", "x"], ["n", "1"], ['"null"'], ["nul"], ["{", "}"], ["nu", " ", "ll"]]
)
def test_what_only_begins_like_null_is_kept(pieces: list[str]):
    assert ("".join(pieces),) * 2 == arguments_of(parse(*pieces))


def test_null_of_a_call_that_was_cut_is_not_complete():
    assert ("null", "null") == arguments_of(parse("null", finish=None))


@pytest.mark.parametrize("name", CLIENT_FORMATS)
def test_clients_are_told_of_an_empty_object(name: str):
    found = [StreamStart(STREAM, "m", 0), StreamTarget("u", "m", 1), *parse("null")]
    client_format = CLIENT_FORMATS[name]
    renderer = client_format.renderer(STREAM)
    frames = b"".join(frame.data for event in found for frame in renderer.feed(event))

    assert b'"null"' not in frames
    client_format.render_result(STREAM, found)


def test_null_that_comes_back_is_an_empty_object():
    assert {} == parse_arguments(FunctionCall("now", "null"), path="messages[0]")

"""A block that was cut is not stopped: Claude Code would go on with half a tool call."""

import json
from typing import Any

import pytest

from app.dialects.anthropic.client.renderer import Renderer
from app.errors import UpstreamError
from app.events import (
    ChoiceEnd,
    Event,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

pytestmark = pytest.mark.pure

HEAD: list[Event] = [StreamStart("st_T", "m", 0), StreamTarget("u", "m", 1)]
TEXT: list[Event] = [TextStart(0), TextDelta(0, "Hi"), TextEnd(0)]
CALL: list[Event] = [
    ToolCallStart(1, "call_1", "rm", 0),
    ToolCallDelta(1, '{"path": "/'),
    ToolCallEnd(1, '{"path": "/'),
]
WHOLE: list[Event] = [
    ToolCallStart(1, "call_1", "ls", 0),
    ToolCallDelta(1, "{}"),
    ToolCallEnd(1, "{}"),
]
CUT = StreamEnd("failed", "error", None, UpstreamError("upstream_truncated", "cut").info())


def kinds(events: list[Event]) -> list[str]:
    renderer = Renderer("st_T")
    payloads: list[dict[str, Any]] = [
        json.loads(frame.data) for event in events for frame in renderer.feed(event)
    ]
    return [f"{p['type'].removeprefix('content_block_')}" for p in payloads]


def test_call_that_was_cut_has_no_stop():
    told = kinds([*HEAD, *TEXT, *CALL, CUT])

    assert ["message_start", "start", "delta", "stop", "start", "delta", "error"] == told


def test_text_that_was_cut_has_no_stop():
    assert ["message_start", "start", "delta", "error"] == kinds([*HEAD, *TEXT, CUT])


def test_answer_that_is_whole_stops_every_block():
    end: list[Event] = [ChoiceEnd("tool_calls"), StreamEnd("completed", "tool_calls")]
    told = kinds([*HEAD, *TEXT, *WHOLE, *end])

    assert [
        "message_start",
        *("start", "delta", "stop") * 2,
        "message_delta",
        "message_stop",
    ] == told

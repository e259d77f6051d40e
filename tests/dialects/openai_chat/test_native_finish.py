"""OpenRouter's `native_finish_reason` explains a tool call that was cut off."""

import json

import pytest

from app.dialects.openai_chat.upstream.parser import Parser
from app.events import ChoiceEnd, Event, StreamEnd
from app.framing.sse import Message

pytestmark = pytest.mark.pure


def parse(arguments: str, native: str) -> list[Event]:
    function = {"name": "f", "arguments": arguments}
    call = {"index": 0, "id": "call_1", "function": function}
    finish = {"finish_reason": "tool_calls", "native_finish_reason": native}
    parser, found = Parser(upstream="u"), []
    for choice in ({"delta": {"tool_calls": [call]}}, {"delta": {}, **finish}):
        data = json.dumps({"choices": [{"index": 0, **choice}]})
        found += parser.feed(Message("message", data))
    return [*found, *parser.feed(Message("message", "[DONE]"))]


@pytest.mark.parametrize(
    ("arguments", "native", "reason", "raw"),
    [
        ('{"city": "Par', "length", "length", "length"),
        ('{"city": "Par', "MAX_TOKENS", "length", "MAX_TOKENS"),
        ('{"city": "Paris"}', "length", "tool_calls", "tool_calls"),
        ('{"city": "Paris"}', "tool_use", "tool_calls", "tool_calls"),
    ],
)
def test_call_that_was_cut_off_ends_by_length(arguments: str, native: str, reason: str, raw: str):
    found = parse(arguments, native)
    (end,) = [event for event in found if isinstance(event, ChoiceEnd)]

    assert (reason, raw) == (end.finish_reason, end.finish_reason_raw)
    assert isinstance(found[-1], StreamEnd)
    assert "completed" == found[-1].status

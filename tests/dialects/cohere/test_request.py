"""What is sent to Cohere."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.cohere.upstream.request import Quirks, render_request
from app.requests import parse_chat_request
from tests.sdk.conversations import PICTURE, call

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
IMAGE = {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}
TEXT = {"type": "text", "text": "a"}


def render(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model="m", quirks=msgspec.convert(quirks, Quirks)).body
    assert json.loads(json.dumps(body)) == body
    return body


def messages(*sent: dict[str, Any], **quirks: Any) -> Any:
    return render({"messages": list(sent)}, **quirks)["messages"]


def test_messages_keep_their_parts() -> None:
    assert messages(
        {"role": "system", "content": "s", "name": "x"},
        {"role": "developer", "content": [TEXT]},
        {
            "role": "user",
            "content": [TEXT, IMAGE, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": "b"},
    ) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": [TEXT]},
        {
            "role": "user",
            "content": [TEXT, IMAGE, {"type": "image_url", "image_url": {"url": "u"}}],
        },
        {"role": "assistant", "content": "b"},
    ]


def test_calls_and_results_are_sent() -> None:
    assert messages(
        {"role": "assistant", "tool_calls": [call("i", "f", '{"a": 1}'), call("j", "g", "")]},
        {"role": "tool", "tool_call_id": "i", "content": "r"},
        {"role": "tool", "tool_call_id": "j", "content": [TEXT]},
    ) == [
        {"role": "assistant", "tool_calls": [call("i", "f", '{"a": 1}'), call("j", "g", "{}")]},
        {"role": "tool", "tool_call_id": "i", "content": "r"},
        {"role": "tool", "tool_call_id": "j", "content": [TEXT]},
    ]


THOUGHT = {"role": "assistant", "content": "a", "reasoning_content": "r"}
PLANNED = {"role": "assistant", "reasoning_content": "r", "tool_calls": [call("i", "f", "{}")]}
PARTS = {
    "role": "assistant",
    "content": [
        {"type": "reasoning", "text": "r", "signature": "S", "format": "x"},
        {"type": "opaque", "format": "x", "data": "D"},
        TEXT,
        {"type": "refusal", "refusal": "b"},
        {"type": "text", "text": ""},
    ],
}
SAID = [TEXT, {"type": "text", "text": "b"}]
THINKING = {"type": "thinking", "thinking": "r"}


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        (
            "tool_plan",
            [
                {"role": "assistant", "content": "a"},
                {"role": "assistant", "tool_plan": "r", "tool_calls": PLANNED["tool_calls"]},
                {"role": "assistant", "content": SAID},
            ],
        ),
        (
            "thinking",
            [
                {"role": "assistant", "content": [THINKING, TEXT]},
                {"role": "assistant", "content": [THINKING], "tool_calls": PLANNED["tool_calls"]},
                {"role": "assistant", "content": [THINKING, *SAID]},
            ],
        ),
        (
            "no",
            [
                {"role": "assistant", "content": "a"},
                {"role": "assistant", "tool_calls": PLANNED["tool_calls"]},
                {"role": "assistant", "content": SAID},
            ],
        ),
    ],
)
def test_reasoning_goes_back_as_the_model_takes_it(way: str, sent: list[Any]) -> None:
    assert messages(THOUGHT, PLANNED, PARTS, send_reasoning=way) == sent


def test_a_refusal_was_said() -> None:
    assert messages(
        {"role": "assistant", "refusal": "no"},
        {"role": "assistant", "content": [], "refusal": "no"},
        {"role": "assistant", "content": ""},
    ) == [
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant"},
    ]

"""What is sent to Ollama."""

import json
from typing import Any

import pytest

from app.dialects.ollama.upstream.request import Quirks, render_request
from app.requests import parse_chat_request
from tests.sdk.conversations import PNG, call

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}}


def render(request: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model="m", quirks=Quirks()).body
    assert json.loads(json.dumps(body)) == body
    return body


def messages(*sent: dict[str, Any]) -> Any:
    return render({"messages": list(sent)})["messages"]


def test_messages_are_said_in_text_and_images() -> None:
    parts = [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]

    assert messages(
        {"role": "system", "content": "s", "name": "x"},
        {
            "role": "developer",
            "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}],
        },
        {"role": "user", "content": parts, "name": "y"},
    ) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "de"},
        {"role": "user", "content": "ab", "images": [PNG]},
    ]


def test_calls_have_objects_for_arguments_and_results_name_their_tool() -> None:
    calls = [call("i", "f", '{"a": 1}'), call("j", "g", " ")]

    assert messages(
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "i", "content": "r"},
        {"role": "tool", "tool_call_id": "j", "content": [{"type": "text", "text": "s"}, IMAGE]},
        {"role": "tool", "tool_call_id": "k", "content": "t"},
    ) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "i", "function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "j", "function": {"name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "r", "tool_name": "f", "tool_call_id": "i"},
        {"role": "tool", "content": "s", "images": [PNG], "tool_name": "g", "tool_call_id": "j"},
        {"role": "user", "content": "Result of the tool call 'k':\nt"},
    ]


def test_thinking_goes_back_and_proofs_of_others_do_not() -> None:
    parts = [
        {"type": "reasoning", "text": "r", "signature": "S", "format": "x"},
        {"type": "opaque", "format": "x", "data": "D"},
        {"type": "text", "text": "a"},
        {"type": "refusal", "refusal": "b"},
    ]

    assert messages(
        {"role": "assistant", "content": parts},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "refusal": "no"},
        {"role": "assistant", "content": [], "refusal": "no"},
    ) == [
        {"role": "assistant", "content": "ab", "thinking": "r"},
        {"role": "assistant", "content": "a", "thinking": "r"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": "no"},
    ]

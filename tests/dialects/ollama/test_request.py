"""What is sent to Ollama."""

from functools import partial
from typing import Any

import pytest

from tests.dialects import rendering
from tests.dialects.rendering import assistant, call, image, part, result, said
from tests.sdk.conversations import PNG

pytestmark = pytest.mark.pure

render = partial(rendering.render, "ollama")

IMAGE = image(f"data:image/png;base64,{PNG}", detail="low")


def messages(*sent: dict[str, Any]) -> Any:
    return render({"messages": list(sent)})["messages"]


def test_messages_are_said_in_text_and_images() -> None:
    parts = [said("a"), IMAGE, said("b")]

    assert messages(
        {"role": "system", "content": "s", "name": "x"},
        {"role": "developer", "content": [said("d"), said("e")]},
        {"role": "user", "content": parts, "name": "y"},
    ) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "de"},
        {"role": "user", "content": "ab", "images": [PNG]},
    ]


def test_calls_have_objects_for_arguments_and_results_name_their_tool() -> None:
    calls = [call("i", "f", '{"a": 1}'), call("j", "g", " ")]

    assert messages(
        assistant(tool_calls=calls), result("r"), result([said("s"), IMAGE], "j"), result("t", "k")
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


def test_thinking_goes_back_and_signatures_of_others_do_not() -> None:
    parts = [
        part("reasoning", "r", signature="S", format="x"),
        part("opaque", format="x", data="D"),
        said("a"),
        part("refusal", refusal="b"),
    ]

    assert messages(
        {"role": "assistant", "content": parts},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        assistant(refusal="no"),
        {"role": "assistant", "content": [], "refusal": "no"},
    ) == [
        {"role": "assistant", "content": "ab", "thinking": "r"},
        {"role": "assistant", "content": "a", "thinking": "r"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": "no"},
    ]

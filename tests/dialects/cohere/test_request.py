"""What is sent to Cohere."""

from functools import partial
from typing import Any

import pytest

from tests.dialects import rendering
from tests.dialects.rendering import assistant, call, image, part, result, said, user
from tests.sdk.conversations import PICTURE

pytestmark = pytest.mark.pure

render = partial(rendering.render, "cohere")

IMAGE = image(PICTURE, detail="low")
TEXT = said("a")


def messages(*sent: dict[str, Any], **quirks: Any) -> Any:
    return render({"messages": list(sent)}, **quirks)["messages"]


def test_messages_keep_their_parts() -> None:
    assert messages(
        {"role": "system", "content": "s", "name": "x"},
        {"role": "developer", "content": [TEXT]},
        user(TEXT, IMAGE, image("u")),
        {"role": "assistant", "content": "b"},
    ) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": [TEXT]},
        user(TEXT, IMAGE, image("u")),
        {"role": "assistant", "content": "b"},
    ]


def test_calls_and_results_are_sent() -> None:
    assert messages(
        assistant(tool_calls=[call("i", "f", '{"a": 1}'), call("j", "g", "")]),
        result("r"),
        result([TEXT], "j"),
    ) == [
        assistant(tool_calls=[call("i", "f", '{"a": 1}'), call("j", "g", "{}")]),
        result("r"),
        result([TEXT], "j"),
    ]


THOUGHT = {"role": "assistant", "content": "a", "reasoning_content": "r"}
PLANNED = assistant(reasoning_content="r", tool_calls=[call("i", "f", "{}")])
PARTS = assistant(
    part("reasoning", "r", signature="S", format="x"),
    part("opaque", format="x", data="D"),
    TEXT,
    part("refusal", refusal="b"),
    said(""),
)
THINKING = {"type": "thinking", "thinking": "r"}


@pytest.mark.parametrize(
    ("way", "sent"),
    [
        (
            "tool_plan",
            [
                {"role": "assistant", "content": "a"},
                assistant(tool_plan="r", tool_calls=PLANNED["tool_calls"]),
                {"role": "assistant", "content": "ab"},
            ],
        ),
        (
            "thinking",
            [
                assistant(THINKING, TEXT),
                assistant(THINKING, tool_calls=PLANNED["tool_calls"]),
                assistant(THINKING, {"type": "text", "text": "ab"}),
            ],
        ),
        (
            "no",
            [
                {"role": "assistant", "content": "a"},
                assistant(tool_calls=PLANNED["tool_calls"]),
                {"role": "assistant", "content": "ab"},
            ],
        ),
    ],
)
def test_reasoning_goes_back_as_the_model_takes_it(way: str, sent: list[Any]) -> None:
    assert messages(THOUGHT, PLANNED, PARTS, send_reasoning=way) == sent

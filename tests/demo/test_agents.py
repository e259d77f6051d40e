"""How the models treat agents: with their tools and reminders."""

from typing import Any

import pytest

from app.demo.answers import MAX_RESULTS
from tests.demo.client import asked, stream
from tests.demo.test_answers import tool

pytestmark = pytest.mark.pure

REMINDER = "<system-reminder>\nAs you answer, mind this.\n</system-reminder>"
PATH = {"type": "string", "description": "an absolute path"}
CODING = [tool("Write", file_path=PATH, content=PATH), tool("Read", file_path=PATH), tool("Bash")]


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def calling(*names: str) -> dict[str, Any]:
    calls = [
        {"id": f"call_{name}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in names
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(name: str, content: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{name}", "content": content}


def names(streamed: Any) -> list[str]:
    return [call["name"] for call in streamed.calls()]


async def test_tools_of_agents_are_called_with_a_word_that_does_no_harm():
    streamed = await stream(asked("demo-tools", tools=CODING))

    assert ["Write", "Read"] == names(streamed)
    assert {"demo"} == {value for call in streamed.calls() for value in call["arguments"].values()}


@pytest.mark.parametrize("model", ["demo", "demo-tools"])
async def test_choice_of_the_request_counts_for_every_model(model):
    tools = [tool("rm", path=PATH), tool("mv", path=PATH)]
    named = {"type": "function", "function": {"name": "mv"}}

    assert ["mv"] == names(await stream(asked(model, tools=tools, tool_choice=named)))
    assert ["rm", "mv"] == names(await stream(asked(model, tools=tools, tool_choice="required")))
    assert [] == names(await stream(asked(model, tools=tools, tool_choice="none")))


READ = [user("hello"), calling("Read"), result("Read")]
RESULTS = {
    "results": READ,
    "a reminder after them": [*READ, user(REMINDER)],
    "words after them": [*READ, user("Go on.")],
    "a new instruction after them": [*READ, {"role": "system", "content": "Mind the gap."}],
}


@pytest.mark.parametrize("how", RESULTS)
async def test_no_tool_is_called_after_results(how):
    streamed = await stream(asked("demo-tools", messages=RESULTS[how], tools=CODING))

    assert [] == streamed.calls()
    assert "- `Read`: done" in streamed.text()
    assert ["stop"] == streamed.finish_reasons()


async def test_many_results_are_told_of_in_part():
    called = [f"t{number}" for number in range(1000)]
    messages = [user("hi"), calling(*called), *(result(name, "x" * 999) for name in called)]

    text = (await stream(asked("demo-tools", messages=messages))).text()

    assert MAX_RESULTS == text.count("- `t")
    assert "- `t999`" in text

"""How the models treat agents: with their tools, reminders, instructions and small requests."""

from typing import Any

import pytest

from app.demo.answers import AGENT_INSTRUCTIONS, MAX_RESULTS
from tests.demo.client import asked, stream
from tests.demo.test_answers import KANA, tool

pytestmark = pytest.mark.pure

REMINDER = "<system-reminder>\nAs you answer, mind this: " + "x" * 3000 + "\n</system-reminder>"
PATH = {"type": "string", "description": "an absolute path"}
CODING = [
    tool("Task", description=PATH, prompt=PATH),
    tool("Bash", command=PATH),
    tool("Write", file_path=PATH, content=PATH),
    tool("Edit", file_path=PATH, old_string=PATH, new_string=PATH),
    tool("TodoWrite", todos={"type": "array", "items": {"type": "object"}}),
    tool("WebFetch", url={"type": "string", "format": "uri"}),
    tool("KillShell", shell_id=PATH),
    tool("mcp__git__git_reset", repo=PATH),
    tool("AskUserQuestion", question=PATH),
    tool("ExitPlanMode", plan=PATH),
    tool("Read", file_path=PATH),
    *(tool(f"mcp__files__delete_{number}", path=PATH) for number in range(20)),
]


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


async def test_tools_that_only_look_are_called_and_no_others():
    streamed = await stream(asked("demo-tools", tools=CODING))

    assert ["WebFetch", "Read"] == names(streamed)
    assert ["https://example.com/", "README.md"] == [
        value for call in streamed.calls() for value in call["arguments"].values()
    ]


@pytest.mark.parametrize(
    ("offered", "called"),
    [
        (["search_files", "apply_diff", "read_file"], ["search_files", "read_file"]),
        (["exec_command", "apply_patch", "update_plan", "view_image"], ["view_image"]),
        (["runInTerminal", "grepSearch", "createFile"], ["grepSearch"]),
        (["write_file", "replace", "list_directory"], ["list_directory"]),
        (["bash", "edit", "glob", "todowrite", "webfetch"], ["glob"]),
        (["get_and_delete_mail", "colour"], ["colour"]),
        (["mcp__run__getTime"], ["mcp__run__getTime"]),
        (["execute_command", "write_to_file", "rm"], []),
    ],
)
async def test_harmless_tools_are_known_by_their_words(offered, called):
    streamed = await stream(asked("demo-tools", tools=[tool(name) for name in offered]))

    assert called == names(streamed)
    assert bool(streamed.text()) == (not called)


@pytest.mark.parametrize("model", ["demo", "demo-tools"])
async def test_choice_of_the_request_counts_for_every_model(model):
    tools = [tool("rm", path=PATH), tool("mv", path=PATH)]
    named = {"type": "function", "function": {"name": "mv"}}

    assert ["mv"] == names(await stream(asked(model, tools=tools, tool_choice=named)))
    assert ["rm"] == names(await stream(asked(model, tools=tools, tool_choice="required")))
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
    assert "- done" in streamed.text()
    assert ["stop"] == streamed.finish_reasons()


async def test_agent_that_wants_a_call_each_turn_is_given_an_end():
    tools = [*CODING, tool("attempt_completion", result={"type": "string"})]
    fields: dict[str, Any] = {"tools": tools, "tool_choice": "required"}
    first = await stream(asked("demo-tools", **fields))
    then = await stream(asked("demo-tools", messages=READ, **fields))

    assert ["WebFetch", "Read"] == names(first)
    assert ["attempt_completion"] == names(then)


async def test_many_results_are_told_of_in_part():
    called = [f"t{number}" for number in range(1000)]
    messages = [
        user("hi"),
        calling(*called),
        *(result(name, f"{name} {'x' * 999}") for name in called),
    ]

    text = (await stream(asked("demo-tools", messages=messages))).text()

    assert MAX_RESULTS == text.count("- t")
    assert "- t999 " in text


@pytest.mark.parametrize(
    "content",
    [
        [REMINDER, "What is a relay?"],
        ["What is a relay?", REMINDER],
        [REMINDER, "<context a='b'>\nfiles\n</context>", "What is a relay?", REMINDER],
        ["What is a relay?", "<environment_details>\nf\n</environment_details>"],
        ["an earlier part", "What is a relay?"],
    ],
)
async def test_words_of_the_user_are_quoted_and_not_those_of_the_agent(content):
    text = (await stream(asked(messages=[user(*content)]))).text()

    assert "“What is a relay?”" in text


INSTRUCTIONS = {"role": "system", "content": "You are a coder. " + "x" * AGENT_INSTRUCTIONS}


@pytest.mark.parametrize("how", ["tools", "instructions"])
@pytest.mark.parametrize("words", ["Hello", "こんにちは"])
async def test_agent_is_answered_shortly_and_without_code(how, words):
    fields = {"tools": CODING} if how == "tools" else {"messages": [INSTRUCTIONS, user(words)]}
    text = (await stream(asked("demo", words, **fields))).text()

    assert words in text
    assert "```" not in text
    assert len(text) < 300
    assert bool(KANA.search(text)) == (words != "Hello")

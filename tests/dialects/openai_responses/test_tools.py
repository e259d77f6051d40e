"""What Codex and its like offer and send back, as functions for other providers."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.openai_responses.client.request import parse_request
from app.dialects.openai_responses.client.tool_mapping import CALLS, MAX_LABEL
from app.errors import RequestError

pytestmark = pytest.mark.pure

F: dict[str, Any] = {"type": "function", "name": "f", "parameters": {"type": "object"}}
SPACE = {"type": "namespace", "name": "mcp__w", "description": "d", "tools": [{**F, "name": "get"}]}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: LF"},
}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools."}
WEB: dict[str, Any] = {"type": "web_search", "external_web_access": True}


def parse(**fields: Any) -> Any:
    return parse_request(json.dumps({"model": "m", "input": "hello", **fields}).encode())


def names(asked: Any) -> list[str]:
    return [tool.function.name for tool in asked.chat.tools or ()]


def label(asked: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(asked.labels.get(CALLS, "{}"))
    return found


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.to_builtins(parse(input=[*items], **fields).chat.messages)
    return found


def test_tools_are_functions_and_the_label_says_what_they_were() -> None:
    asked = parse(tools=[F, SPACE, PATCH, SEARCH, {"type": "local_shell"}, WEB])

    assert ["f", "mcp__w__get", "apply_patch", "tool_search"] == names(asked)
    assert {
        "mcp__w__get": {"name": "get", "namespace": "mcp__w"},
        "apply_patch": {"form": "custom", "name": "apply_patch"},
        "tool_search": {"form": "tool_search", "name": "tool_search"},
    } == label(asked)
    assert ("tools.local_shell", "tools.web_search") == asked.chat.client_body.ignored
    patch = asked.chat.tools[2].function
    assert patch.description.startswith("Edits files.")
    assert patch.description.endswith("(lark):\nstart: LF")
    assert {"input": {"type": "string"}} == patch.parameters["properties"]


def test_plain_functions_need_no_label() -> None:
    assert {} == label(parse(tools=[F]))


def test_names_are_valid_and_those_of_no_other_tool() -> None:
    spaces = [
        {"type": "namespace", "name": "a" * 60, "tools": [{**F, "name": "b" * 60}]},
        {"type": "namespace", "name": "a" * 60, "tools": [{**F, "name": "b" * 61}]},
        {"type": "namespace", "name": "ä.1", "tools": [{**F, "name": "get"}]},
        {"type": "namespace", "name": "ö.1", "tools": [{**F, "name": "get"}]},
        {"type": "namespace", "name": "x__", "tools": [{**F, "name": "y"}]},
        {"type": "custom", "name": "f"},
    ]
    asked = parse(tools=[{**F, "name": "x__y"}, F, *spaces])

    found = names(asked)
    assert len(found) == len({*found}) == 8
    assert all(len(name) <= 64 and name.replace("_", "").isalnum() for name in found)
    assert all(name.isascii() for name in found)
    assert found == names(parse(tools=[{**F, "name": "x__y"}, F, *spaces]))  # each time
    assert {("x__", "y"), ("ä.1", "get")} <= {
        (said.get("namespace"), said["name"]) for said in label(asked).values()
    }


def test_names_that_are_too_long_together_are_refused() -> None:
    tools = [{**F, "name": f"{number:0255}"} for number in range(300)]
    with pytest.raises(RequestError, match=f"at most {MAX_LABEL}"):
        parse(tools=[{"type": "namespace", "name": "n", "tools": tools}])
    with pytest.raises(RequestError, match="more than 1000 tools"):
        parse(tools=[{**SPACE, "tools": [{**F, "name": f"f{n}"} for n in range(1001)]}])


def test_what_was_called_goes_back_as_it_was_told() -> None:
    found = messages(
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": 'a"\n'},
        {"type": "custom_tool_call_output", "id": "x", "call_id": "c1", "output": "ok"},
        {
            **{"type": "function_call", "call_id": "c2", "name": "get", "namespace": "mcp__w"},
            **{"arguments": "{}", "novel": 1},
        },
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "text", "text": "a"}],
        },
        tools=[SPACE, PATCH],
    )

    calls = [m["tool_calls"][0] for m in found if m["role"] == "assistant"]
    assert [
        ("c1", "apply_patch", '{"input":"a\\"\\n"}'),
        ("c2", "mcp__w__get", "{}"),
    ] == [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]
    assert ["c1", "c2"] == [m["tool_call_id"] for m in found if m["role"] == "tool"]


def test_tools_that_were_found_are_offered() -> None:
    called = {"type": "tool_search_call", "execution": "client", "call_id": "c1"}
    asked = parse(
        input=[
            {"role": "user", "content": "Hi"},
            {**called, "arguments": {"query": "weather"}},
            {
                "type": "tool_search_output",
                "execution": "client",
                "call_id": "c1",
                "tools": [SPACE],
            },
            {"type": "additional_tools", "role": "developer", "tools": [F]},
        ],
        tools=[SEARCH],
    )

    assert ["tool_search", "mcp__w__get", "f"] == names(asked)
    _, said, told = msgspec.to_builtins(asked.chat.messages)
    assert '{"query":"weather"}' == said["tool_calls"][0]["function"]["arguments"]
    assert "get" in told["content"]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "x"}},
        {"type": "computer_call", "call_id": "c"},
        {"type": "not_known_yet", "any": ["thing"]},
    ],
)
def test_items_that_have_no_place_are_left_out_and_told(item: dict[str, Any]) -> None:
    asked = parse(input=[{"role": "user", "content": "Hi"}, item])

    assert (f"input.{item['type']}",) == asked.chat.client_body.ignored
    assert 1 == len(asked.chat.messages)
    assert item in asked.chat.client_body.body["input"]


def test_fields_that_are_not_known_are_left_out_and_told() -> None:
    asked = parse(
        **{"client_metadata": {"a": "b"}, "novel": [1], "prompt_cache_key": "k", "store": False},
        **{"reasoning": {"effort": "low", "context": "all", "mode": "pro"}, "stream": True},
        **{"text": {"verbosity": "low"}, "context_management": [{"type": "compaction"}]},
        **{"input": [{"role": "user", "content": "Hi", "id": "msg_1", "novel": 1}]},
    )

    assert {
        *("client_metadata", "novel", "context_management"),
        *("reasoning.context", "reasoning.mode", "input[].novel"),
    } == {*asked.chat.client_body.ignored}
    assert "low" == asked.chat.reasoning_effort


def test_what_is_left_out_is_bounded() -> None:
    fields = {f"{number}{'x' * 1000}": 1 for number in range(1000)}
    items = [{"type": f"{number}{'x' * 1000}"} for number in range(1000)]
    tools = [{"type": f"{number}{'x' * 1000}"} for number in range(1000)]
    asked = parse(**fields, input=[{"role": "user", "content": "Hi"}, *items], tools=tools)

    assert sum(map(len, asked.chat.client_body.ignored)) < 5000


ALLOWED: dict[str, Any] = {
    "type": "allowed_tools",
    "mode": "required",
    "tools": [{"type": "custom", "name": "p"}],
}
P = {"type": "custom", "name": "p"}


@pytest.mark.parametrize(
    ("fields", "choice", "offered"),
    [
        ({"tools": [F, P], "tool_choice": {"type": "custom", "name": "p"}}, "p", ["f", "p"]),
        ({"tools": [F, P], "tool_choice": ALLOWED}, "required", ["p"]),
        ({"tools": [F, P], "tool_choice": {**ALLOWED, "mode": "auto"}}, "auto", ["p"]),
        ({"tools": [F], "tool_choice": {**ALLOWED, "mode": "auto"}}, None, []),
        ({"tools": [WEB], "tool_choice": "auto", "parallel_tool_calls": True}, None, []),
        ({"tools": [F, WEB], "tool_choice": "required"}, "required", ["f"]),
        (
            {"tools": [SEARCH], "tool_choice": {"type": "tool_search"}},
            "tool_search",
            ["tool_search"],
        ),
    ],
)
def test_choices(fields: dict[str, Any], choice: str | None, offered: list[str]) -> None:
    asked = parse(**fields)

    said = asked.chat.tool_choice
    assert choice == (said if said is None or isinstance(said, str) else said.function.name)
    assert offered == names(asked)
    assert () == asked.chat.client_body.untranslatable
    assert fields["tool_choice"] == asked.chat.client_body.body["tool_choice"]


BEYOND: list[dict[str, Any]] = [
    {"tools": [F, WEB], "tool_choice": {"type": "web_search"}},
    {"tools": [WEB], "tool_choice": "required"},
    {"tools": [F], "tool_choice": {**ALLOWED, "tools": [WEB]}},
    {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
    {"input": [{"role": "user", "content": [{"type": "novel"}]}]},
]


@pytest.mark.parametrize("fields", BEYOND)
def test_what_changes_the_answer_is_beyond_others(fields: dict[str, Any]) -> None:
    assert 1 == len(parse(**fields).chat.client_body.untranslatable)


def test_an_image_as_it_is_is_one_in_high_detail() -> None:
    image = {"type": "input_image", "image_url": "https://a", "detail": "original"}
    (message,) = messages({"role": "user", "content": [image]})

    assert "high" == message["content"][0]["image_url"]["detail"]

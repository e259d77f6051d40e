"""`cache_control`: what becomes of a mark, by the dialect, the model and the vendor."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.upstream.request import Quirks
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.requests import ChatRequest, parse_chat_request

pytestmark = pytest.mark.pure

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL = {"type": "function", "function": {"name": "f"}, "cache_control": MARK}
CONVERSATION: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": HOUR}, {"type": "text", "text": "t"}]},
        {"role": "user", "content": "u", "cache_control": MARK},
        {"role": "assistant", "content": "a", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}], "cache_control": MARK},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "r", "cache_control": MARK}]},
        {"role": "user", "content": [{"type": "text", "text": "v"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "g"}}, TOOL],
    "cache_control": MARK,
}  # fmt: skip


def chat(body: dict[str, Any]) -> ChatRequest:
    return parse_chat_request(json.dumps(body).encode())


def render(dialect: str, *, model: str = "claude-x", quirks: Any = None) -> Any:
    request = chat(CONVERSATION)
    return msgspec.to_builtins(
        UPSTREAM_FORMATS[dialect].render_request(request, model=model, quirks=quirks).body
    )


def marks(value: Any, name: str) -> int:
    return json.dumps(value).count(f'"{name}"')


@pytest.mark.parametrize("dialect", ["anthropic", "vertex_anthropic", "bedrock_anthropic"])
def test_claude_has_the_last_four_marks(dialect: str) -> None:
    body = render(dialect)
    user, assistant, result = body["messages"]

    assert 0 == marks(body["system"], "cache_control")
    assert MARK == user["content"][-1]["cache_control"]
    assert ("tool_use", MARK) == (
        assistant["content"][-1]["type"],
        assistant["content"][-1]["cache_control"],
    )
    assert MARK == result["content"][0]["content"][0]["cache_control"]
    assert [None, None] == [tool.get("cache_control") for tool in body["tools"]]
    # Only Anthropic's own API puts one at the end by itself.
    at_the_end = result["content"][-1].get("cache_control")
    expected = (MARK, None) if dialect == "anthropic" else (None, MARK)
    assert expected == (body.get("cache_control"), at_the_end)


@pytest.mark.parametrize(
    ("dialect", "name", "count"),
    # Converse has one point where the last turn and the request are marked.
    [("anthropic", "cache_control", 4), ("bedrock_converse", "cachePoint", 3)],
)
def test_four_marks_are_all_sent(dialect: str, name: str, count: int) -> None:
    request = chat({**CONVERSATION, "messages": CONVERSATION["messages"][:2]})
    row = UPSTREAM_FORMATS[dialect]
    sent = row.render_request(request, model="anthropic.claude-x", quirks=row.quirks())

    assert count == marks(sent.body, name)
    assert "1h" in json.dumps(sent.body["system"])
    assert not any("dropped the first" in change for change in sent.changes)


def test_bedrock_has_points_after_what_is_marked() -> None:
    body = render("bedrock_converse", model="anthropic.claude-x")
    point = {"cachePoint": {"type": "default"}}
    user, assistant, last = (turn["content"] for turn in body["messages"])

    assert [{"text": "s"}, {"text": "t"}] == body["system"]  # the last four are sent
    assert [{"text": "u"}, point] == user
    assert point == assistant[-1]
    assert ["toolResult", "cachePoint", "text", "cachePoint"] == [next(iter(b)) for b in last]
    assert ["toolSpec", "toolSpec"] == [next(iter(tool)) for tool in body["toolConfig"]["tools"]]


def told(dialect: str, model: str) -> list[str]:
    row = UPSTREAM_FORMATS[dialect]
    return list(row.render_request(chat(CONVERSATION), model=model, quirks=row.quirks()).changes)


def test_bedrocks_other_models_are_sent_what_they_take() -> None:
    nova = render("bedrock_converse", model="us.amazon.nova-pro-v1:0")
    llama = render("bedrock_converse", model="meta.llama3-1-8b-instruct-v1:0")

    assert 0 == marks(nova["toolConfig"], "cachePoint") == marks(nova, "ttl")
    assert 4 == marks(nova, "cachePoint")
    assert 0 == marks(llama, "cachePoint")
    fewer = "allows 4 cache_control: dropped the first"
    assert [fewer] == told("bedrock_converse", "anthropic.claude-x")
    unknown = "does not support cache_control for this model: dropped"
    assert [fewer, unknown] == told("bedrock_converse", "us.amazon.nova-pro-v1:0")
    assert [unknown] == told("bedrock_converse", "meta.llama3-1-8b-instruct-v1:0")


def test_a_gateway_has_them_on_texts_and_tools() -> None:
    body = render("openai_chat", quirks=Quirks(cache_control=True))
    system, user, assistant, result, last = (m["content"] for m in body["messages"])

    assert [HOUR, None] == [part.get("cache_control") for part in system]
    for content in (user, assistant, result, last):
        assert MARK == content[-1]["cache_control"]
    assert [None, MARK] == [tool.get("cache_control") for tool in body["tools"]]
    assert not any("cache_control" in message for message in body["messages"])
    assert "cache_control" not in body


@pytest.mark.parametrize("dialect", [d for d, row in UPSTREAM_FORMATS.items() if "cache_control" in {*row.ignored, *row.quirks().ignored}])  # fmt: skip
def test_nobody_else_is_sent_a_mark(dialect: str) -> None:
    assert 0 == marks(render(dialect, model="m"), "cache_control")


@pytest.mark.parametrize("dialect", ["bedrock_converse", "openai_chat"])
def test_marks_of_anthropics_clients_reach_others(dialect: str) -> None:
    """As Claude Code sets them: of the system, of the last tool, of the last blocks."""
    body = {
        "model": "m",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "s", "cache_control": {**HOUR, "scope": "global"}}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": MARK}],
        "messages": [
            {"role": "user", "content": "u"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c1",
                        "content": "r",
                        "cache_control": MARK,
                    },
                    {"type": "text", "text": "v", "cache_control": MARK},
                ],
            },
        ],
    }
    request = CLIENT_FORMATS["anthropic"].parse_request(json.dumps(body).encode()).chat
    quirks = Quirks(cache_control=True) if dialect == "openai_chat" else None
    render = UPSTREAM_FORMATS[dialect].render_request
    found = render(request, model="anthropic.claude-x", quirks=quirks).body

    name = "cache_control" if dialect == "openai_chat" else "cachePoint"
    assert 4 == marks(found, name)
    assert 1 == marks(found, "ttl")
    assert 0 == marks(found, "scope")

"""What other clients than OpenAI's newest send: each shape is one that a client was seen to send."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.client_format import ParsedRequest
from app.dialects.openai_chat.client.renderer import Renderer
from app.dialects.openai_chat.client.request import parse_request
from app.dialects.openai_chat.client.result import render_result
from app.dialects.openai_chat.upstream.request import Quirks, render_request
from app.events import (
    ChoiceEnd,
    Event,
    Opaque,
    StreamEnd,
    StreamStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tests.dialects import rendering as words

pytestmark = pytest.mark.pure

USER = {"role": "user", "content": "hi"}


def ask(*messages: Any, **fields: Any) -> ParsedRequest:
    body = {"model": "m", "messages": [*(messages or (USER,))], **fields}
    return parse_request(json.dumps(body).encode())


def said(*messages: Any, **fields: Any) -> Any:
    return msgspec.to_builtins(ask(*messages, **fields).chat)


def noted(*messages: Any, **fields: Any) -> tuple[str, ...]:
    chat = ask(*messages, **fields).chat
    return (*chat.members, *chat.left_out)


def without_rest(value: Any) -> Any:
    """A value without the members that only a provider of Chat Completions receives."""
    if isinstance(value, list):
        return [without_rest(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: without_rest(inner) for name, inner in value.items() if name != "rest"}


CALL = words.call("c1")
MARKED = {
    **words.user(words.part("text", "a", cache_control={"type": "ephemeral"})),
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
}
MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "LangChain.js, the result of a tool": (
        {"role": "tool", "content": "r", "name": "f", "tool_call_id": "c1"},
        words.result("r", "c1"),
        ["messages[].name"],
    ),
    "OpenAI Agents JS, the message in its part": (
        words.assistant(words.part("text", "ok", role="assistant", refusal=None, annotations=[])),
        words.assistant(words.said("ok")),
        ["messages[].content[].role"],
    ),
    "LiteLLM, its own message": (
        {
            "role": "assistant",
            "content": "ok",
            "provider_specific_fields": {"refusal": None},
            "annotations": [],
        },
        {"role": "assistant", "content": "ok"},
        [],
    ),
    "LiteLLM, Claude's thinking": (
        {
            "role": "assistant",
            "content": "ok",
            "provider_specific_fields": {"citations": [1]},
            "thinking_blocks": [
                {"type": "thinking", "thinking": "t", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
            ],
        },
        words.assistant(
            words.part("reasoning", "t", signature="s"),
            words.part("opaque", format="anthropic.redacted_thinking", data="d"),
            words.said("ok"),
        ),
        ["messages[].provider_specific_fields"],
    ),
    "an id, and null for what is not there": (
        {"role": "user", "content": "hi", "id": "msg_1", "tool_calls": None, "function_call": None},
        USER,
        ["messages[].id"],
    ),
    "the newest detail": (
        words.user(words.image("https://x/a", detail="original")),
        words.user(words.image("https://x/a", detail="original")),
        [],
    ),
    "Mistral, an image that is its URL": (
        words.user(
            {"type": "image_url", "image_url": "https://x/a"}, {"type": "input_text", "text": "a"}
        ),
        words.user(words.image("https://x/a"), words.said("a")),
        [],
    ),
    "Claude's blocks of thinking": (
        words.assistant({"type": "thinking", "thinking": "t", "signature": "s"}, words.said("ok")),
        words.assistant(words.part("reasoning", "t", signature="s"), words.said("ok")),
        [],
    ),
    "Mistral's part that is a thought": (
        words.assistant({"type": "thinking", "thinking": [words.said("t")]}),
        words.assistant(words.part("reasoning", "t")),
        [],
    ),
    "marks": (MARKED, MARKED, []),
    "a call with more than a call": (
        words.assistant(tool_calls=[{**CALL, "provider_specific_fields": {"a": 1}, "index": 0}]),
        words.assistant(tool_calls=[CALL]),
        ["messages[].tool_calls[].provider_specific_fields"],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_taken_and_what_has_no_place_is_noted(name: str) -> None:
    given, taken, paths = MESSAGES[name]

    assert [taken] == without_rest(said(given)["messages"])
    assert paths == list(noted(given))


FUNCTION = {"name": "f", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}


def test_claudes_thinking_goes_back_through_litellm_as_it_came() -> None:
    blocks = [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
    ]
    chat = ask(USER, {"role": "assistant", "content": "ok", "thinking_blocks": blocks}, USER).chat
    body = render_request(chat, model="m", quirks=Quirks(send_reasoning="thinking_blocks")).body

    assert blocks == body["messages"][1]["thinking_blocks"]


def test_fields_of_tools_and_formats_that_are_not_known_are_noted() -> None:
    found = noted(
        tools=[{**TOOL, "eager": True, "function": {**FUNCTION, "examples": [1]}}],
        tool_choice={"type": "function", "function": {"name": "f", "x": 1}},
        response_format={"type": "json_schema", "json_schema": {"name": "n", "x": 1}},
        stream_options={"include_usage": True, "chunk_size": 5},
    )

    assert {
        *("tools[].eager", "tools[].function.examples", "tool_choice.function.x"),
        *("response_format.json_schema.x", "stream_options.chunk_size"),
    } == {*found}


def test_a_mark_in_a_function_is_one_of_its_tool() -> None:
    tool = {"type": "function", "function": {**FUNCTION, "cache_control": {"type": "ephemeral"}}}

    (found,) = said(tools=[tool])["tools"]
    assert {"function": FUNCTION, "cache_control": {"type": "ephemeral"}} == found


def test_no_more_is_noted_than_a_notice_can_say() -> None:
    assert 50 == len(noted({**USER, **{f"f{i}": 1 for i in range(1000)}}))
    assert 120 == max(map(len, noted({**USER, "f" * 1000: 1})))


@pytest.mark.parametrize(
    ("mode", "choice"), [("auto", "auto"), ("required", "required"), (None, "auto")]
)
def test_allowed_tools_are_a_choice_among_the_tools(mode: str | None, choice: str) -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("f", "g")]
    listed = {"mode": mode, "tools": [tools[1]]}
    found = said(tools=tools, tool_choice={"type": "allowed_tools", "allowed_tools": listed})

    assert (choice, ["g"], 2) == (found["tool_choice"], found["allowed_tools"], len(found["tools"]))


def test_custom_tools_are_functions_with_a_text() -> None:
    grammar = {"syntax": "lark", "definition": "start: /a/"}
    custom = {"name": "g", "description": "d", "format": {"type": "grammar", "grammar": grammar}}
    call = {"id": "c1", "type": "custom", "custom": {"name": "g", "input": "a"}}
    asked = ask(
        USER,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        tools=[{"type": "custom", "custom": custom}],
        tool_choice={"type": "custom", "custom": {"name": "g"}},
    )
    found = msgspec.to_builtins(asked.chat)
    (tool,) = found["tools"]

    assert {"custom_tools": '["g"]'} == asked.labels
    assert ["input"] == tool["function"]["parameters"]["required"]
    assert "start: /a/" in tool["function"]["description"]
    assert {"function": {"name": "g"}} == found["tool_choice"]
    assert '{"input":"a"}' == found["messages"][1]["tool_calls"][0]["function"]["arguments"]


def answer(*calls: Event, **labels: str) -> list[Event]:
    start = StreamStart("st_1", "m", 1, labels=labels)
    end: list[Event] = [ChoiceEnd("tool_calls"), StreamEnd("completed", "tool_calls")]
    return [start, *calls, *end]


def call_events(block: int, name: str, *pieces: str) -> list[Event]:
    return [
        ToolCallStart(block, f"c{block}", name),
        Opaque("google.thought_signature", "goo", block),
        *(ToolCallDelta(block, piece) for piece in pieces),
        ToolCallEnd(block, "".join(pieces) or "{}"),
    ]


def deltas(events: list[Event]) -> tuple[list[Any], str]:
    """Return what the chunks say of calls, and the finish reason."""
    renderer = Renderer("st_1")
    frames = [frame for event in events for frame in renderer.feed(event)]
    chunks = [json.loads(frame.data) for frame in frames if frame.data != b"[DONE]"]
    choices = [chunk["choices"][0] for chunk in chunks]
    found = [choice["delta"] for choice in choices]
    return [one["tool_calls"] for one in found if "tool_calls" in one], choices[-1]["finish_reason"]


@pytest.mark.parametrize(("said", "text"), [('{"input": "a\\nb"}', "a\nb"), ("a b", "a b")])
def test_call_of_a_custom_tool_is_its_text(said: str, text: str) -> None:
    calls = [*call_events(0, "g", said[:4], said[4:]), *call_events(1, "f", "{}")]
    events = answer(*calls, custom_tools='["g"]')
    found, reason = deltas(events)

    first = found[0][0]
    assert ("custom", "g", 0) == (first["type"], first["custom"]["name"], first["index"])
    assert text == "".join(c["custom"]["input"] for (c,) in found if "custom" in c)
    assert "tool_calls" == reason
    (choice,) = render_result("st_1", events)["choices"]
    custom, function = choice["message"]["tool_calls"]
    assert {"name": "g", "input": text} == custom["custom"]
    assert {"google": {"thought_signature": "goo"}} == custom["extra_content"]
    assert "f" == function["function"]["name"]


def test_a_plain_request_is_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain requests skip `unknown_fields`, which reads a body three times."""
    monkeypatch.setattr("app.dialects.openai_chat.client.request.translate", None)
    tools = [TOOL]
    plain = [
        ask(USER, tools=tools, verbosity="low", stream_options={"include_usage": True}),
        ask(USER, {"role": "assistant", "content": "a", "refusal": None, "annotations": []}, USER),
        ask({"role": "tool", "content": "r", "tool_call_id": "c1"}),
    ]

    assert [(None, ())] * 3 == [(asked.chat.extras, asked.chat.left_out) for asked in plain]

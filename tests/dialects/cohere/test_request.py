"""What is sent to Cohere."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.cohere.upstream.request import IGNORED, Quirks, render_request
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import ChatRequest, parse_chat_request
from tests.sdk.conversations import PDF, PICTURE, call

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
BARE = {"type": "function", "function": {"name": "g", "strict": True}}
SENT_BARE = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}  # fmt: skip
IMAGE = {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}
TEXT = {"type": "text", "text": "a"}


def render(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model="m", quirks=msgspec.convert(quirks, Quirks)).body
    assert json.loads(json.dumps(body)) == body
    return body


def messages(*sent: dict[str, Any], **quirks: Any) -> Any:
    return render({"messages": list(sent)}, **quirks)["messages"]


def test_a_plain_request_asks_for_a_stream() -> None:
    assert render({}) == {"model": "m", "messages": HI, "stream": True}
    assert render_request(
        parse_chat_request(b'{"messages":[{"role":"user","content":"hi"}]}'), model="m"
    ).body == render({})


def test_what_is_ours_is_not_sent() -> None:
    assert render({"model": "route", "stream": False, "on_disconnect": 5}) == render({})


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0, "top_p": 0.5, "seed": 0}, {"temperature": 0, "p": 0.5, "seed": 0}),
        ({"stop": "a"}, {"stop_sequences": ["a"]}),
        ({"stop": ["a", "b"]}, {"stop_sequences": ["a", "b"]}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_tokens": 6}),
        ({"presence_penalty": 0, "frequency_penalty": 1}, {"presence_penalty": 0, "frequency_penalty": 1}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True}),
        ({"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "minimal"}, {"thinking": {"type": "enabled", "token_budget": 512}}),
        ({"reasoning_effort": "low"}, {"thinking": {"type": "enabled", "token_budget": 1024}}),
        ({"reasoning_effort": "medium"}, {"thinking": {"type": "enabled", "token_budget": 4096}}),
        ({"reasoning_effort": "high"}, {"thinking": {"type": "enabled"}}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_object"}}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}}, {"response_format": {"type": "json_object", "json_schema": SCHEMA}}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, {"response_format": {"type": "json_object"}}),
        ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [TOOL]}),
        ({"tools": [TOOL, BARE]}, {"tools": [TOOL, SENT_BARE]}),
        ({"tools": [BARE]}, {"tools": [SENT_BARE], "strict_tools": True}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [TOOL], "tool_choice": "REQUIRED"}),
        ({"tools": [TOOL], "tool_choice": "none"}, {"tools": [TOOL], "tool_choice": "NONE"}),
        ({"tools": []}, {}),
        ({"n": 1, "metadata": {"a": "b"}, "user": "u", "parallel_tool_calls": False}, {}),
        ({"provider_options": {"documents": ["d"], "k": 5, "safety_mode": "OFF"}}, {"documents": ["d"], "k": 5, "safety_mode": "OFF"}),
        ({"reasoning_effort": "low", "provider_options": {"thinking": {"type": "disabled"}}}, {"thinking": {"type": "disabled"}}),
        ({"provider_options": {"model": "dear", "stream": False}}, {}),
    ],
)  # fmt: skip
def test_each_field_has_its_place(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert render(given) == {**render({}), **sent}


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


def part(role: str, **fields: Any) -> dict[str, Any]:
    message = {"role": role, "content": [TEXT, fields]}
    return {"messages": [*HI, message if role == "user" else {**message, "tool_call_id": "i"}]}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"n": 2}, "n: more than one choice cannot be sent in Cohere's API"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice: the demand for one function cannot be sent in Cohere's API"),
        (part("user", type="input_audio", input_audio={"data": "x", "format": "wav"}), "messages[1].content[1]: anything but text and images cannot be sent in Cohere's API"),
        (part("user", type="file", file={"file_data": PDF}), "messages[1].content[1]: anything but text and images cannot be sent in Cohere's API"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(given)

    assert (refused.value.code, refused.value.message) == ("invalid_request", why)


def test_the_request_is_not_changed() -> None:
    request = parse_chat_request(json.dumps({"messages": HI, "tools": [TOOL]}).encode())
    render_request(request, model="m")

    assert request == msgspec.json.decode(msgspec.json.encode(request), type=type(request))


def test_the_table_names_the_dialect() -> None:
    dialect = UPSTREAM_FORMATS["cohere"]

    assert dialect.path == "v2/chat"
    assert str(dialect.models_path).startswith("v1/models")
    assert dialect.render_request is render_request
    assert dialect.ignored == IGNORED <= set(ChatRequest.__struct_fields__)

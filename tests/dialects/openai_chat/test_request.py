"""What is sent to an upstream that speaks Chat Completions."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.openai_chat.request import Quirks, render_request
from app.dialects.table import DIALECTS
from app.requests import parse_chat_request

HI = [{"role": "user", "content": "hi"}]


def render(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model="m", quirks=msgspec.convert(quirks, Quirks))
    assert json.loads(json.dumps(body)) == body
    return body


def test_a_plain_request_asks_for_a_stream_with_usage() -> None:
    assert render({}) == {
        "model": "m",
        "messages": HI,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_is_ours_is_not_sent() -> None:
    assert render({"model": "route", "stream": False, "on_disconnect": 5}) == render({})


def test_everything_else_is_sent_as_it_came() -> None:
    request = {
        "temperature": 0,
        "top_p": 0.5,
        "n": 2,
        "stop": ["a"],
        "seed": 1,
        "frequency_penalty": 0,
        "presence_penalty": -1,
        "logprobs": False,
        "top_logprobs": 0,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "x"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": False}},
        "reasoning_effort": "low",
        "metadata": {"a": "b"},
        "user": "u",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": [{"type": "text", "text": "d"}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t"},
                    {"type": "image_url", "image_url": {"url": "u", "detail": "low"}},
                    {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}},
                    {"type": "file", "file": {"file_id": "i"}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "i", "content": "r"},
        ],
    }
    assert render(request) == {
        **request,
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_tool_choice_may_be_a_word() -> None:
    assert render({"tool_choice": "required"})["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("given", "field", "sent"),
    [
        ({"max_tokens": 5}, "max_tokens", {"max_tokens": 5}),
        ({"max_tokens": 5}, "max_completion_tokens", {"max_completion_tokens": 5}),
        ({"max_completion_tokens": 5}, "max_tokens", {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", {"max_tokens": 6}),
        ({}, "max_completion_tokens", {}),
    ],
)
def test_the_limit_has_the_name_that_the_vendor_knows(
    given: dict[str, int], field: str, sent: dict[str, int]
) -> None:
    body = render(given, max_tokens_field=field)

    assert {key: value for key, value in body.items() if key.startswith("max_")} == sent


def test_usage_is_not_asked_for_where_that_is_refused() -> None:
    assert "stream_options" not in render({}, stream_options=False)


def test_reasoning_goes_back_only_where_it_is_wanted() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "r"}

    for field in ("reasoning_content", "reasoning"):
        (kept,) = render({"messages": [message]}, send_reasoning=field)["messages"]
        assert kept == {"role": "assistant", "content": "a", field: "r"}
    (sent,) = render({"messages": [message]})["messages"]
    assert sent == {"role": "assistant", "content": "a"}


def test_parts_that_prove_reasoning_go_back_in_openrouters_form() -> None:
    parts = [
        {"type": "reasoning", "text": "r", "signature": "S", "format": "f"},
        {"type": "reasoning", "encrypted": "E"},
        {"type": "text", "text": "a"},
        {"type": "opaque", "format": "g", "data": "D"},
    ]
    message = {"role": "assistant", "content": parts}

    (sent,) = render({"messages": [message]}, send_reasoning="reasoning_details")["messages"]
    assert sent == {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}],
        "reasoning_details": [
            {"type": "reasoning.text", "text": "r", "signature": "S", "format": "f"},
            {"type": "reasoning.encrypted", "data": "E"},
            {"type": "reasoning.encrypted", "data": "D", "format": "g"},
        ],
    }
    (sent,) = render({"messages": [message]}, send_reasoning="reasoning_content")["messages"]
    assert sent["reasoning_content"] == "r"
    (sent,) = render({"messages": [{**message, "content": parts[:1]}]})["messages"]
    assert sent == {"role": "assistant", "content": None}


def test_geminis_signature_goes_back_with_its_call() -> None:
    call = {
        "id": "i",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "opaque": [
            {"format": "google.thought_signature", "data": "S"},
            {"format": "of-another", "data": "T"},
        ],
    }
    (sent,) = render({"messages": [{"role": "assistant", "tool_calls": [call]}]})["messages"]

    del call["opaque"]
    google = {"google": {"thought_signature": "S"}}
    assert sent["tool_calls"] == [{**call, "extra_content": google}]


def test_provider_options_overrule_all_but_model_and_stream() -> None:
    options = {"temperature": 1, "top_k": 5, "model": "dear", "stream": False, "n": None}
    body = render({"temperature": 0, "provider_options": options})

    assert body == {**render({}), "temperature": 1, "top_k": 5, "n": None}


def test_the_request_is_not_changed() -> None:
    request = parse_chat_request(
        json.dumps({"messages": HI, "provider_options": {"a": {"b": 1}}}).encode()
    )
    render_request(request, model="m")["a"]["b"] = 2

    assert request.provider_options == {"a": {"b": 1}}
    assert request == msgspec.json.decode(msgspec.json.encode(request), type=type(request))


def test_the_table_names_the_dialect() -> None:
    dialect = DIALECTS["openai_chat"]

    assert dialect.path == "chat/completions"
    parser = dialect.parser(upstream="u", choices=2)
    assert not parser.ended
    assert dialect.decoder(max_line=10, max_event=10).feed(b"data: a\n\n")[0].data == "a"
    assert dialect.render_request is render_request

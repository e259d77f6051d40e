"""Requests of Chat Completions clients: what becomes of every field, and of junk."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.answering.openai_errors import render_failure
from app.dialects.openai_chat.client.request import parse_request
from app.dialects.openai_chat.upstream.request import Quirks, render_request
from app.errors import RequestError
from app.requests import parse_chat_request

pytestmark = pytest.mark.pure

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def parse(**fields: Any) -> Any:
    return parse_request(json.dumps({**HELLO, **fields}).encode())


def chat(**fields: Any) -> dict[str, Any]:
    """The request that comes of it, but for its plain fields."""
    found: dict[str, Any] = msgspec.to_builtins(parse(**fields).chat)
    return {k: v for k, v in found.items() if k not in ("model", "messages", "stream")}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"max_tokens": 5, "seed": 1, "user": "u"}, {"max_tokens": 5, "seed": 1, "user": "u"}),
        ({"safety_identifier": "s", "user": "u"}, {"safety_identifier": "s", "user": "u"}),
        ({"verbosity": "low"}, {"verbosity": "low"}),
        ({"provider_options": {"verbosity": "high"}}, {"provider_options": {"verbosity": "high"}}),
        ({"modalities": ["text"]}, {}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"logit_bias": {"50256": -100}}, {"extras": {"logit_bias": {"50256": -100.0}}}),
        ({"top_k": 3, "min_p": None}, {"extras": {"top_k": 3}}),
        ({"store": True, "prompt_cache_key": "k"}, {"store": True, "prompt_cache_key": "k"}),
        ({"prompt_cache_retention": "24h"}, {"prompt_cache_retention": "24h"}),
        ({"stop": []}, {}),
        ({"client_metadata": {"a": "b"}}, {"left_out": ("client_metadata",)}),
        ({"stream_options": {"include_obfuscation": False}}, {}),
        ({"on_disconnect": "continue"}, {"on_disconnect": "continue"}),
    ],
)
def test_fields_become(fields, expected):
    assert expected == chat(**fields)


def test_usage_is_asked_for_by_a_label():
    assert [{}, {}, {"usage": "1"}] == [
        parse(**fields).labels
        for fields in (
            {},
            {"stream_options": {"include_usage": False}},
            {"stream_options": {"include_usage": True}},
        )
    ]


def test_missing_messages_are_named():
    with pytest.raises(RequestError) as caught:
        parse_request(b'{"model": "m"}')

    error = json.loads(render_failure(caught.value, "").body)["error"]
    assert "messages" == error["param"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_without_a_signature_is_taken_by_both_names(name):
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "Yes.",
        name: "Hm.",
        "annotations": [],
        "audio": None,
    }
    found = parse(messages=[message]).chat.messages[0]

    assert {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."} == (
        msgspec.to_builtins(found)
    )


def test_extra_content_that_says_nothing_is_nothing():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    extras: list[dict[str, Any]] = [{}, {"google": {}}, {"other": 1}]
    calls = [{**call, "extra_content": extra} for extra in extras]
    found = parse(messages=[{"role": "assistant", "tool_calls": calls}]).chat.messages[0]

    assert [None] * 3 == [call.opaque for call in found.tool_calls]


def test_encrypted_detail_alone_is_reasoning_without_a_text():
    details = [{"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "index": 0}]
    found = parse(messages=[{"role": "assistant", "reasoning_details": details}]).chat.messages[0]

    assert [{"type": "reasoning", "encrypted": "x"}] == msgspec.to_builtins(found)["content"]


def test_plain_details_go_back_as_they_came():
    details = [
        {"type": "reasoning.summary", "summary": "s", "format": "openai-responses-v1"},
        {"type": "reasoning.encrypted", "data": "x", "format": "openai-responses-v1"},
        {"type": "reasoning.text", "text": "t", "format": "google-gemini-v1"},
        {"type": "reasoning.text", "text": "u"},
    ]
    chat = parse(messages=[{"role": "assistant", "reasoning_details": details}]).chat
    quirks = Quirks(send_reasoning="reasoning_details")
    (sent,) = render_request(chat, model="m", quirks=quirks).body["messages"]

    assert details == sent["reasoning_details"]


def test_every_field_of_the_native_request_is_taken():
    native = {
        "temperature": 1, "top_p": 1, "n": 2, "stop": ["x"], "frequency_penalty": 0,
        "presence_penalty": 0, "logprobs": True, "top_logprobs": 2, "parallel_tool_calls": False,
        "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto",
        "response_format": {"type": "json_object"}, "reasoning_effort": "low",
        "metadata": {"a": "b"}, "max_completion_tokens": 3,
    }  # fmt: skip
    ours = parse_chat_request(json.dumps({**HELLO, **native, "stream": False}).encode())

    assert ours == parse(**native).chat

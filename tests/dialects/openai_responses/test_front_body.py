"""Requests of Responses clients: what becomes of every field and item, and of junk."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.openai_responses.client.request import parse_request
from app.dialects.openai_responses.compaction_summary import INSTRUCTION, pack_summary

pytestmark = pytest.mark.pure

FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}


def parse(**fields: Any) -> Any:
    return parse_request(json.dumps({"model": "m", "input": "hello", **fields}).encode())


def chat(**fields: Any) -> dict[str, Any]:
    """The request that comes of it, but for its plain fields."""
    found: dict[str, Any] = msgspec.to_builtins(parse(**fields).chat)
    return {
        k: v for k, v in found.items() if k not in ("model", "messages", "stream", "client_body")
    }


def messages(*items: Any, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = msgspec.to_builtins(parse(input=[*items], **fields).chat.messages)
    return found


SCHEMA = {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"temperature": 1, "top_p": 0.5}, {"temperature": 1.0, "top_p": 0.5}),
        ({"top_logprobs": 2}, {"top_logprobs": 2, "logprobs": True}),
        ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
        ({"include": ["reasoning.encrypted_content"]}, {}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low", "reasoning_summary": "auto"}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        ({"text": {"format": SCHEMA}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True}}}),
        ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
        ({"tools": [FUNCTION]}, {"tools": [{"function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}]}),
        ({"tool_choice": {"type": "function", "name": "f"}}, {"tool_choice": {"function": {"name": "f"}}}),
        ({"tools": []}, {}),
        ({"tool_choice": "required"}, {"tool_choice": "required"}),
        ({"user": "u", "safety_identifier": "s"}, {"user": "u", "safety_identifier": "s"}),
        ({"safety_identifier": "s"}, {"safety_identifier": "s"}),
        ({"metadata": {"a": "b"}}, {"metadata": {"a": "b"}}),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"moderation": {"model": "m"}}, {"extras": {"moderation": {"model": "m"}}}),
        ({"provider_options": {"tools": []}}, {"provider_options": {"tools": []}}),
        ({"background": True}, {"on_disconnect": "continue"}),
        ({"background": True, "on_disconnect": 5}, {"on_disconnect": 5.0}),
        ({"background": True, "on_disconnect": 0}, {"on_disconnect": 0.0}),
        ({"store": False, "truncation": "auto"}, {"store": False, "truncation": "auto"}),
        ({"max_tool_calls": 3, "prompt_cache_key": "k"}, {"max_tool_calls": 3, "prompt_cache_key": "k"}),
        ({"stream_options": {"include_obfuscation": False}, "previous_response_id": None}, {}),
    ],
)  # fmt: skip
def test_fields_become(fields, expected):
    assert expected == chat(**fields)


def test_labels_say_what_the_response_says_again():
    labels = parse(
        **{"temperature": 0.5, "metadata": {"a": "b"}, "background": True, "tool_choice": "none"},
        **{"instructions": "secret", "reasoning": {"effort": "low"}, "tools": [FUNCTION]},
    ).labels

    assert "1" == labels["background"]
    assert {
        "temperature": 0.5,
        "metadata": {"a": "b"},
        "tool_choice": "none",
        "reasoning": {"effort": "low", "summary": None},
    } == json.loads(labels["response"])


def test_text_is_a_users_message_after_the_instructions():
    assert [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
    ] == msgspec.to_builtins(parse(instructions="Be kind.").chat.messages)


def test_items_become_turns():
    marked = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    question = {"type": "input_text", "text": "Time?", **marked}
    shown = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://a.example/i.png"},
    ]
    found = messages(
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [question]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "phase": "commentary",
            "content": [{"type": "output_text", "text": "Wait.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}", "id": "fc_1"},
        {"type": "function_call", "call_id": "c2", "name": "then", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "12:00"},
        {"type": "function_call_output", "call_id": "c2", "output": shown},
        {"role": "assistant", "content": "Noon."},
        {"role": "user", "content": "Thanks"},
    )

    assert [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "Time?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Hm."},
                {"type": "opaque", "format": "openai.phase", "data": "commentary"},
                {"type": "text", "text": "Wait."},
            ],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "then", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "content": "12:00", "tool_call_id": "c1"},
        {
            "role": "tool",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "https://a.example/i.png"}},
            ],
            "tool_call_id": "c2",
        },
        {"role": "assistant", "content": "Noon."},
        {"role": "user", "content": "Thanks"},
    ] == found


def test_compaction_is_asked_for_and_comes_back_as_text():
    ours = {"type": "compaction", "encrypted_content": pack_summary("All.")}
    theirs = {"type": "compaction", "encrypted_content": "E"}
    trigger = {"type": "compaction_trigger"}
    summary, hi, asks = messages(trigger, ours, {"role": "user", "content": "Hi"}, trigger)

    assert ("user", True) == (summary["role"], summary["content"].endswith("\n\nAll."))
    assert ("Hi", INSTRUCTION) == (hi["content"], asks["content"])
    assert "1" == parse(input=[ours, trigger]).labels["compaction"]
    asked = parse(input=[theirs, {"role": "user", "content": "Hi"}])
    assert ("input[0]: a provider's compaction",) == asked.chat.client_body.unsupported
    assert "compaction" not in asked.labels


def test_parts_of_a_users_message():
    (message,) = messages(
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,aa==", "detail": "low"},
                {"type": "input_file", "file_data": "data:x", "filename": "a.pdf"},
                {"type": "input_audio", "input_audio": {"data": "aa==", "format": "wav"}},
            ],
        }
    )

    assert [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aa==", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:x", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "aa==", "format": "wav"}},
    ] == message["content"]

"""What we send for a conversation is what Anthropic's own SDK sends for it.

Every conversation is said twice: in our words, and in the SDK's.
"""

from typing import Any

import anthropic
import pytest

from app.dialects.anthropic.upstream.request import (
    render_bedrock_request,
    render_request,
    render_vertex_request,
)
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.conversation import JSON_ONLY
from tests.sdk import conversations as c
from tests.sdk.conversations import CITY, PDF, PICTURE, PNG, TURNS, WEATHER, call, request_of
from tests.sdk.recorder import Recorded, Recorder

MODEL = "claude-opus-5-5"
KEY = "sk-ant-test"
LIMIT = 16384


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def assistant(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def use(id: str, name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, content: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def base64(media_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": data}


GET_WEATHER = {**c.TELLS_WEATHER, "input_schema": c.PARAMETERS}
NOW = {**c.TELLS_TIME, "input_schema": c.NO_PARAMETERS}
KYOTO = [user(text("Weather in Kyoto?"))]
AS_JSON = [user(text("A city, as JSON."))]

SAID: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [user(text("こんにちは"))]},
    "system-and-history": {
        "system": [text("Be brief."), text("Answer in English.")],
        "messages": [user(text("Hello")), assistant(text("Hi.")), user(text("How are you?"))],
    },
    "sampling": {
        "messages": [user(text("Hello"))],
        "max_tokens": 100,
        "stop_sequences": ["END", "###"],
        # The SDK has no words for these any more, since the newest models refuse them.
        "extra_body": {"temperature": 0.5, "top_p": 0.9},
    },
    "image-inline": {
        "messages": [
            user(text("What is this?"), {"type": "image", "source": base64("image/png", PNG)})
        ]
    },
    "image-by-url": {
        "messages": [
            user(
                {"type": "image", "source": {"type": "url", "url": PICTURE}}, text("What is this?")
            )
        ]
    },
    "file-inline": {
        "messages": [
            user(
                {
                    "type": "document",
                    "source": base64("application/pdf", PDF),
                    "title": "paper.pdf",
                },
                text("Sum it up."),
            )
        ]
    },
    "tools": {"messages": KYOTO, "tools": [GET_WEATHER, NOW], "tool_choice": {"type": "auto"}},
    "tool-required": {"messages": KYOTO, "tools": [GET_WEATHER], "tool_choice": {"type": "any"}},
    "tool-by-name": {
        "messages": KYOTO,
        "tools": [GET_WEATHER, NOW],
        "tool_choice": {"type": "tool", "name": "get_weather"},
    },
    "tool-results": {
        "messages": [
            user(text("Weather in Kyoto and Nara?")),
            assistant(
                text("I look it up."),
                use("call_1", "get_weather", city="Kyoto"),
                use("call_2", "get_weather", city="Nara"),
            ),
            user(result("call_1", "sunny"), result("call_2", "rain"), text("And now?")),
            assistant(use("call_3", "now")),
            user(result("call_3", '{"time": "12:00"}')),
        ],
        "tools": [GET_WEATHER, NOW],
    },
    "json-object": {"messages": AS_JSON, "system": [text(JSON_ONLY)]},
    "json-schema": {
        "messages": AS_JSON,
        "output_config": {"format": {"type": "json_schema", "schema": CITY}},
    },
    "effort": {
        "messages": [user(text("Think."))],
        "max_tokens": 4000,
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "low"},
    },
    "reasoning-sent-back": {
        "messages": [
            *KYOTO,
            assistant(
                {"type": "thinking", "thinking": "I need a tool.", "signature": "c2lnbmVk"},
                {"type": "redacted_thinking", "data": "aGlkZGVu"},
                {"type": "thinking", "thinking": "", "signature": "b21pdHRlZA=="},
                text("I look it up."),
                use("call_1", "get_weather", city="Kyoto"),
            ),
            user(result("call_1", "sunny")),
        ],
        "tools": [GET_WEATHER],
    },
    "a-file-by-its-id": {
        "messages": [user({"type": "document", "source": {"type": "file", "file_id": "file_1"}})]
    },
    "one-call-at-a-time": {
        "messages": KYOTO,
        "tools": [GET_WEATHER],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "metadata": {"user_id": "u1"},
    },
}
REASONED = [
    {"type": "reasoning", "text": "I need a tool.", "signature": "c2lnbmVk", "format": "anthropic"},
    {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "aGlkZGVu"},
    {"type": "opaque", "format": "anthropic", "data": "b21pdHRlZA=="},
    text("I look it up."),
]
OURS: dict[str, dict[str, Any]] = {
    **TURNS,
    "reasoning-sent-back": {
        "messages": [
            {"role": "user", "content": "Weather in Kyoto?"},
            {
                "role": "assistant",
                "content": REASONED,
                "tool_calls": [call("call_1", "get_weather", '{"city": "Kyoto"}')],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ],
        "tools": [WEATHER],
    },
    "a-file-by-its-id": {
        "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file_1"}}]}]
    },
    "one-call-at-a-time": {
        "messages": [{"role": "user", "content": "Weather in Kyoto?"}],
        "tools": [WEATHER],
        "parallel_tool_calls": False,
        "user": "u1",
    },
}


def test_every_conversation_is_said_in_the_words_of_the_sdk() -> None:
    assert SAID.keys() == OURS.keys()


def record(recorder: Recorder, client: Any, name: str, version: dict[str, Any]) -> Recorded:
    """Return what the SDK sends in the version of the API that we speak; its own is newer."""
    said = {"max_tokens": LIMIT, "model": MODEL, **SAID[name], **version}
    said["extra_body"] = {**SAID[name].get("extra_body", {}), **version.get("extra_body", {})}
    with client:  # the recorder serves one connection at a time
        return recorder.record(lambda: client.messages.create(**said, stream=True))


@pytest.mark.parametrize("name", OURS)
def test_the_api_is_sent_what_the_sdk_sends(recorder: Recorder, name: str) -> None:
    dialect = UPSTREAM_FORMATS["anthropic"]
    client = anthropic.Anthropic(api_key=KEY, base_url=recorder.url, max_retries=0)
    sent = record(recorder, client, name, {"extra_headers": dialect.headers})

    assert render_request(request_of(OURS[name]), model=MODEL).body == sent.body
    assert (sent.method, sent.path) == ("POST", f"/{dialect.path}")
    assert {key: sent.headers[key] for key in dialect.headers} == dict(dialect.headers)


@pytest.mark.parametrize("name", OURS)
def test_vertex_is_sent_what_the_sdk_sends(recorder: Recorder, name: str) -> None:
    client = anthropic.AnthropicVertex(
        region="us-east5",
        project_id="p",
        access_token="t",  # noqa: S106  (no secret)
        base_url=f"{recorder.url}/v1",
        max_retries=0,
    )
    version = {"extra_body": {"anthropic_version": "vertex-2023-10-16"}}
    sent = record(recorder, client, name, version)

    assert render_vertex_request(request_of(OURS[name]), model=MODEL).body == sent.body
    place = "/v1/projects/p/locations/us-east5/publishers/anthropic/models/"
    path = UPSTREAM_FORMATS["vertex_anthropic"].path.format(model=MODEL)
    assert (sent.method, sent.path) == ("POST", place + path)
    assert sent.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize("name", OURS)
def test_bedrock_is_sent_what_the_sdk_sends(recorder: Recorder, name: str) -> None:
    client = anthropic.AnthropicBedrock(
        aws_region="us-east-1", api_key="k", base_url=recorder.url, max_retries=0
    )
    version = {"extra_body": {"anthropic_version": "bedrock-2023-05-31"}}
    sent = record(recorder, client, name, version)

    assert render_bedrock_request(request_of(OURS[name]), model=MODEL).body == sent.body
    assert sent.path == f"/model/{MODEL}/invoke-with-response-stream"

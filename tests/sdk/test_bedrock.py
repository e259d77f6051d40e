"""What we send to Bedrock is what Amazon's own SDK sends, byte for byte where it matters."""

import json
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.conversation import JSON_ONLY
from app.errors import RequestError
from app.requests import parse_chat_request
from app.upstreams.endpoints import Upstream
from app.upstreams.targets import Target
from tests.sdk import conversations as c
from tests.sdk.conversations import CITY, PDF, PNG, TURNS, request_of
from tests.sdk.recorder import Recorded, Recorder

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"


@pytest.fixture(scope="module")
def client(recorder: Recorder) -> Iterator[Any]:
    client = boto3.client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=recorder.url,
        aws_access_key_id="AKIDEXAMPLE",
        aws_secret_access_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",  # noqa: S106  (an example)
        config=Config(retries={"total_max_attempts": 1}, connect_timeout=30, read_timeout=30),
    )
    yield client
    client.close()


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool(named: dict[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    return {"toolSpec": {**named, "inputSchema": {"json": schema}}}


def use(id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": given}}


def result(id: str, text: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": [{"text": text}]}}


WEATHER = tool(c.TELLS_WEATHER, c.PARAMETERS)
NOW = tool(c.TELLS_TIME, c.NO_PARAMETERS)
KYOTO = [user({"text": "Weather in Kyoto?"})]

SAID: dict[str, dict[str, Any]] = {
    "one-turn": {"messages": [user({"text": "こんにちは"})]},
    "system-and-history": {
        "system": [{"text": "Be brief."}, {"text": "Answer in English."}],
        "messages": [
            user({"text": "Hello"}),
            assistant({"text": "Hi."}),
            user({"text": "How are you?"}),
        ],
    },
    "sampling": {
        "messages": [user({"text": "Hello"})],
        "inferenceConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "maxTokens": 100,
            "stopSequences": ["END", "###"],
        },
    },
    "image-inline": {
        "messages": [
            user(
                {"text": "What is this?"},
                {"image": {"format": "png", "source": {"bytes": b64decode(PNG)}}},
            )
        ]
    },
    "file-inline": {
        "messages": [
            user(
                {
                    "document": {
                        "format": "pdf",
                        "name": "paper",
                        "source": {"bytes": b64decode(PDF)},
                    }
                },
                {"text": "Sum it up."},
            )
        ]
    },
    "tools": {
        "messages": KYOTO,
        "toolConfig": {"tools": [WEATHER, NOW], "toolChoice": {"auto": {}}},
    },
    "tool-required": {
        "messages": KYOTO,
        "toolConfig": {"tools": [WEATHER], "toolChoice": {"any": {}}},
    },
    "tool-by-name": {
        "messages": KYOTO,
        "toolConfig": {"tools": [WEATHER, NOW], "toolChoice": {"tool": {"name": "get_weather"}}},
    },
    "tool-results": {
        "messages": [
            user({"text": "Weather in Kyoto and Nara?"}),
            assistant(
                {"text": "I look it up."},
                use("call_1", "get_weather", {"city": "Kyoto"}),
                use("call_2", "get_weather", {"city": "Nara"}),
            ),
            user(result("call_1", "sunny"), result("call_2", "rain"), {"text": "And now?"}),
            assistant(use("call_3", "now", {})),
            user(result("call_3", '{"time": "12:00"}')),
        ],
        "toolConfig": {"tools": [WEATHER, NOW]},
    },
    "json-object": {
        "system": [{"text": JSON_ONLY}],
        "messages": [user({"text": "A city, as JSON."})],
    },
    "json-schema": {
        "messages": [user({"text": "A city, as JSON."})],
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {
                    "jsonSchema": {
                        "name": "city",
                        "schema": json.dumps(CITY, separators=(",", ":")),
                    }
                },
            }
        },
    },
    "effort": {
        "messages": [user({"text": "Think."})],
        "inferenceConfig": {"maxTokens": 4000},
        "outputConfig": {"effort": "low"},
    },
}
"""The conversations in the SDK's words."""

UNSAID = {"image-by-url": "messages[0].content[0]: an image by its URL"}

REASONING = {
    "messages": [
        {"role": "user", "content": "Think."},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Hm.", "signature": "c2ln", "format": "anthropic"},
                {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "aGlkZGVu"},
                {"type": "text", "text": "Done."},
            ],
        },
        {"role": "user", "content": "Go on."},
    ]
}
REASONED = {
    "messages": [
        user({"text": "Think."}),
        assistant(
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": b"aGlkZGVu"}},
            {"text": "Done."},
        ),
        user({"text": "Go on."}),
    ]
}


def render(turns: dict[str, Any]) -> dict[str, Any]:
    request = request_of(turns)
    return (
        UPSTREAM_FORMATS["bedrock_converse"].render_request(request, model=CLAUDE, quirks=None).body
    )


def test_every_conversation_has_its_words() -> None:
    assert {*SAID, *UNSAID} == {*TURNS}


@pytest.mark.parametrize("name", SAID)
def test_the_body_is_the_sdks(name: str, recorder: Recorder, client: Any) -> None:
    theirs = recorder.record(lambda: client.converse_stream(modelId=CLAUDE, **SAID[name]))

    assert theirs.body == render(TURNS[name])


def test_reasoning_goes_back_as_the_sdk_sends_it(recorder: Recorder, client: Any) -> None:
    theirs = recorder.record(lambda: client.converse_stream(modelId=CLAUDE, **REASONED))

    assert theirs.body == render(REASONING)


@pytest.mark.parametrize("name", UNSAID)
def test_what_the_format_cannot_say_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(TURNS[name])

    assert refused.value.message.startswith(UNSAID[name])


def test_the_rest_of_the_request_is_the_sdks_too(recorder: Recorder, client: Any) -> None:
    """The SDK is given each of our fields, and would refuse one that it does not know."""
    ours = render(
        {
            "messages": [{"role": "user", "content": "Hello"}],
            "metadata": {"team": "a"},
            "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
            "provider_options": {
                "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
                "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
                "performanceConfig": {"latency": "optimized"},
            },
        }
    )
    theirs = recorder.record(lambda: client.converse_stream(modelId=CLAUDE, **ours))

    assert theirs.body == ours


async def our_path(model: str, dialect: str) -> str:
    upstream = Upstream("b", "https://bedrock-runtime.us-east-1.amazonaws.com", dialect)
    chat = parse_chat_request(b'{"messages": [{"role": "user", "content": "Hello"}]}')
    target = Target(upstream, model)
    request = await target.build_call(target.build_request(chat), connect_timeout_s=1)
    return request.url.target


@pytest.mark.parametrize(
    "model",
    [
        CLAUDE,
        "amazon.nova-lite-v1:0",
        "a-b.c_d~e",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x:0",
    ],
)
async def test_the_path_is_the_sdks(model: str, recorder: Recorder, client: Any) -> None:
    def invoke() -> Any:
        return client.invoke_model_with_response_stream(modelId=model, body=b"{}")

    converse: Recorded = recorder.record(
        lambda: client.converse_stream(modelId=model, **SAID["one-turn"])
    )

    assert converse.path == await our_path(model, "bedrock_converse")
    assert recorder.record(invoke).path == await our_path(model, "bedrock_anthropic")

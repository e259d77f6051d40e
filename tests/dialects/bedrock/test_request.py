"""What is sent to Bedrock's Converse; the SDK's own words are in tests/sdk."""

import json
from typing import Any

import pytest

from app.dialects.bedrock.upstream.request import render_request
from app.requests import parse_chat_request

pytestmark = pytest.mark.pure

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
HI = [{"role": "user", "content": "hi"}]
CALLED: list[dict[str, Any]] = [
    *HI,
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "t", "content": "r"},
]


def render(request: dict[str, Any], model: str = CLAUDE) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model=model, quirks=None).body
    assert json.loads(json.dumps(body)) == body
    return body


def turns(*messages: dict[str, Any], model: str = CLAUDE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = render({"messages": list(messages)}, model)["messages"]
    return found


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    listed = [{"type": "text", "text": p} if isinstance(p, str) else p for p in parts]
    return {"role": "user", "content": listed}


def assistant(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(parts), **more}


def picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def file(data: str | None = None, name: str | None = None, id: str | None = None) -> dict[str, Any]:
    given = {"file_data": data, "filename": name, "file_id": id}
    return {"type": "file", "file": {k: v for k, v in given.items() if v is not None}}


def test_options_are_joined_with_what_is_there_one_level_deep() -> None:
    body = render(
        {
            "max_tokens": 5,
            "stop": "x",
            "provider_options": {
                "inferenceConfig": {"maxTokens": 6, "topP": 1},
                "additionalModelRequestFields": {"top_k": 3},
                "requestMetadata": None,
                "modelId": "another",
            },
        }
    )

    assert body["inferenceConfig"] == {"maxTokens": 6, "stopSequences": ["x"], "topP": 1}
    assert body["additionalModelRequestFields"] == {"top_k": 3}
    assert body["requestMetadata"] is None
    assert "modelId" not in body


def test_turns_of_one_role_are_one_message_and_blank_ones_none() -> None:
    assert turns(
        user("a", " ", ""),
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": ""},
        {"role": "system", "content": "s"},
        assistant({"type": "refusal", "refusal": "no"}),
        {"role": "assistant", "content": None, "refusal": "never"},
        {"role": "user", "content": "c"},
    ) == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
        {"role": "assistant", "content": [{"text": "no"}, {"text": "never"}]},
        {"role": "user", "content": [{"text": "c"}]},
    ]


def test_results_may_be_images_or_nothing() -> None:
    image = {"format": "png", "source": {"bytes": "YQ=="}}
    (_, _, results) = turns(
        CALLED[0],
        {
            "role": "assistant",
            "tool_calls": [*CALLED[1]["tool_calls"], {**CALLED[1]["tool_calls"][0], "id": "u"}],
        },
        {
            "role": "tool",
            "tool_call_id": "t",
            "content": [{"type": "text", "text": "r"}, picture("data:image/png;base64,YQ==")],
        },
        {"role": "tool", "tool_call_id": "u", "content": ""},
    )

    assert results["content"] == [
        {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}, {"image": image}]}},
        {"toolResult": {"toolUseId": "u", "content": []}},
    ]


@pytest.mark.parametrize(
    ("url", "image"),
    [
        ("data:image/jpg;base64,YQ==", {"format": "jpeg", "source": {"bytes": "YQ=="}}),
        ("data:image/GIF;base64,YQ==", {"format": "gif", "source": {"bytes": "YQ=="}}),
        (
            "s3://bucket/a/b.JPG",
            {"format": "jpeg", "source": {"s3Location": {"uri": "s3://bucket/a/b.JPG"}}},
        ),
    ],
)
def test_images(url: str, image: dict[str, Any]) -> None:
    ((turn),) = turns(user(picture(url)))

    assert turn["content"] == [{"image": image}]


def test_documents_have_names_that_are_allowed_and_differ() -> None:
    pdf, text = "data:application/pdf;base64,YQ==", "data:text/plain;charset=utf-8;base64,YQ=="
    (turn,) = turns(
        user(
            file(pdf, "Über  das_Ende [2].final.pdf"),
            file(text, "論文.txt"),
            file(text),
            file(text, "a" * 300 + ".txt"),
        ),
        user(file(pdf, "論文.pdf")),
    )

    assert [(b["document"]["name"], b["document"]["format"]) for b in turn["content"]] == [
        ("ber das Ende [2] final", "pdf"),
        ("document", "txt"),
        ("document 2", "txt"),
        ("a" * 190, "txt"),
        ("document 3", "pdf"),
    ]


SIGNED = {"type": "reasoning", "text": "hm", "signature": "c2ln"}
PROOF = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({**SIGNED, "format": "anthropic"}, PROOF),
        (SIGNED, PROOF),
        ({**SIGNED, "format": "openai"}, None),
        ({"type": "reasoning", "text": "hm"}, None),
        ({"type": "reasoning", "text": "hm", "encrypted": "x", "format": "openai"}, None),
        (
            {"type": "opaque", "format": "anthropic", "data": "c2ln"},
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}},
        ),
        (
            {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "YQ=="},
            {"reasoningContent": {"redactedContent": "WVE9PQ=="}},
        ),
        (
            {"type": "opaque", "format": "bedrock.redacted_content", "data": "/w=="},
            {"reasoningContent": {"redactedContent": "/w=="}},
        ),
        ({"type": "opaque", "format": "google.thought_signature", "data": "x"}, None),
    ],
)
def test_only_claudes_own_proofs_go_back(part: dict[str, Any], sent: dict[str, Any] | None) -> None:
    said = assistant(part, {"type": "text", "text": "a"})

    content = turns(*HI, said)[1]["content"]
    assert content == [*([sent] if sent else []), {"text": "a"}]


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (CLAUDE, True),
        ("anthropic.claude-x", True),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x:0", True),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc123", True),
        ("amazon.nova-lite-v1:0", False),
        ("arn:aws:bedrock:us-east-1::foundation-model/meta.llama", False),
    ],
)
def test_another_makers_model_is_not_sent_claudes_proofs(model: str, sent: bool) -> None:
    said = assistant(SIGNED, {"type": "text", "text": "a"})

    assert (PROOF in turns(*HI, said, model=model)[1]["content"]) == sent


def test_unproved_reasoning_stays_here() -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "hm"}

    assert turns(*HI, said)[1]["content"] == [{"text": "a"}]

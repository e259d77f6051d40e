"""What is sent to Bedrock's Converse; the SDK's own words are in tests/sdk."""

import json
from typing import Any

import pytest

from app.dialects.bedrock.upstream.request import IGNORED, render_request
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.conversation import JSON_ONLY
from app.errors import RequestError
from app.requests import ChatRequest, parse_chat_request

pytestmark = pytest.mark.pure

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f"}}
F = {
    "tools": [
        {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
    ]
}
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


def test_a_plain_request_says_no_more_than_it_must() -> None:
    assert render({}) == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


def test_what_only_tunes_is_left_out_and_listed() -> None:
    request = {
        "seed": 1,
        "frequency_penalty": 1,
        "presence_penalty": 1,
        "logprobs": True,
        "top_logprobs": 2,
        "parallel_tool_calls": False,
        "user": "u",
        "verbosity": "low",
        "reasoning_summary": "auto",
        "store": True,
        "truncation": "auto",
        "max_tool_calls": 3,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "safety_identifier": "s",
    }

    assert render({**request, "n": 1, "stream": False, "on_disconnect": 5}) == render({})
    assert IGNORED == request.keys() == UPSTREAM_FORMATS["bedrock_converse"].ignored
    assert IGNORED <= set(ChatRequest.__struct_fields__)


@pytest.mark.parametrize(
    ("request_", "field", "sent"),
    [
        ({"max_tokens": 5}, "inferenceConfig", {"maxTokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "inferenceConfig", {"maxTokens": 6}),
        ({"temperature": 0}, "inferenceConfig", {"temperature": 0}),
        ({"temperature": 1.7}, "inferenceConfig", {"temperature": 1}),
        ({"top_p": 0.5, "stop": "x"}, "inferenceConfig", {"topP": 0.5, "stopSequences": ["x"]}),
        ({"metadata": {"a": "b"}}, "requestMetadata", {"a": "b"}),
        ({"metadata": {}}, "requestMetadata", None),
        ({"reasoning_effort": "high"}, "outputConfig", {"effort": "high"}),
        ({"reasoning_effort": "minimal"}, "outputConfig", {"effort": "low"}),
        ({"reasoning_effort": "none"}, "outputConfig", None),
        ({"response_format": {"type": "text"}}, "outputConfig", None),
        ({"response_format": {"type": "json_object"}}, "system", [{"text": JSON_ONLY}]),
        (
            {
                "reasoning_effort": "low",
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "description": "d", "schema": {"type": "object"}},
                },
            },
            "outputConfig",
            {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {
                        "jsonSchema": {
                            "schema": '{"type":"object"}',
                            "name": "n",
                            "description": "d",
                        }
                    },
                },
                "effort": "low",
            },
        ),
        *(
            ({"tools": [TOOL], "tool_choice": given}, "toolConfig", {**F, "toolChoice": sent})
            for given, sent in (
                ("auto", {"auto": {}}),
                ("required", {"any": {}}),
                ({"type": "function", "function": {"name": "f"}}, {"tool": {"name": "f"}}),
            )
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "description": "d"}}]},
            "toolConfig",
            {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "f",
                            "description": "d",
                            "inputSchema": {"json": {"type": "object", "properties": {}}},
                        }
                    }
                ]
            },
        ),
        ({"tools": [TOOL], "tool_choice": "none"}, "toolConfig", None),
        ({"tool_choice": "none"}, "toolConfig", None),
        ({"tool_choice": "auto"}, "toolConfig", None),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "f",
                            "description": "",
                            "strict": False,
                            "parameters": {"type": "object"},
                        },
                    }
                ]
            },
            "toolConfig",
            {
                "tools": [
                    {
                        "toolSpec": {
                            "name": "f",
                            "inputSchema": {"json": {"type": "object"}},
                            "strict": False,
                        }
                    }
                ]
            },
        ),
    ],
)
def test_settings(request_: dict[str, Any], field: str, sent: Any) -> None:
    body = render(request_)

    assert body.get(field) == sent
    assert body.keys() <= {"messages", field}


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


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"n": 2}, "n: more than one choice"),
        (
            {"messages": CALLED, "tools": [TOOL], "tool_choice": "none"},
            'tool_choice: "none" after tool calls',
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format: a format without its schema",
        ),
        (
            {
                "messages": [
                    user({"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}})
                ]
            },
            "messages[0].content[0]: sound",
        ),
        (
            {"messages": [user("a", picture("https://a.b/c.png"))]},
            "messages[0].content[1]: an image",
        ),
        ({"messages": [user(picture("s3://b/c.tiff"))]}, "messages[0].content[0]: an image of"),
        (
            {"messages": [user(picture("data:image/tiff;base64,YQ=="))]},
            "messages[0].content[0]: an image of the type 'image/tiff'",
        ),
        ({"messages": [user(file(id="f"))]}, "messages[0].content[0]: a file by its id"),
        ({"messages": [user(file("YQ=="))]}, "messages[0].content[0]: a file that is no data"),
        (
            {"messages": [user(file("data:video/mp4;base64,YQ=="))]},
            "messages[0].content[0]: a file of the type 'video/mp4'",
        ),
        (
            {
                "messages": [
                    *HI,
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {
                                "id": "t",
                                "type": "function",
                                "function": {"name": "f", "arguments": "[1]"},
                            }
                        ],
                    },
                ]
            },
            "messages[1].tool_calls[0].function.arguments: it is no JSON object",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(request_: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(request_)

    assert refused.value.message.startswith(told)

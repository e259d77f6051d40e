"""What is sent to Bedrock's Converse; the SDK's own words are in tests/sdk."""

from functools import partial
from typing import Any

import pytest

from tests.dialects import rendering
from tests.dialects.rendering import HI, assistant, call, file, image, part, result, said, user

pytestmark = pytest.mark.pure

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
render = partial(rendering.render, "bedrock_converse", model=CLAUDE)
CALLED: list[dict[str, Any]] = [*HI, assistant(tool_calls=[call("t")]), result("r", "t")]


def turns(*messages: dict[str, Any], model: str = CLAUDE) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = render({"messages": list(messages)}, model=model)["messages"]
    return found


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
        user(said("a"), said(" "), said("")),
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": ""},
        {"role": "system", "content": "s"},
        assistant(part("refusal", refusal="no")),
        {"role": "assistant", "content": None, "refusal": "never"},
        {"role": "user", "content": "c"},
    ) == [
        user({"text": "a"}, {"text": "b"}),
        assistant({"text": "no"}, {"text": "never"}),
        user({"text": "c"}),
    ]


def test_results_may_be_images_or_nothing() -> None:
    picture = {"format": "png", "source": {"bytes": "YQ=="}}
    (_, _, results) = turns(
        CALLED[0],
        assistant(tool_calls=[*CALLED[1]["tool_calls"], {**CALLED[1]["tool_calls"][0], "id": "u"}]),
        result([said("r"), image("data:image/png;base64,YQ==")], "t"),
        result("", "u"),
    )

    assert results["content"] == [
        {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}, {"image": picture}]}},
        {"toolResult": {"toolUseId": "u", "content": [{"text": "There is no output."}]}},
    ]


@pytest.mark.parametrize(
    ("url", "picture"),
    [
        ("data:image/jpg;base64,YQ==", {"format": "jpeg", "source": {"bytes": "YQ=="}}),
        ("data:image/GIF;base64,YQ==", {"format": "gif", "source": {"bytes": "YQ=="}}),
        (
            "s3://bucket/a/b.JPG",
            {"format": "jpeg", "source": {"s3Location": {"uri": "s3://bucket/a/b.JPG"}}},
        ),
    ],
)
def test_images(url: str, picture: dict[str, Any]) -> None:
    ((turn),) = turns(user(image(url)))

    assert turn["content"] == [{"image": picture}]


def test_documents_have_names_that_are_allowed_and_differ() -> None:
    pdf, text = "data:application/pdf;base64,YQ==", "data:text/plain;charset=utf-8;base64,YQ=="
    (turn,) = turns(
        user(
            file(file_data=pdf, filename="Über  das_Ende [2].final.pdf"),
            file(file_data=text, filename="論文.txt"),
            file(file_data=text),
            file(file_data=text, filename="a" * 300 + ".txt"),
        ),
        user(file(file_data=pdf, filename="論文.pdf")),
    )

    documents, end = turn["content"][:-1], turn["content"][-1]
    assert end == {"text": "See the document."}
    assert [(b["document"]["name"], b["document"]["format"]) for b in documents] == [
        ("ber das Ende [2] final", "pdf"),
        ("document", "txt"),
        ("document 2", "txt"),
        ("a" * 190, "txt"),
        ("document 3", "pdf"),
    ]


SIGNED = part("reasoning", "hm", signature="c2ln")
SIGNATURE = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}


@pytest.mark.parametrize(
    ("part", "sent"),
    [
        ({**SIGNED, "format": "anthropic"}, SIGNATURE),
        (SIGNED, SIGNATURE),
        ({**SIGNED, "format": "openai"}, None),
        (part("reasoning", "hm"), None),
        (part("reasoning", "hm", encrypted="x", format="openai"), None),
        (
            part("opaque", format="anthropic", data="c2ln"),
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}},
        ),
        (
            part("opaque", format="anthropic.redacted_thinking", data="YQ=="),
            {"reasoningContent": {"redactedContent": "WVE9PQ=="}},
        ),
        (
            part("opaque", format="bedrock.redacted_content", data="/w=="),
            {"reasoningContent": {"redactedContent": "/w=="}},
        ),
        (part("opaque", format="google.thought_signature", data="x"), None),
    ],
)
def test_only_claudes_own_signatures_go_back(
    part: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    content = turns(*HI, assistant(part, said("a")))[1]["content"]
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
def test_another_makers_model_is_not_sent_claudes_signatures(model: str, sent: bool) -> None:
    (_, turn) = turns(*HI, assistant(SIGNED, said("a")), model=model)

    assert (SIGNATURE in turn["content"]) == sent


def test_reasoning_without_a_signature_is_left_out() -> None:
    said = {"role": "assistant", "content": "a", "reasoning_content": "hm"}

    assert turns(*HI, said)[1]["content"] == [{"text": "a"}]


NAMED = {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}
OFFERED = rendering.function("f", description="d")


@pytest.mark.parametrize(
    "fields", [{}, {"tools": []}, {"tools": [OFFERED], "tool_choice": "none"}], ids=str
)
def test_earlier_calls_are_sent_with_the_tools_that_they_name(fields: dict[str, Any]) -> None:
    found = rendering.rendered("bedrock_converse", {"messages": CALLED, **fields}, model=CLAUDE)
    (tool,) = found.body["toolConfig"]["tools"]

    assert "toolChoice" not in found.body["toolConfig"]
    if fields.get("tools"):
        assert tool["toolSpec"]["description"] == "d"
    else:
        assert tool == NAMED
    assert found.changes == ["requires tools with earlier tool calls: sent those that were called"]


def test_offered_tools_are_sent_as_they_are() -> None:
    found = rendering.rendered("bedrock_converse", {"messages": CALLED, "tools": [OFFERED]})

    assert not found.changes
    assert "toolConfig" not in render({"tools": [OFFERED], "tool_choice": "none"})


BEGIN = user({"text": "Begin."})


def test_the_first_turn_is_the_users() -> None:
    greeting = {"role": "assistant", "content": "Hello"}
    found = rendering.rendered("bedrock_converse", {"messages": [greeting, *HI]})

    assert found.body["messages"][0] == BEGIN
    assert found.changes == ["does not allow a first message of the assistant: added 'Begin.'"]


@pytest.mark.parametrize(
    ("dialect", "turn"),
    [
        ("bedrock_converse", BEGIN),
        ("anthropic", user({"type": "text", "text": "Begin."})),
        ("vertex_anthropic", user({"type": "text", "text": "Begin."})),
        ("bedrock_anthropic", user({"type": "text", "text": "Begin."})),
    ],
)
def test_a_system_message_alone_gets_a_turn_of_the_user(dialect: str, turn: object) -> None:
    alone = {"messages": [{"role": "system", "content": "Be brief."}]}
    found = rendering.rendered(dialect, alone)

    assert found.body["messages"] == [turn]
    assert found.body["system"]
    assert found.changes == ["does not allow a conversation without a message: added 'Begin.'"]


def test_a_document_has_a_text_beside_it() -> None:
    pdf = file(file_data="data:application/pdf;base64,YQ==", filename="a.pdf")
    alone = rendering.rendered("bedrock_converse", {"messages": [user(pdf)]})
    beside = rendering.rendered("bedrock_converse", {"messages": [user(said("?"), pdf)]})

    assert alone.body["messages"][0]["content"][1:] == [{"text": "See the document."}]
    assert alone.changes == ["does not allow a document without a text: added one"]
    assert not beside.changes


@pytest.mark.parametrize("dialect", ["anthropic", "vertex_anthropic", "bedrock_anthropic"])
def test_stops_of_white_space_are_not_sent_to_claude(dialect: str) -> None:
    some = rendering.rendered(dialect, {"stop": ["\n", "END"]})
    none = rendering.rendered(dialect, {"stop": "\n"})
    converse = rendering.rendered("bedrock_converse", {"stop": ["\n", "END"]}, model=CLAUDE)
    nova = render({"stop": ["\n"]}, model="us.amazon.nova-lite-v1:0")

    assert some.body["stop_sequences"] == ["END"]
    assert "stop_sequences" not in none.body
    assert converse.body["inferenceConfig"]["stopSequences"] == ["END"]
    for found in (some, none, converse):
        assert found.changes == ["does not allow stop sequences of white space: dropped"]
    assert nova["inferenceConfig"]["stopSequences"] == ["\n"]

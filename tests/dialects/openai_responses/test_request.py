"""What is sent to an upstream that speaks Responses."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app.errors import RequestError
from app.events import (
    Event,
    Opaque,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    TextDelta,
    TextStart,
)
from tests.dialects import rendering
from tests.dialects.rendering import assistant, call, file, image, part, result, said, user
from tests.dialects.streams import play, tool_calls

pytestmark = pytest.mark.pure

render = partial(rendering.render, "openai_responses")

RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_responses"
ENCRYPTED = "reasoning.encrypted_content"


def items(*messages: dict[str, Any], **quirks: Any) -> Any:
    return render({"messages": [*messages]}, **quirks)["input"]


def test_a_user_says_text_images_sound_and_files() -> None:
    content = [
        said("t"),
        image("https://a/b.png"),
        image("data:image/png;base64,AA", detail="low"),
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        file(file_id="i"),
        file(file_data="data:application/pdf;base64,AA", filename="p"),
    ]
    (sent,) = items({"role": "user", "content": content})

    assert sent == user(
        {"type": "input_text", "text": "t"},
        {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "input_file", "file_id": "i"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "p"},
    )


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ({"role": "system", "content": "s"}, [{"role": "system", "content": "s"}]),
        (
            {"role": "developer", "content": [said("d")]},
            [{"role": "developer", "content": [{"type": "input_text", "text": "d"}]}],
        ),
        (
            {"role": "assistant", "content": "a", "name": "Bot"},
            [{"role": "assistant", "content": "a"}],
        ),
        ({"role": "assistant", "content": ""}, []),
        (assistant(refusal="no"), [assistant(part("refusal", refusal="no"))]),
        (
            assistant(said("a"), said("b"), part("refusal", refusal="no")),
            [
                assistant(
                    {"type": "output_text", "text": "a", "annotations": []},
                    {"type": "output_text", "text": "b", "annotations": []},
                    part("refusal", refusal="no"),
                )
            ],
        ),
        (
            assistant(tool_calls=[call("c", "f", " ")]),
            [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
        ),
        (
            result([said("a"), said("b")], "c"),
            [{"type": "function_call_output", "call_id": "c", "output": "ab"}],
        ),
        (
            result([said("a"), image("data:image/png;base64,AA")], "c"),
            [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [
                        {"type": "input_text", "text": "a"},
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,AA",
                            "detail": "auto",
                        },
                    ],
                }
            ],
        ),
    ],
)
def test_each_message_is_its_items(message: dict[str, Any], sent: list[Any]) -> None:
    before = [assistant(tool_calls=[call("c", "f", "{}")])]
    before = before if message["role"] == "tool" else []

    assert items(*before, message)[len(before) :] == sent


def test_a_custom_tools_call_goes_back_as_the_text_it_was() -> None:
    opaque = [{"format": "openai.custom_tool_call", "data": "c"}]
    sent = items(
        assistant(tool_calls=[call("c", "sql", "SELECT 1", opaque=opaque)]), result("1", "c")
    )

    assert sent == [
        {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    ]


def thought(*summary: str, encrypted: str = "E") -> dict[str, Any]:
    texts = [{"type": "summary_text", "text": text} for text in summary]
    return part("reasoning", summary=texts, encrypted_content=encrypted)


A = {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        ([part("reasoning", "r", encrypted="E", format="openai")], [thought("r"), A]),
        ([part("reasoning", encrypted="E")], [thought(), A]),
        ([part("opaque", format="openai.reasoning", data="E")], [thought(), A]),
        ([part("reasoning", "r"), part("opaque", format="openai", data="E")], [thought("r"), A]),
        (
            [part("reasoning", "r"), part("reasoning", "s", encrypted="E", format="openai")],
            [thought("r", "s"), A],
        ),
        ([part("reasoning", "r")], [A]),
        ([part("reasoning", "r", signature="S", format="anthropic")], [A]),
        ([part("reasoning", "r", encrypted="E", format="anthropic")], [A]),
        ([part("opaque", format="anthropic.redacted_thinking", data="D")], [A]),
        (
            [part("opaque", format="openai.compaction", data="E")],
            [{"type": "compaction", "encrypted_content": "E"}, A],
        ),
        (
            [part("opaque", format="openai.phase", data="commentary"), said("b")],
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": text, "annotations": []} for text in "ba"
                    ],
                    "phase": "commentary",
                }
            ],
        ),
        (
            [said("b"), part("reasoning", encrypted="E")],
            [{"role": "assistant", "content": "b"}, thought(), A],
        ),
    ],
)
def test_reasoning_goes_back_where_it_stood(parts: list[Any], sent: list[Any]) -> None:
    assert items(assistant(*parts, said("a"))) == sent


def test_reasoning_without_a_signature_goes_back_to_hosts_that_want_it() -> None:
    plain = {"role": "assistant", "content": "a", "reasoning_content": "r"}
    thoughts = part("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "r"}])

    assert items(plain, send_reasoning="text") == [thoughts, A]
    named = assistant(part("reasoning", "r", format="another's"), said("a"))
    assert items(named, send_reasoning="text") == [thoughts, A]
    assert items(plain) == [A]
    proved = assistant(part("reasoning", "r", encrypted="E"), said("a"))
    assert items(proved, send_reasoning="no") == [A]
    both = {**proved, "reasoning_content": "other"}
    assert items(both) == [thought("r"), A]


@pytest.mark.parametrize(
    ("request_", "wanted", "included"),
    [
        ({}, "auto", None),
        ({"reasoning_effort": "none"}, "auto", [ENCRYPTED]),
        ({"messages": [assistant(part("reasoning", encrypted="E"))]}, "auto", [ENCRYPTED]),
        ({"reasoning_effort": "low"}, "never", None),
        ({}, "always", [ENCRYPTED]),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_models_reason(
    request_: dict[str, Any], wanted: str, included: Any
) -> None:
    assert render(request_, encrypted_reasoning=wanted).get("include") == included


def test_a_summary_is_asked_for_beside_an_effort() -> None:
    def reasoning(**request: Any) -> Any:
        return render(request, reasoning_summary="auto").get("reasoning")

    assert reasoning(reasoning_effort="low") == {"effort": "low", "summary": "auto"}
    assert reasoning(reasoning_effort="none") == {"effort": "none"}
    assert reasoning() is None


def message_of(found: list[Event]) -> dict[str, Any]:
    """Return the assistant message that a client makes of an answer, as PROTOCOL.md says."""
    parts: dict[int, dict[str, Any]] = {}
    content: list[dict[str, Any]] = []
    for event in found:
        match event:
            case ReasoningStart(block=block) | TextStart(block=block):
                kind = "text" if isinstance(event, TextStart) else "reasoning"
                parts[block] = part(kind) | {"text": ""}
                content.append(parts[block])
            case ReasoningDelta(block=block) | TextDelta(block=block):
                parts[block]["text"] += event.text
            case ReasoningEnd(encrypted=str(encrypted)):
                parts[event.block].update(encrypted=encrypted, format=event.format)
            case Opaque():
                content.append(part("opaque", format=event.format, data=event.data))
            case _:
                pass
    calls = [call(c["id"], c["name"], c["arguments"]) for c in tool_calls(found)]
    return assistant(*content, tool_calls=calls)


def test_an_answer_goes_back_as_the_items_it_was() -> None:
    body = (RECORDINGS / "openai-commentary-and-call.spec.sse").read_bytes()
    payloads = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    came = [p["item"] for p in payloads if p["type"] == "response.output_item.done"]
    sent = items(message_of(play([body], dialect="openai_responses")))

    thought, said, called = came
    (text,) = said["content"]
    assert sent == [
        {key: value for key, value in thought.items() if key != "id"},
        {"role": "assistant", "content": text["text"], "phase": "commentary"},
        {key: value for key, value in called.items() if key != "id"},
    ]


CLICK = {"type": "computer_call", "id": "i", "call_id": "c", "action": {"type": "click"}}
CLICKED = {"type": "computer_call_output", "call_id": "c", "output": {"image_url": "data:,"}}
ASK = {"type": "mcp_approval_request", "id": "m", "name": "roll", "arguments": "{}"}
YES = {"type": "mcp_approval_response", "approval_request_id": "m", "approve": True}


def item_parts(*given: dict[str, Any]) -> list[dict[str, Any]]:
    return [part("opaque", format="openai.item", data=json.dumps(one)) for one in given]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ([CLICK], []),
        ([CLICKED], []),
        ([CLICK, CLICKED], [CLICK, CLICKED]),
        ([ASK, YES], [ASK, YES]),
        ([ASK, CLICK, CLICKED], [CLICK, CLICKED]),
    ],
)
def test_items_of_the_client_go_back_with_their_answers(given: Any, sent: Any) -> None:
    text = {"role": "assistant", "content": "I click."}

    assert items(assistant(said("I click."), *item_parts(*given))) == [text, *sent]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "messages[0].content[0].data: must be a JSON object"),
        ('{"type":"item_reference"}', "messages[0].content[0].data.type: 'item_reference' is not"),
        ('{"type":["a"]}', "messages[0].content[0].data.type: \"['a']\" is not supported here"),
    ],
)
def test_other_items_do_not_go_in_as_they_are(data: str, said: str) -> None:
    with pytest.raises(RequestError) as raised:
        items(assistant(part("opaque", format="openai.item", data=data)))

    assert raised.value.message.startswith(said)

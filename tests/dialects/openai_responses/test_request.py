"""What is sent to an upstream that speaks Responses."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.dialects.openai_responses.upstream.quirks import Quirks
from app.dialects.openai_responses.upstream.request import IGNORED, render_request
from app.dialects.upstream_formats import UPSTREAM_FORMATS
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
from app.requests import ChatRequest, parse_chat_request
from tests.dialects.streams import play, tool_calls

pytestmark = pytest.mark.pure

RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_responses"
HI = [{"role": "user", "content": "hi"}]
PLAIN = {"model": "m", "input": HI, "store": False, "stream": True}
ENCRYPTED = "reasoning.encrypted_content"


def parse(request: dict[str, Any]) -> ChatRequest:
    return parse_chat_request(json.dumps({"messages": HI, **request}).encode())


def render(request: dict[str, Any], **quirks: Any) -> dict[str, Any]:
    body = render_request(parse(request), model="m", quirks=msgspec.convert(quirks, Quirks)).body
    assert json.loads(json.dumps(body)) == body
    return body


def items(*messages: dict[str, Any], **quirks: Any) -> Any:
    return render({"messages": [*messages]}, **quirks)["input"]


def answer(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*parts], **more}


def part(kind: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"type": kind, **({"text": text} if text else {}), **more}


def call(name: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "c",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
        **more,
    }


def test_a_plain_request_leaves_nothing_at_the_provider() -> None:
    assert render({}) == PLAIN


def test_what_is_ours_is_not_sent() -> None:
    assert render({"model": "route", "stream": False, "on_disconnect": 5, "n": 1}) == PLAIN


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        ({"max_tokens": 5}, {"max_output_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"max_output_tokens": 6}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"metadata": {"a": "b"}, "user": "u"}, {"metadata": {"a": "b"}, "user": "u"}),
        ({"logprobs": True}, {"include": ["message.output_text.logprobs"]}),
        (
            {"logprobs": True, "top_logprobs": 3},
            {"top_logprobs": 3, "include": ["message.output_text.logprobs"]},
        ),
        (
            {"reasoning_effort": "low"},
            {"reasoning": {"effort": "low"}, "include": [ENCRYPTED]},
        ),
        ({"response_format": {"type": "text"}}, {"text": {"format": {"type": "text"}}}),
        (
            {"response_format": {"type": "json_object"}},
            {"text": {"format": {"type": "json_object"}}},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s"}}},
            {
                "text": {
                    "format": {"type": "json_schema", "name": "s", "schema": {}, "strict": False}
                }
            },
        ),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "function", "name": "f"}},
        ),
    ],
)
def test_each_field_has_its_place(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert render(given) == {**PLAIN, **sent}


@pytest.mark.parametrize("field", sorted(IGNORED))
def test_what_has_no_place_is_left_out(field: str) -> None:
    value = {"type": "ephemeral"} if field == "cache_control" else 1
    assert render({field: value}) == PLAIN


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"n": 2}, "n: "),
        ({"stop": "END"}, "stop: "),
        ({"stop": ["END"]}, "stop: "),
        (
            {
                "messages": [
                    *HI,
                    {"role": "user", "content": [{"type": "file", "file": {"filename": "a"}}]},
                ]
            },
            "messages[1].content[0].file: ",
        ),
    ],
)
def test_what_cannot_be_said_is_refused_with_its_place(given: dict[str, Any], place: str) -> None:
    with pytest.raises(RequestError) as caught:
        render(given)

    assert caught.value.code == "invalid_request"
    assert str(caught.value).startswith(place)


def test_strict_is_said_since_its_default_is_another() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    functions = [
        {"name": "f", "description": "d", "parameters": schema},
        {"name": "g", "parameters": {}, "strict": True},
        {"name": "h", "strict": False},
    ]
    tools = [{"type": "function", "function": function} for function in functions]

    assert render({"tools": tools})["tools"] == [
        {
            "type": "function",
            "name": "f",
            "description": "d",
            "parameters": schema,
            "strict": False,
        },
        {"type": "function", "name": "g", "parameters": {}, "strict": True},
        {
            "type": "function",
            "name": "h",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ]


def test_a_user_says_text_images_sound_and_files() -> None:
    content = [
        part("text", "t"),
        {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        {"type": "file", "file": {"file_id": "i"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "p"}},
    ]
    (sent,) = items({"role": "user", "content": content})

    assert sent == {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "t"},
            {"type": "input_image", "image_url": "https://a/b.png", "detail": "auto"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            {"type": "input_file", "file_id": "i"},
            {
                "type": "input_file",
                "file_data": "data:application/pdf;base64,AA",
                "filename": "p",
            },
        ],
    }


@pytest.mark.parametrize(
    ("message", "sent"),
    [
        ({"role": "system", "content": "s"}, [{"role": "system", "content": "s"}]),
        (
            {"role": "developer", "content": [part("text", "d")]},
            [{"role": "developer", "content": [{"type": "input_text", "text": "d"}]}],
        ),
        (
            {"role": "assistant", "content": "a", "name": "Bot"},
            [{"role": "assistant", "content": "a"}],
        ),
        ({"role": "assistant", "content": ""}, []),
        (
            {"role": "assistant", "refusal": "no"},
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
        ),
        (
            answer(part("text", "a"), part("text", "b"), part("refusal", refusal="no")),
            [
                {
                    "role": "assistant",
                    "content": [
                        {"type": "output_text", "text": "a", "annotations": []},
                        {"type": "output_text", "text": "b", "annotations": []},
                        {"type": "refusal", "refusal": "no"},
                    ],
                }
            ],
        ),
        (
            {"role": "assistant", "tool_calls": [call("f", " ")]},
            [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}],
        ),
        (
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [part("text", "a"), part("text", "b")],
            },
            [{"type": "function_call_output", "call_id": "c", "output": "ab"}],
        ),
        (
            {
                "role": "tool",
                "tool_call_id": "c",
                "content": [
                    part("text", "a"),
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                ],
            },
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
    before = [{"role": "assistant", "tool_calls": [call("f", "{}")]}]
    before = before if message["role"] == "tool" else []

    assert items(*before, message)[len(before) :] == sent


def test_a_custom_tools_call_goes_back_as_the_text_it_was() -> None:
    opaque = [{"format": "openai.custom_tool_call", "data": "c"}]
    sent = items(
        {"role": "assistant", "tool_calls": [call("sql", "SELECT 1", opaque=opaque)]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    )

    assert sent == [
        {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    ]


def thought(*summary: str, encrypted: str = "E") -> dict[str, Any]:
    texts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "summary": texts, "encrypted_content": encrypted}


A = {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("parts", "sent"),
    [
        ([part("reasoning", "r", encrypted="E", format="openai")], [thought("r"), A]),
        ([part("reasoning", encrypted="E")], [thought(), A]),
        ([part("opaque", format="openai.reasoning", data="E")], [thought(), A]),
        (
            [part("reasoning", "r"), part("opaque", format="openai", data="E")],
            [thought("r"), A],
        ),
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
            [part("opaque", format="openai.phase", data="commentary"), part("text", "b")],
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
            [part("text", "b"), part("reasoning", encrypted="E")],
            [{"role": "assistant", "content": "b"}, thought(), A],
        ),
    ],
)
def test_reasoning_goes_back_where_it_stood(parts: list[Any], sent: list[Any]) -> None:
    assert items(answer(*parts, part("text", "a"))) == sent


def test_reasoning_that_nothing_proves_goes_back_to_hosts_that_want_it() -> None:
    plain = {"role": "assistant", "content": "a", "reasoning_content": "r"}
    said = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "r"}],
    }

    assert items(plain, send_reasoning="text") == [said, A]
    assert items(plain) == [A]
    proved = answer(part("reasoning", "r", encrypted="E"), part("text", "a"))
    assert items(proved, send_reasoning="no") == [A]
    both = {**proved, "reasoning_content": "other"}
    assert items(both) == [thought("r"), A]


@pytest.mark.parametrize(
    ("request_", "wanted", "included"),
    [
        ({}, "auto", None),
        ({"reasoning_effort": "none"}, "auto", [ENCRYPTED]),
        ({"messages": [answer(part("reasoning", encrypted="E"))]}, "auto", [ENCRYPTED]),
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


def test_the_other_quirks() -> None:
    assert render({"user": "u"}, user_field="safety_identifier")["safety_identifier"] == "u"
    assert render({}, store=True)["store"] is True
    assert "store" not in render({}, store=None)


def test_provider_options_overrule_all_but_model_and_stream() -> None:
    options = {"temperature": 1, "model": "dear", "stream": False, "store": True, "n": None}
    body = render({"temperature": 0, "provider_options": options})

    assert body == {**PLAIN, "temperature": 1, "store": True, "n": None}


def test_the_request_is_not_changed() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"a": {"b": 1}}}}]
    request = parse({"tools": tools, "provider_options": {"a": {"b": 1}}})
    before = msgspec.json.encode(request)
    body = render_request(request, model="m").body
    body["a"]["b"] = body["tools"][0]["parameters"]["a"]["b"] = 2

    assert msgspec.json.encode(request) == before


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
                content.append({"type": "opaque", "format": event.format, "data": event.data})
            case _:
                pass
    calls = [call(c["name"], c["arguments"], id=c["id"]) for c in tool_calls(found)]
    return answer(*content, tool_calls=calls)


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
    return [{"type": "opaque", "format": "openai.item", "data": json.dumps(one)} for one in given]


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
    text = {"type": "text", "text": "I click."}
    said = {"role": "assistant", "content": "I click."}

    assert items(answer(text, *item_parts(*given))) == [said, *sent]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[]", "messages[0].content[0].data: it is no JSON object"),
        ('{"type":"item_reference"}', "messages[0].content[0].data.type: 'item_reference' is not"),
        ('{"type":["a"]}', "messages[0].content[0].data.type: \"['a']\" is not taken here"),
    ],
)
def test_other_items_do_not_go_in_as_they_are(data: str, said: str) -> None:
    with pytest.raises(RequestError) as raised:
        items(answer({"type": "opaque", "format": "openai.item", "data": data}))

    assert raised.value.message.startswith(said)


def test_the_table_names_the_dialect() -> None:
    dialect = UPSTREAM_FORMATS["openai_responses"]

    assert dialect.path == "responses"
    assert dialect.render_request is render_request
    assert dialect.ignored == IGNORED
    assert not dialect.parser(upstream="u", choices=1).ended

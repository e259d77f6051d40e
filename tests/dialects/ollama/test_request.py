"""What is sent to Ollama."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.ollama.upstream.request import IGNORED, Quirks, render_request
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RequestError
from app.requests import ChatRequest, parse_chat_request
from tests.sdk.conversations import PDF, PICTURE, PNG, call

pytestmark = pytest.mark.pure

HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "strict": True}}
SENT = {"type": "function", "function": {"name": "f", "description": "d"}}
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}}


def render(request: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_chat_request(json.dumps({"messages": HI, **request}).encode())
    body = render_request(parsed, model="m", quirks=Quirks()).body
    assert json.loads(json.dumps(body)) == body
    return body


def messages(*sent: dict[str, Any]) -> Any:
    return render({"messages": list(sent)})["messages"]


def test_a_plain_request_asks_for_a_stream() -> None:
    assert render({}) == {"model": "m", "messages": HI, "stream": True}
    assert render_request(
        parse_chat_request(b'{"messages":[{"role":"user","content":"hi"}]}'), model="m"
    ).body == render({})


def test_what_is_ours_is_not_sent() -> None:
    assert render({"model": "route", "stream": False, "on_disconnect": 5}) == render({})


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0}, {"options": {"temperature": 0}}),
        ({"top_p": 0.5}, {"options": {"top_p": 0.5}}),
        ({"seed": 0}, {"options": {"seed": 0}}),
        ({"stop": "a"}, {"options": {"stop": ["a"]}}),
        ({"stop": ["a", "b"]}, {"options": {"stop": ["a", "b"]}}),
        ({"max_tokens": 5}, {"options": {"num_predict": 5}}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, {"options": {"num_predict": 6}}),
        ({"presence_penalty": 1, "frequency_penalty": 0}, {"options": {"presence_penalty": 1, "frequency_penalty": 0}}),
        ({"logprobs": True, "top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
        ({"reasoning_effort": "none"}, {"think": False}),
        ({"reasoning_effort": "minimal"}, {"think": "low"}),
        ({"reasoning_effort": "medium"}, {"think": "medium"}),
        ({"reasoning_effort": "xhigh"}, {"think": "max"}),
        ({"reasoning_effort": "new"}, {"think": "new"}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"format": "json"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}, {"format": {"type": "object"}}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}, {"format": "json"}),
        ({"tools": [TOOL]}, {"tools": [SENT]}),
        ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [SENT]}),
        ({"tools": [TOOL], "tool_choice": "none"}, {}),
        ({"tools": []}, {}),
        ({"n": 1, "metadata": {"a": "b"}, "user": "u", "parallel_tool_calls": False}, {}),
        ({"provider_options": {"keep_alive": "10m", "think": True}}, {"keep_alive": "10m", "think": True}),
        ({"reasoning_effort": "low", "provider_options": {"think": True}}, {"think": True}),
        ({"seed": 1, "top_p": 1, "provider_options": {"options": {"num_ctx": 8192, "seed": 2}}}, {"options": {"seed": 2, "top_p": 1, "num_ctx": 8192}}),
        ({"provider_options": {"options": {"num_ctx": 8192}}}, {"options": {"num_ctx": 8192}}),
        ({"seed": 1, "provider_options": {"options": None}}, {"options": None}),
        ({"provider_options": {"model": "dear", "stream": False}}, {}),
    ],
)  # fmt: skip
def test_each_field_has_its_place(given: dict[str, Any], sent: dict[str, Any]) -> None:
    assert render(given) == {**render({}), **sent}


def test_messages_are_said_in_text_and_images() -> None:
    parts = [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]

    assert messages(
        {"role": "system", "content": "s", "name": "x"},
        {
            "role": "developer",
            "content": [{"type": "text", "text": "d"}, {"type": "text", "text": "e"}],
        },
        {"role": "user", "content": parts, "name": "y"},
    ) == [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "de"},
        {"role": "user", "content": "ab", "images": [PNG]},
    ]


def test_calls_have_objects_for_arguments_and_results_name_their_tool() -> None:
    calls = [call("i", "f", '{"a": 1}'), call("j", "g", " ")]

    assert messages(
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "i", "content": "r"},
        {"role": "tool", "tool_call_id": "j", "content": [{"type": "text", "text": "s"}, IMAGE]},
        {"role": "tool", "tool_call_id": "k", "content": "t"},
    ) == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "i", "function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "j", "function": {"name": "g", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "r", "tool_name": "f", "tool_call_id": "i"},
        {"role": "tool", "content": "s", "images": [PNG], "tool_name": "g", "tool_call_id": "j"},
        {"role": "user", "content": "Result of the tool call 'k':\nt"},
    ]


def test_thinking_goes_back_and_proofs_of_others_do_not() -> None:
    parts = [
        {"type": "reasoning", "text": "r", "signature": "S", "format": "x"},
        {"type": "opaque", "format": "x", "data": "D"},
        {"type": "text", "text": "a"},
        {"type": "refusal", "refusal": "b"},
    ]

    assert messages(
        {"role": "assistant", "content": parts},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
        {"role": "assistant", "refusal": "no"},
        {"role": "assistant", "content": [], "refusal": "no"},
    ) == [
        {"role": "assistant", "content": "ab", "thinking": "r"},
        {"role": "assistant", "content": "a", "thinking": "r"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": "no"},
    ]


def part(**fields: Any) -> dict[str, Any]:
    return {"messages": [*HI, {"role": "user", "content": [{"type": "text", "text": "a"}, fields]}]}


FORCED = "tool_choice: the demand for a tool call cannot be sent in Ollama's API"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"n": 2}, "n: more than one choice cannot be sent in Ollama's API"),
        ({"tools": [TOOL], "tool_choice": "required"}, FORCED),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}, FORCED),
        (part(type="image_url", image_url={"url": PICTURE}), "messages[1].content[1]: an image by URL cannot be sent in Ollama's API"),
        (part(type="input_audio", input_audio={"data": "x", "format": "wav"}), "messages[1].content[1]: anything but text and images cannot be sent in Ollama's API"),
        (part(type="file", file={"file_data": PDF}), "messages[1].content[1]: anything but text and images cannot be sent in Ollama's API"),
        ({"messages": [{"role": "assistant", "tool_calls": [call("i", "f", "{}"), call("j", "f", "[1]")]}]}, "messages[0].tool_calls[1].function.arguments: it is no JSON object"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError) as refused:
        render(given)

    assert (refused.value.code, refused.value.message) == ("invalid_request", why)


def test_the_request_is_not_changed() -> None:
    request = parse_chat_request(
        json.dumps(
            {"messages": HI, "tools": [TOOL], "provider_options": {"options": {"a": 1}}}
        ).encode()
    )
    render_request(request, model="m").body["options"]["a"] = 2

    assert request.provider_options == {"options": {"a": 1}}
    assert request == msgspec.json.decode(msgspec.json.encode(request), type=type(request))


def test_the_table_names_the_dialect() -> None:
    dialect = UPSTREAM_FORMATS["ollama"]

    assert (dialect.path, dialect.models_path) == ("api/chat", "api/tags")
    assert dialect.render_request is render_request
    assert dialect.ignored == IGNORED <= set(ChatRequest.__struct_fields__)

"""What is sent to an upstream that speaks Chat Completions."""

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from app.dialects.openai_chat.upstream.request import Quirks, render_request
from app.requests import parse_chat_request
from app.upstreams.presets import PRESETS
from tests.dialects import rendering
from tests.dialects.rendering import (
    assistant,
    call,
    file,
    function,
    image,
    part,
    result,
    said,
    user,
)

pytestmark = pytest.mark.pure

render = partial(rendering.render, "openai_chat")


def test_everything_else_is_sent_as_it_came() -> None:
    request = {
        "temperature": 0,
        "top_p": 0.5,
        "n": 2,
        "stop": ["a"],
        "seed": 1,
        "frequency_penalty": 0,
        "presence_penalty": -1,
        "logprobs": False,
        "top_logprobs": 0,
        "tools": [function("f", parameters={"type": "x"})],
        "tool_choice": function("f"),
        "parallel_tool_calls": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "strict": False}},
        "reasoning_effort": "low",
        "metadata": {"a": "b"},
        "user": "u",
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "developer", "content": [said("d")]},
            user(
                said("t"),
                image("u", detail="low"),
                {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}},
                file(file_id="i"),
            ),
            {"role": "assistant", "content": None, "tool_calls": [call()]},
            result("r"),
        ],
    }
    assert render(request) == {
        **request,
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize(
    ("given", "field", "sent"),
    [
        ({"max_tokens": 5}, "max_tokens", {"max_tokens": 5}),
        ({"max_tokens": 5}, "max_completion_tokens", {"max_completion_tokens": 5}),
        ({"max_completion_tokens": 5}, "max_tokens", {"max_tokens": 5}),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", {"max_tokens": 6}),
        ({}, "max_completion_tokens", {}),
        ({"max_tokens": 5}, "as_received", {"max_tokens": 5}),
        ({"max_completion_tokens": 5}, "as_received", {"max_completion_tokens": 5}),
        (
            {"max_tokens": 5, "max_completion_tokens": 6},
            "as_received",
            {"max_completion_tokens": 6},
        ),
    ],
)
def test_the_limit_has_the_name_that_the_vendor_knows(
    given: dict[str, int], field: str, sent: dict[str, int]
) -> None:
    body = render(given, max_tokens_field=field)

    assert {key: value for key, value in body.items() if key.startswith("max_")} == sent


def test_reasoning_goes_back_only_where_it_is_wanted() -> None:
    message = {"role": "assistant", "content": "a", "reasoning_content": "r"}

    for field in ("reasoning_content", "reasoning"):
        (kept,) = render({"messages": [message]}, send_reasoning=field)["messages"]
        assert kept == {"role": "assistant", "content": "a", field: "r"}
    (sent,) = render({"messages": [message]})["messages"]
    assert sent == {"role": "assistant", "content": "a"}


def test_signatures_of_reasoning_go_back_in_openrouters_form() -> None:
    parts = [
        part("reasoning", "r", signature="S", format="f"),
        part("reasoning", encrypted="E"),
        said("a"),
        part("opaque", format="g", data="D"),
    ]
    message = {"role": "assistant", "content": parts}

    (sent,) = render({"messages": [message]}, send_reasoning="reasoning_details")["messages"]
    assert sent == assistant(
        said("a"),
        reasoning_details=[
            {"type": "reasoning.text", "text": "r", "signature": "S", "format": "f"},
            {"type": "reasoning.encrypted", "data": "E"},
            {"type": "reasoning.encrypted", "data": "D", "format": "g"},
        ],
    )
    (sent,) = render({"messages": [message]}, send_reasoning="reasoning_content")["messages"]
    assert sent["reasoning_content"] == "r"
    (sent,) = render({"messages": [{**message, "content": parts[:1]}]})["messages"]
    assert sent == {"role": "assistant", "content": None}


def test_geminis_signature_goes_back_with_its_call() -> None:
    opaque = [
        {"format": "google.thought_signature", "data": "S"},
        {"format": "of-another", "data": "T"},
    ]
    (sent,) = render({"messages": [assistant(tool_calls=[call(opaque=opaque)])]})["messages"]

    google = {"google": {"thought_signature": "S"}}
    assert sent["tool_calls"] == [call(extra_content=google)]


PARTS = [
    part("reasoning", "r", signature="S"),
    part("reasoning", "q", signature="T", format="of-another"),
    part("reasoning", encrypted="E"),
    said("a"),
]
THINKING = [
    {"type": "thinking", "thinking": [said("r")], "signature": "S"},
    {"type": "thinking", "thinking": [said("q")]},
]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"content": PARTS}, [*THINKING, said("a")]),
        ({"content": PARTS[1:2]}, THINKING[1:]),
        ({"content": PARTS[2:3]}, None),
        ({"content": "a", "reasoning_content": "q"}, [THINKING[1], said("a")]),
        ({"content": "", "reasoning_content": "q"}, THINKING[1:]),
        ({"reasoning_content": "q"}, THINKING[1:]),
        ({"content": "a"}, "a"),
    ],
)
def test_reasoning_goes_back_as_parts_of_the_content(given: dict[str, Any], sent: Any) -> None:
    (message,) = render({"messages": [{"role": "assistant", **given}]}, send_reasoning="thinking")[
        "messages"
    ]

    assert message == {"role": "assistant", "content": sent}


FILE = "data:application/pdf;base64,AAAA"
SOUND = {"type": "input_audio", "input_audio": {"data": "d", "format": "wav"}}


@pytest.mark.parametrize(
    ("quirks", "given", "sent"),
    [
        ({"developer": False}, {"role": "developer", "content": "d", "name": "n"}, {"role": "system", "content": "d", "name": "n"}),
        ({"plain": True}, {"role": "developer", "content": "d", "name": "n"}, {"role": "system", "content": "d"}),
        ({"plain": True}, {"role": "user", "content": "u", "name": "n"}, {"role": "user", "content": "u"}),
        ({"plain": True}, assistant(refusal="no", name="n"), {"role": "assistant", "content": "no", "prefix": True}),
        ({"plain": True}, {"role": "assistant", "content": "a", "refusal": "no"}, {"role": "assistant", "content": "a", "prefix": True}),
        ({"plain": True}, assistant(part("refusal", refusal="no")), assistant(said("no"), prefix=True)),
        ({}, assistant(refusal="no"), {"role": "assistant", "content": None, "refusal": "no"}),
        ({"bare_audio": True}, user(SOUND), user({"type": "input_audio", "input_audio": "d"})),
        ({"files": "document_url"}, user(file(file_data=FILE, filename="a.pdf")), user({"type": "document_url", "document_url": FILE, "document_name": "a.pdf"})),
        ({"files": "document_url"}, user(file(file_data="https://a/b")), user({"type": "document_url", "document_url": "https://a/b"})),
        ({"files": "document_url"}, user(file(file_data="data:image/png;base64,AA")), user(image("data:image/png;base64,AA"))),
        ({"files": "document_url"}, user(file(file_id="i")), user({"type": "file", "file_id": "i"})),
    ],
)  # fmt: skip
def test_a_message_is_said_as_the_vendor_knows_it(
    quirks: dict[str, Any], given: dict[str, Any], sent: dict[str, Any]
) -> None:
    assert render({"messages": [given]}, **quirks)["messages"] == [sent]


SIGNED = part("reasoning", "Hm.", signature="S", format="litellm")
OTHERS = part("reasoning", "Hm.", signature="S", format="anthropic")
REDACTED = part("opaque", format="litellm.redacted_thinking", data="R")
LONE = part("opaque", format="litellm", data="S")


@pytest.mark.parametrize(
    ("parts", "blocks"),
    [
        ([SIGNED], [{"type": "thinking", "thinking": "Hm.", "signature": "S"}]),
        ([REDACTED], [{"type": "redacted_thinking", "data": "R"}]),
        ([LONE], [{"type": "thinking", "thinking": "", "signature": "S"}]),
        ([OTHERS, part("reasoning", "Hm.")], None),
    ],
)
def test_litellm_is_given_back_what_claude_signed(parts: Any, blocks: Any) -> None:
    given = assistant(*parts, said("Yes."))
    rendered = render({"messages": [given]}, send_reasoning="thinking_blocks")["messages"][0]

    assert rendered.get("thinking_blocks") == blocks
    assert rendered["content"] == [said("Yes.")]
    assert "thinking_blocks" not in render({"messages": [given]})["messages"][0]
    assert PRESETS["litellm"].quirks["send_reasoning"] == "thinking_blocks"


NAMED = [{"role": role, "content": "x", "name": "n"} for role in ("system", "user", "assistant")]
ALL, USERS = ["system", "user", "assistant"], ["user"]
NONE: list[str] = []


@pytest.mark.parametrize(
    ("quirks", "messages", "kept", "told"),
    [
        ({}, NAMED, ALL, ()),
        ({"names": "none"}, NAMED, NONE, ("does not support name in messages: dropped",)),
        ({"plain": True}, NAMED, NONE, ("does not support name in messages: dropped",)),
        ({"names": "none"}, [{"role": "user", "content": "x"}], NONE, ()),
        (
            *({"names": "user"}, NAMED, USERS),
            ("does not support name in messages of other roles: dropped",),
        ),
        ({"names": "user"}, NAMED[1:2], USERS, ()),
    ],
)
def test_names_go_where_they_are_taken(
    quirks: dict[str, Any], messages: list[Any], kept: list[str], told: tuple[str, ...]
) -> None:
    rendered = render({"messages": messages}, **quirks)["messages"]
    request = parse_chat_request(json.dumps({"messages": messages}).encode())

    assert kept == [message["role"] for message in rendered if "name" in message]
    changed = render_request(request, model="m", quirks=msgspec.convert(quirks, Quirks))
    assert told == changed.changes


@pytest.mark.parametrize(("preset", "names"), [("groq", "none"), ("xai", "user")])
def test_hosts_that_refuse_names_are_known(preset: str, names: str) -> None:
    assert names == msgspec.convert(PRESETS[preset].quirks, Quirks).names


def test_only_what_tunes_may_be_left_out() -> None:
    with pytest.raises(msgspec.ValidationError, match="tools"):
        msgspec.convert({"left_out": ["tools"]}, Quirks)

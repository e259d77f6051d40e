"""How a conversation is said in Anthropic's words, and what cannot be."""

import base64
import json
from typing import Any

import pytest

from app.dialects.anthropic.upstream.messages import render_messages
from app.errors import RequestError
from app.requests import parse_chat_request

pytestmark = pytest.mark.pure


def render(*messages: dict[str, Any]) -> tuple[Any, Any]:
    request = parse_chat_request(json.dumps({"messages": messages}).encode())
    return render_messages(request.messages)


def turns(*messages: dict[str, Any]) -> Any:
    system, found = render(*messages)
    assert system == []
    return found


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any = None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def tool(id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(id: str, name: str = "f", **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def result(id: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content}


def file(**fields: str) -> dict[str, Any]:
    return {"type": "file", "file": fields}


def url_of(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data.encode()).decode()}"


HI = user("hi")


def test_what_the_system_says_stands_apart_in_its_order() -> None:
    system, found = render(
        {"role": "system", "content": "a"},
        {"role": "developer", "content": [text("b"), text(""), text("c")]},
        HI,
        assistant("ho"),
        {"role": "system", "content": "d"},
        user("ha"),
    )

    assert system == [text("a"), text("b"), text("c"), text("d")]
    assert [turn["role"] for turn in found] == ["user", "assistant", "user"]


def test_messages_of_one_side_are_one_turn() -> None:
    found = turns(HI, user([text("a")]), assistant("b"), assistant("c"), {**HI, "name": "n"})

    assert found == [
        {"role": "user", "content": [text("hi"), text("a")]},
        {"role": "assistant", "content": [text("b"), text("c")]},
        {"role": "user", "content": [text("hi")]},
    ]


def test_there_is_no_text_without_text() -> None:
    found = turns(
        user([text(""), text("a"), text("\n\n"), text("b")]),
        assistant(""),
        assistant([text("\n"), text("c")]),
        assistant("  ", tool_calls=[call("i")]),
    )

    assert found == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), use("i")]},
    ]


def test_results_of_calls_stand_together_and_first() -> None:
    found = turns(
        assistant("a", tool_calls=[call("i", "f", ""), call("j", "g", '{"x": [1]}')]),
        user("wait"),
        tool("i", "1"),
        tool("j", ""),
        user("go on"),
    )

    assert found == [
        {"role": "assistant", "content": [text("a"), use("i"), use("j", "g", x=[1])]},
        {
            "role": "user",
            "content": [result("i", "1"), result("j", ""), text("wait"), text("go on")],
        },
    ]


def test_a_result_may_hold_images() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    (turn,) = turns(tool("i", [text("a"), image]))

    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert turn["content"] == [result("i", [text("a"), {"type": "image", "source": source}])]


def test_the_signature_of_thinking_goes_back_in_its_place() -> None:
    (turn,) = turns(
        assistant(
            [
                {"type": "reasoning", "text": "a", "signature": "S", "format": "anthropic"},
                {"type": "opaque", "format": "anthropic.redacted_thinking", "data": "R"},
                {"type": "reasoning", "text": "b", "signature": "T"},
                text("c"),
                {"type": "opaque", "format": "anthropic", "data": "U"},
                {"type": "refusal", "refusal": "d"},
            ],
            tool_calls=[call("i")],
            refusal="e",
        )
    )

    assert turn["content"] == [
        {"type": "thinking", "thinking": "a", "signature": "S"},
        {"type": "redacted_thinking", "data": "R"},
        {"type": "thinking", "thinking": "b", "signature": "T"},
        text("c"),
        {"type": "thinking", "thinking": "", "signature": "U"},
        *(text("d"), text("e"), use("i")),
    ]


def test_a_compaction_goes_back_as_it_came() -> None:
    block = {"type": "compaction", "content": "a", "signature": "S"}
    part = {"type": "opaque", "format": "anthropic.compaction", "data": json.dumps(block)}
    (turn,) = turns(assistant([part, text("b")]))

    assert turn["content"] == [block, text("b")]


@pytest.mark.parametrize("data", ["x", "[]", '{"type": "text", "text": "a"}'])
def test_what_is_no_compaction_is_refused_where_it_stands(data: str) -> None:
    part = {"type": "opaque", "format": "anthropic.compaction", "data": data}

    with pytest.raises(RequestError, match=r"messages\[0\]\.content\[1\]\.data: must be a comp"):
        turns(assistant([text("b"), part]))


def test_signatures_of_other_providers_are_left_out() -> None:
    parts = [
        {"type": "reasoning", "text": "a"},
        {"type": "reasoning", "text": "b", "signature": "S", "format": "of-another"},
        {"type": "reasoning", "encrypted": "E"},
        {"type": "opaque", "format": "of-another", "data": "D"},
        text("c"),
    ]
    (turn,) = turns(assistant(parts, reasoning_content="r"))

    assert turn["content"] == [text("c")]
    assert turns(assistant(parts[:1]), HI) == [{"role": "user", "content": [text("hi")]}]


IMAGES = [
    ("https://a/b.png", {"type": "url", "url": "https://a/b.png"}),
    ("http://a/b.png", {"type": "url", "url": "http://a/b.png"}),
    ("data:image/WebP;base64,AA==", {"type": "base64", "media_type": "image/webp", "data": "AA=="}),
]


@pytest.mark.parametrize(("url", "source"), IMAGES)
def test_an_image_is_sent_by_its_url(url: str, source: Any) -> None:
    (turn,) = turns(user([{"type": "image_url", "image_url": {"url": url, "detail": "low"}}]))

    assert turn["content"] == [{"type": "image", "source": source}]


PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
FILES = [
    (file(file_data=url_of("application/pdf", "%PDF"), filename="p.pdf"), {"type": "document", "source": PDF, "title": "p.pdf"}),
    (file(file_url="https://a.example/p.pdf", filename="p"), {"type": "document", "source": {"type": "url", "url": "https://a.example/p.pdf"}, "title": "p"}),
    (file(file_data="https://a.example/p.pdf"), {"type": "document", "source": {"type": "url", "url": "https://a.example/p.pdf"}}),
    (file(file_id="file_1"), {"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
    (file(file_data=url_of("text/markdown", "# せ"), filename="r.md"), {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "# せ"}, "title": "r.md"}),
    (file(file_data="data:image/png;base64,AA==", filename="i.png"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
]  # fmt: skip


@pytest.mark.parametrize(("part", "block"), FILES)
def test_a_file_is_sent_as_what_it_is(part: Any, block: Any) -> None:
    (turn,) = turns(user([text("a"), part]))

    assert turn["content"] == [text("a"), block]


SOUND = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
REFUSED: list[tuple[Any, str]] = [
    (user([text("a"), SOUND]), "messages[1].content[1]: sound cannot be sent"),
    (user([{"type": "image_url", "image_url": {"url": "ftp://a"}}]), "messages[1].content[0]: an"),
    (tool("i", [{"type": "image_url", "image_url": {"url": "data:,a"}}]), "messages[1].content[0]"),
    (user([file(file_data="AAAA")]), "messages[1].content[0]: a file without a base64 data: or https: URL"),
    (user([file(filename="a")]), "messages[1].content[0]: a file without a base64 data: or https: URL"),
    (user([file(file_data="data:a/b;base64,AA")]), "messages[1].content[0]: a file of the type 'a/b'"),
    (user([file(file_data="data:text/a;base64,!")]), "messages[1].content[0]: must be base64 of UTF-8 text"),
    (user([file(file_data="data:text/a;base64,//4=")]), "messages[1].content[0]: must be base64 of UTF-8"),
    (assistant(tool_calls=[call("i"), call("j", "f", "[1]")]), "messages[1].tool_calls[1].function"),
    (assistant(tool_calls=[call("i", "f", '{"x":')]), "messages[1].tool_calls[0].function"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "said"), REFUSED)
def test_what_cannot_be_said_is_refused_with_its_place(message: Any, said: str) -> None:
    with pytest.raises(RequestError) as raised:
        render(HI, message)

    assert raised.value.code == "invalid_request"
    assert raised.value.message.startswith(said)

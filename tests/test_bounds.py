"""What one request may say at most, counted before it becomes objects."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bounds import (
    CHUNK_SIZE,
    MAX_DEPTH,
    MAX_MESSAGES,
    MAX_PARTS,
    MAX_TOOLS,
    MAX_VALUES,
    check_json,
    measure,
)
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RequestError
from app.requests import parse_chat_request

pytestmark = pytest.mark.pure

MIB = 2**20
HEAD = b'{"messages": [{"role": "user", "content": "a"}], "provider_options": {"a": ['
TAIL = b"]}}"


def refusal(client_format: str, body: Any) -> str:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    with pytest.raises(RequestError) as refused:
        CLIENT_FORMATS[client_format].parse_request(data)
    assert "invalid_request" == refused.value.code
    return refused.value.message


def count(value: Any) -> int:
    """Count as `MAX_VALUES` says: one for each comma, and one for each opening bracket."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(count, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(count, value))
    return 0


def depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(depth, value.values() if isinstance(value, dict) else value), default=0)


TEXTS = st.text(st.sampled_from('ab[]{},:"\\\n é😀'), max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


@given(JSON, st.booleans(), st.sampled_from([None, 1]), st.integers(1, 9) | st.just(CHUNK_SIZE))
def test_values_and_levels_are_counted_exactly_in_pieces_of_any_size(
    value: Any, ascii: bool, indent: int | None, size: int
) -> None:
    body = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()

    assert (count(value) + 1, depth(value)) == measure(body, chunk_size=size)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2], {}, " * (MIB // 3),
        '"quoted", \\"twice\\", \\\\' * (MIB // 6),
        json.dumps([{"a": [1, 2, 3]}] * (MIB // 8)),
        "QUJD" * MIB,
    ],
    ids=["marks", "quotes", "JSON", "base64"],
)
def test_a_long_text_is_no_values(text: str) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    assert len(body) > 2 * MIB

    assert text == parse_chat_request(body).messages[0].content


def test_values_up_to_the_bound_are_taken() -> None:
    most = MAX_VALUES - 7
    parse_chat_request(HEAD + b"1," * (most - 1) + b"1" + TAIL)

    reason = refusal("native", HEAD + b"1," * (most + 10) + b"1" + TAIL)
    assert f"the body has more than {MAX_VALUES} values; send fewer" == reason


def test_levels_up_to_the_bound_are_taken() -> None:
    def nested(levels: int) -> bytes:
        return HEAD + b"[" * (levels - 3) + b"]" * (levels - 3) + TAIL

    parse_chat_request(nested(MAX_DEPTH))

    reason = refusal("native", nested(MAX_DEPTH + 1))
    assert f"the body is nested too deeply: more than {MAX_DEPTH} levels" == reason


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'"a",', b'{"a":1},', b"1.5,"])
@pytest.mark.parametrize("client_format", CLIENT_FORMATS)
def test_small_values_in_a_large_body_take_no_memory(client_format: str, piece: bytes) -> None:
    body = HEAD + piece * (MIB // len(piece)) + b"1" + TAIL
    tracemalloc.start()
    try:
        refusal(client_format, body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 3 * len(body)  # two copies; empty lists took 25 times the body


def test_json_that_is_cut_is_called_no_json() -> None:
    reason = refusal("native", HEAD + b"[" * (MAX_DEPTH - 10) + b"[]," * 100)
    assert reason.startswith("the body is not JSON")


def test_the_texts_of_a_request_count_together() -> None:
    arguments = '{"a": [' + "1," * (MAX_VALUES // 3) + "1]}"
    function = {"name": "f", "arguments": arguments}

    def body(calls: int) -> Any:
        listed = [{"id": f"c{i}", "function": function} for i in range(calls)]
        return {"messages": [{"role": "assistant", "tool_calls": listed}]}

    CLIENT_FORMATS["native"].parse_request(msgspec.json.encode(body(2)))

    reason = refusal("native", body(3))
    assert reason.startswith("messages: the arguments of a tool call")
    assert str(MAX_VALUES) in reason


def test_deep_arguments_are_refused() -> None:
    function = {"name": "f", "arguments": '{"a":' * 600 + "1" + "}" * 600}
    message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}

    assert "nested too deeply" in refusal("native", {"messages": [message]})


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(words: str = "a") -> dict[str, Any]:
    return {"type": "text", "text": words}


def ui(n: int) -> dict[str, Any]:
    return {"role": "user", "parts": [text()] * n}


TOOL = {"name": "f", "description": "d", "parameters": {}}
RUN = {"threadId": "t", "runId": "r"}
CLAUDE = {"model": "demo", "max_tokens": 9}
M, P, T = MAX_MESSAGES, MAX_PARTS, MAX_TOOLS

TOO_MANY: list[tuple[str, str, int, Any, Any]] = [
    ("native", "messages", M, {}, lambda n: [user("a")] * n),
    ("native", "messages", P, {}, lambda n: [user([text()] * (n // 2))] * 2 + [user([text()])]),
    ("native", "tools", T, {"messages": [user("a")]}, lambda n: [{"function": TOOL}] * n),
    ("openai_chat", "messages", M, {}, lambda n: [user("a")] * n),
    ("openai_chat", "messages", P, {}, lambda n: [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": ""}}] * n}]),
    ("openai_chat", "tools", T, {"messages": [user("a")]}, lambda n: [{"type": "function", "function": TOOL}] * n),
    ("openai_responses", "input", M, {}, lambda n: [user("a")] * n),
    ("openai_responses", "input", P, {}, lambda n: [user([{"type": "input_text", "text": "a"}] * n)]),
    ("openai_responses", "tools", T, {"input": "a"}, lambda n: [{"type": "function", **TOOL}] * n),
    ("anthropic", "messages", M, CLAUDE, lambda n: [user("a")] * n),
    ("anthropic", "messages", P, CLAUDE, lambda n: [user([text()] * n)]),
    ("anthropic", "messages", P, CLAUDE, lambda n: [user([{"type": "tool_result", "tool_use_id": "t", "content": [text()] * n}])]),
    ("anthropic", "tools", T, {**CLAUDE, "messages": [user("a")]}, lambda n: [{"name": "f", "input_schema": {}}] * n),
    ("ui", "messages", M, {"id": "c"}, lambda n: [ui(1)] * n),
    ("ui", "messages", P, {"id": "c"}, lambda n: [ui(n)]),
    ("ui", "tools", T, {"id": "c", "messages": [ui(1)]}, lambda n: [{"function": TOOL}] * n),
    ("ag_ui", "messages", M, RUN, lambda n: [user("a")] * n),
    ("ag_ui", "messages", P, RUN, lambda n: [user([text()] * n)]),
    ("ag_ui", "tools", T, {**RUN, "messages": [user("a")]}, lambda n: [TOOL] * n)
]  # fmt: skip


@pytest.mark.parametrize(("client_format", "field", "most", "rest", "make"), TOO_MANY)
def test_more_than_a_request_may_have_is_refused_by_name(
    client_format: str, field: str, most: int, rest: dict[str, Any], make: Any
) -> None:
    CLIENT_FORMATS[client_format].parse_request(
        msgspec.json.encode({**rest, field: make(most - 1)})
    )

    reason = refusal(client_format, {**rest, field: make(most + 1)})
    assert reason.startswith(f"{field}: ")
    assert str(most) in reason


def test_the_tools_of_a_run_and_of_its_props_are_counted_together() -> None:
    tools = [TOOL] * (MAX_TOOLS // 2 + 1)
    props = {"tools": [{"function": TOOL}] * (MAX_TOOLS // 2)}
    body = {**RUN, "messages": [user("a")], "tools": tools, "forwardedProps": props}

    assert str(MAX_TOOLS) in refusal("ag_ui", body)


def test_an_explanation_quotes_little() -> None:
    for body in ({"a" * MIB: 1}, {"messages": [{"role": "r" * MIB}]}):
        assert len(refusal("native", body)) < 400


@pytest.mark.parametrize("size", [0, 10, 2**16])
def test_white_space_is_empty(size: int) -> None:
    assert "the body is empty" in refusal("native", b" " * size)


def test_an_empty_text_has_one_value() -> None:
    check_json(b"")

"""A client of Anthropic's receives what Anthropic sends, also what nobody here has heard of.

`python -m tests.dialects.anthropic.test_same_dialect` writes the differences into the document.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import events as e
from app.dialects.anthropic import EVENTS
from app.dialects.anthropic.client.renderer import Renderer
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RelayError
from app.framing.sse import Message
from tests.dialects.anthropic import anything
from tests.dialects.anthropic import written as w
from tests.dialects.clients import render_result
from tests.dialects.strategies import scalars, some
from tests.dialects.streams import (
    DIALECT_OF,
    INVALID,
    body_of,
    check,
    end_of,
    kinds,
    outcome,
    recordings,
    specified_bodies,
)
from tests.dialects.tables import Table

pytestmark = pytest.mark.pure

DOCUMENT = Path(__file__).parents[3] / "docs" / "clients" / "anthropic.md"
BEGIN, END = "<!-- same dialect: begin -->", "<!-- same dialect: end -->"

DIFFERENT: dict[str, tuple[str, tuple[str, ...]]] = {
    "`id`, `model`": ("the relay's own `msg_...`, and the requested model", ("message.id", "message.model")),
    "`ping`, headers": ("the relay's own keep-alive; some [headers](../providers/options.md#headers)", ()),
    "`tool_use`": ("`caller` is added; an `id` that is used already, or that Anthropic would refuse, is replaced", ("tool_use.caller.type", "tool_use.id")),
    "`usage`": ("counts of `message_start` are repeated at the end; `cost` and `cache_creation` are added", tuple(f"{place}.{count}" for place in ("message.usage", "usage") for count in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation.ephemeral_5m_input_tokens", "cache_creation.ephemeral_1h_input_tokens"))),
    "input of server tools": ("in pieces of 100 characters or more", ()),
    "unknown members beside a delta's text": ("in a delta with an empty text, when they change; at most 1,000 times", ()),
    "unknown members of `content_block_stop`": ("left out", ()),
    "`content_block_stop`": ("sent with the next block or the end, because clients run a tool call once it is stopped; a call that was cut is never stopped", ()),
}  # fmt: skip
"""What differs, how, and the paths of the values."""
ALLOWED = {path for _, paths in DIFFERENT.values() for path in paths}


def send(body: bytes, dialect: str = "anthropic") -> tuple[list[Any], list[e.Event]]:
    """Return what the provider sends, and its events in the log of a client of this dialect."""
    spoken = UPSTREAM_FORMATS[dialect]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u")
    parser.keep_provider_data()
    sent, found = [], []
    for message in decoder.feed(body):
        sent.append(json.loads(message.data))
        found += parser.feed(message)
    tail = decoder.close()
    if tail is not None:
        sent.append(json.loads(tail.data))
    found += parser.close(tail)
    check(found)
    start, target = e.StreamStart("st_T", "route", 1), e.StreamTarget("u", "m", 1)
    logged = [start, target, *found]
    return sent, [e.decode(e.encode(event)) for event in logged]


def received(events: Iterable[e.Event]) -> list[Any]:
    renderer = Renderer("st_T")
    return [json.loads(frame.data) for event in events for frame in renderer.feed(event)]


def fold(payloads: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return all that payloads say: texts are joined, and later values replace earlier ones."""
    whole: dict[str, Any] = {"content": [], "events": []}
    for payload in payloads:
        more = {k: v for k, v in payload.items() if k not in ("type", "index", "content_block")}
        match payload["type"]:
            case "content_block_start":
                whole["content"].append({**payload["content_block"], "+": more})
            case "content_block_delta":
                extend(whole["content"][payload["index"]], more.pop("delta"))
                whole["content"][payload["index"]]["+"] |= more
            case "content_block_stop" | "ping":
                pass
            case "message_start" | "message_delta" | "message_stop":
                merge(whole, more)
            case _:
                whole["events"].append(payload)
    for block in whole["content"]:
        if text := block.pop("partial_json", ""):
            block["input"] = json.loads(text)
    return whole


def merge(into: dict[str, Any], given: dict[str, Any]) -> None:
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        elif value is not None:
            into[name] = value


def extend(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif name != "type" and isinstance(value, str) and name != "signature":
            block[name] = (block.get(name) or "") + value
        elif name != "type" and value is not None:
            block[name] = value


def differences(sent: Any, got: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of values that differ; null is as good as absent."""
    inner = next((one for one in (sent, got) if isinstance(one, dict | list)), None)
    if isinstance(inner, dict) and isinstance(sent or {}, dict) and isinstance(got or {}, dict):
        sent, got = sent or {}, got or {}
        for name in sent.keys() | got.keys():
            yield from differences(sent.get(name), got.get(name), f"{path}.{name}".strip("."))
    elif isinstance(sent, list) and isinstance(got, list) and len(sent) == len(got):
        for one, other in zip(sent, got, strict=True):
            kind = one.get("type") if path.endswith("content") and "type" in one else path
            yield from differences(one, other, f"{kind}")
    elif sent != got:
        yield f"{path}: {sent!r:.100} became {got!r:.100}"


def unexpected(sent: Any, got: Any) -> list[str]:
    return [line for line in differences(sent, got) if line.partition(":")[0] not in ALLOWED]


def recorded() -> list[Any]:
    found = [*recordings("anthropic"), *recordings("bedrock_anthropic")]
    return [row for row in found if row.values[0] is None or not row.values[0]["truth"]["error"]]


@pytest.mark.parametrize("row", recorded())
def test_a_recording_arrives_whole(row: dict[str, Any]) -> None:
    sent, events = send(body_of(row), DIALECT_OF[row["format"]])

    assert [] == unexpected(fold(sent), fold(received(events)))


SPECS = [
    (dialect, path)
    for dialect, path in specified_bodies()
    if dialect in ("anthropic", "bedrock_anthropic") and not {"overloaded", "exception"} & {*path.name.split("-")}
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "path"), SPECS, ids=[path.name for _, path in SPECS])
def test_a_specified_body_arrives_whole(dialect: str, path: Path) -> None:
    sent, events = send(path.read_bytes(), dialect)

    assert [] == unexpected(fold(sent), fold(received(events)))


CHAR = {
    "type": "char_location",
    "cited_text": "c",
    "document_index": 0,
    "document_title": "D",
    "file_id": None,
    "start_char_index": 0,
    "end_char_index": 1,
}
PLACES = [
    CHAR,
    {**CHAR, "type": "page_location", "start_page_number": 1, "end_page_number": 2},
    {**CHAR, "type": "content_block_location", "document_title": None, "start_block_index": 0},
    {"type": "search_result_location", "source": "row 7", "title": "R", "cited_text": "r"},
    {"type": "web_search_result_location", "url": "https://a.example", "encrypted_index": "E"},
    {"type": "later_location", "cited_text": "l", "place": {"x": [1]}},
]
USAGE = {
    "input_tokens": 3,
    "output_tokens": 1,
    "cache_read_input_tokens": 5,
    "cache_creation_input_tokens": 7,
    "cache_creation": {"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4},
    "service_tier": "priority",
    "inference_geo": "us",
    "fallback_credit": {"status": {"type": "redeemed"}},
    "later": {"a": 1},
}
ITERATION = {"type": "message", "input_tokens": 3, "output_tokens": 9, "model": "n"}
SEARCH = {"id": "srvtoolu_1", "name": "web_search", "caller": {"type": "direct"}}
FOUND = [{"type": "web_search_result", "url": "https://a.example", "title": "A", "page_age": None, "encrypted_content": "E"}]  # fmt: skip
PAGE = {"type": "web_fetch_result", "url": "https://a.example", "content": {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}}  # fmt: skip
CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_0"}
CONTAINER = {"id": "c_1", "expires_at": "2026-11-26T00:00:00Z", "skills": None}

HEAD: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}


def head(**more: Any) -> dict[str, Any]:
    return w.head(**(HEAD | more))


def last(reason: str | None = "end_turn", usage: Any = None, **more: Any) -> dict[str, Any]:
    return w.last(reason, usage or {"output_tokens": 2}, **more)


PAYLOADS: dict[str, list[Any]] = {
    "usage": [
        head(usage=USAGE),
        *w.text(0, "a"),
        last(
            usage={
                "output_tokens": 9,
                "output_tokens_details": {"thinking_tokens": 2, "later": 1},
                "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
                "iterations": [ITERATION, {**ITERATION, "type": "compaction"}],
            }
        ),
    ],
    "ends": [
        head(
            container=CONTAINER,
            diagnostics={"cache_miss_reason": {"type": "model_changed"}},
            later=[1],
        )
        | {"sent_at": 5},
        *w.text(0, "a"),
        last(
            None,
            {"output_tokens": 1},
            container=CONTAINER,
            later="x",
        )
        | {
            "context_management": {"applied_edits": [{"type": "clear_thinking", "turns": 1}]},
            "input_transformations": [],
            "later": {"y": 1},
        },
        last("later_reason", {"output_tokens": 2, "later": 3}, stop_details={"type": "refusal", "category": None, "later": 1}),
        {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}},
    ],
    "tools": [
        head(),
        *w.inputs(0, "server_tool_use", '{"query": ', '"q"}', **SEARCH),
        w.start(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=FOUND),
        w.stop(1),
        *w.inputs(2, "mcp_tool_use", '{"b": 1, "a": 2}', id="mcptoolu_1", name="echo", server_name="s"),
        w.start(3, "mcp_tool_result", tool_use_id="mcptoolu_1", is_error=False, content=[{"type": "text", "text": "x"}]),
        w.stop(3),
        w.start(4, "mcp_tool_result", tool_use_id="mcptoolu_2", is_error=True, content="no"),
        w.stop(4),
        *w.inputs(5, "server_tool_use", id="srvtoolu_2", name="advisor"),
        w.start(6, "advisor_tool_result", tool_use_id="srvtoolu_2", content={"type": "advisor_result", "text": "t", "stop_reason": "end_turn"}),
        w.stop(6),
        w.start(7, "tool_search_tool_result", tool_use_id="srvtoolu_3", content={"type": "tool_search_tool_search_result", "tool_references": []}),
        w.stop(7),
        w.start(8, "web_fetch_tool_result", tool_use_id="srvtoolu_4", caller=CODE, content=PAGE),
        w.stop(8),
        *w.inputs(9, "tool_use", '{"z": 1, "a": 2}', id="toolu_1", name="f", caller=CODE, toolset_name="t")[:-1],
        w.delta(9, "later_delta", later="x"),
        w.stop(9),
        last("tool_use"),
    ],
    "blocks": [
        head(),
        w.start(0, "container_upload", file_id="file_1"),
        w.stop(0),
        w.start(1, "fallback", **{"from": {"model": "m"}, "to": {"model": "n"}, "trigger": {"type": "refusal", "category": None}}),
        w.stop(1),
        w.start(2, "mcp_tool_listing", mcp_server_name="s", tools=[{"name": "t", "input_schema": {"z": 1, "a": 2}}]),
        w.stop(2),
        w.start(3, "later", text="", deep={"a": [None]}),
        w.delta(3, "text_delta", text="a"),
        w.delta(3, "later_delta", text="b", list=[1]),
        w.delta(3, "later_delta", text="c", list=[2]),
        w.stop(3),
        *w.text(4, "a"),
        w.start(5, "compaction", content=None),
        w.delta(5, "compaction_delta", content="c", encrypted_content="E"),
        w.stop(5),
        w.start(6, "redacted_thinking", data="R", later=1),
        w.stop(6),
        last("compaction"),
    ],
    "texts": [
        head(),
        w.start(0, "text", text="", citations=[]) | {"at": 1},
        w.delta(0, "text_delta", text="a"),
        *w.cited(0, *PLACES, CHAR),
        w.delta(0, "text_delta", text="b"),
        w.delta(0, "later_delta", later="x"),
        w.stop(0),
        w.start(1, "text", text="a", later={"b": 1}),
        w.stop(1),
        w.start(2, "text", text=""),
        w.stop(2),
        w.start(3, "text", text=""),
        w.delta(3, "later_delta", later="x"),
        w.delta(3, "text_delta", text="c"),
        w.delta(3, "text_delta", text="d", beside=1) | {"at": 2},
        w.delta(3, "text_delta", text="e", beside=1) | {"at": 2},
        w.stop(3),
        w.start(4, "text", text="f", citations=[CHAR]),
        w.stop(4),
        last(),
    ],
    "thinking": [
        head(),
        w.start(0, "thinking", thinking="", signature="", later=1),
        w.delta(0, "thinking_delta", thinking="t", estimated_tokens=None),
        w.delta(0, "signature_delta", signature="S"),
        w.stop(0),
        w.start(1, "thinking", thinking="", signature=""),
        w.delta(1, "signature_delta", signature="T"),
        w.stop(1),
        *w.text(2, "a"),
        last(),
    ],
    "hidden thinking": [
        head(),
        w.start(0, "thinking", thinking="", signature=""),
        w.delta(0, "thinking_delta", thinking="", estimated_tokens=50),
        w.delta(0, "thinking_delta", thinking="", estimated_tokens=50),
        w.delta(0, "signature_delta", signature="S"),
        w.stop(0),
        *w.text(1, "a"),
        last(),
    ],
    "nothing but other blocks": [head(), w.start(0, "later"), w.stop(0), last()],
    "events": [
        head(),
        w.PING,
        {"type": "later_event", "a": {"b": None}},
        *w.text(0, "a"),
        {"type": "later_event", "a": 2},
        *w.text(1, "b"),
        last(),
    ],
}  # fmt: skip


def body(name: str) -> bytes:
    payloads = PAYLOADS[name]
    return w.sse(*payloads) if payloads[-1]["type"] == "message_stop" else w.answer(*payloads)


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_written_body_arrives_whole(name: str) -> None:
    sent, events = send(body(name))
    got = received(events)

    assert end_of(events).status == "completed"
    assert [] == unexpected(fold(sent), fold(got))
    assert [p["type"] for p in got].count("message_stop") == 1 == len(got) - got.index(got[-1])


@pytest.mark.parametrize("name", PAYLOADS)
def test_the_json_answer_has_the_same(name: str) -> None:
    *_, events = send(body(name))
    streamed = fold(received(events))
    message = {**streamed.pop("message"), "content": streamed.pop("content")}
    for block in message["content"]:
        for member in ("+", "beside", "estimated_tokens"):
            block.pop(member, None)  # what is beside a piece has no place
    merge(message, streamed.pop("delta") | streamed)
    for name in ("events", "sent_at", "amazon-bedrock-invocationMetrics"):
        message.pop(name, None)  # they have no place either

    assert [] == [*differences(message, render_result("anthropic", events, "st_T"))]


def test_a_whole_message_stays_whole() -> None:
    whole = w.WHOLE | {"usage": USAGE, "container": CONTAINER, "later": 1, "role": "assistant"}
    *_, events = send(json.dumps(whole).encode())

    assert [] == unexpected(
        {"message": whole}, {"message": render_result("anthropic", events, "st_T")}
    )


@pytest.mark.parametrize(
    "kind",
    [
        *("invalid_request_error", "authentication_error", "billing_error", "permission_error"),
        *("not_found_error", "rate_limit_error", "timeout_error", "api_error"),
        *("overloaded_error", "conflict_error", "request_too_large"),
    ],
)
def test_an_error_within_an_answer_keeps_its_type(kind: str) -> None:
    failure = {"type": "error", "error": {"type": kind, "message": "no"}}
    *_, events = send(w.sse(head(), *w.text(0, "a"), failure))

    assert received(events)[-1]["error"]["type"] == kind


def test_hidden_thinking_is_counted_as_it_grows() -> None:
    *_, events = send(body("hidden thinking"))
    deltas = [p["delta"] for p in received(events) if p["type"] == "content_block_delta"]

    assert [50, 50, None] == [delta.get("estimated_tokens") for delta in deltas[:3]]
    assert {"type": "signature_delta", "signature": "S"} == deltas[2]


def test_a_server_tools_input_arrives_as_it_grows() -> None:
    begun = w.inputs(0, "server_tool_use", '{"code": "', *["x" * 9] * 30, **SEARCH)[:-1]
    *_, events = send(w.sse(head(), *begun))
    pieces = [p["delta"]["partial_json"] for p in received(events)[2:-1]]

    assert [len(piece) for piece in pieces] == [100, 108]
    assert kinds(events)[-1] == "stream.end"


def test_members_beside_every_text_are_few_events() -> None:
    """Also if each has another value."""
    constant = [w.delta(0, "text_delta", text="a", k=1) for _ in range(50)]
    changing = [w.delta(0, "text_delta", text="a", k=number) for number in range(3000)]

    for deltas, most, notices in ((constant, 1, 0), (changing, 1000, 1)):
        *_, events = send(w.answer(head(), w.start(0, "text", text=""), *deltas, last()))
        assert (kinds(events).count("provider_data") - 2, kinds(events).count("notice")) == (
            most,
            notices,
        )
        text = fold(received(events))["content"][0]["text"]
        assert text == "a" * len(deltas)


def test_what_waits_for_an_answer_is_bounded() -> None:
    spoken = UPSTREAM_FORMATS["anthropic"]
    parser = spoken.parser(upstream="u")
    parser.keep_provider_data()
    event = Message("later", json.dumps({"type": "later", "a": "a" * 2**20}))

    found = [
        one for m in (Message("", json.dumps(head())), *[event] * 40) for one in parser.feed(m)
    ]

    assert outcome(found) == INVALID


def test_other_clients_logs_have_none() -> None:
    spoken = UPSTREAM_FORMATS["anthropic"]
    parser, decoder = spoken.parser(upstream="u"), spoken.decoder(max_line=2**20, max_event=2**20)
    for name in PAYLOADS:
        found = [event for m in decoder.feed(body(name)) for event in parser.feed(m)]
        assert "provider_data" not in kinds(found)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "message_stop"},
        {"type": "error", "error": {}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_stop"},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "message_start", "message": {"id": "x", "content": [1], "stop_reason": "end_turn"}},
        {"type": "ping"},
        {"type": "a\nevent: message_stop"},
        {"type": 5},
        {},
    ],
)  # fmt: skip
def test_no_data_of_a_provider_ends_an_answer(fields: dict[str, Any]) -> None:
    """Also if it comes from another relay's log."""
    data = e.ProviderData(e.Raw("anthropic", json.dumps(fields)))
    cut = e.StreamEnd("failed", "error", None, e.ErrorInfo("upstream_truncated", "cut", True))
    start = e.StreamStart("st_T", "m", 1)

    got = received([start, data, e.TextStart(0), e.TextDelta(0, "a"), data, cut])

    assert got[0]["message"]["stop_reason"] is None
    assert got[0]["message"]["content"] == []
    assert [p["type"] for p in got[1:]] == ["content_block_start", "content_block_delta", "error"]


@given(st.lists(anything.messages, max_size=12))
def test_anything_stays_a_stream_of_blocks(sent: list[Message]) -> None:
    parser = UPSTREAM_FORMATS["anthropic"].parser(upstream="u")
    parser.keep_provider_data()
    start, target = e.StreamStart("st_T", "route", 1), e.StreamTarget("u", "m", 1)
    found: list[e.Event] = [
        start,
        target,
        *[event for message in sent for event in parser.feed(message)],
    ]
    found += parser.close(None)
    check(found[2:])
    completed = check_blocks(received(found))
    assert completed == (end_of(found).status == "completed")
    with contextlib.suppress(RelayError):
        render_result("anthropic", found)


def check_blocks(payloads: list[Any]) -> bool:
    """Assert that blocks follow one another; return whether the message is complete."""
    assert payloads[0]["type"] == "message_start"
    completed: bool = payloads[-1]["type"] == "message_stop"
    assert completed or payloads[-1]["type"] == "error"
    begun, opened = 0, False
    for payload in payloads[1:-1]:
        match payload["type"]:
            case "content_block_start":
                assert (payload["index"], opened) == (begun, False)
                begun, opened = begun + 1, True
            case "content_block_delta":
                assert (payload["index"], opened) == (begun - 1, True)
            case "content_block_stop":
                assert (payload["index"], opened) == (begun - 1, True)
                opened = False
            case "message_delta":
                assert not opened
            case kind:
                assert kind not in EVENTS
    assert not (opened and completed)
    return completed


NAMES = ("type", "id", "role", "content", "usage", "stop_reason", "citations", "text", "later")
values = scalars | st.lists(scalars) | st.dictionaries(st.sampled_from(NAMES), scalars)
members = st.dictionaries(st.sampled_from(NAMES), values)
records = some(
    *(*EVENTS, "later"),
    message=members | scalars,
    delta=some(*anything.DELTAS, text=scalars, partial_json=scalars, later=values) | members,
    content_block=some(*anything.KINDS, text=scalars, citations=values) | members,
    usage=members,
    id=scalars,
    content=values,
)


@given(st.lists(st.tuples(st.integers(2, 11), records, st.none() | st.integers(0, 2)), max_size=8))
def test_no_record_breaks_the_answer(found: list[tuple[int, Any, int | None]]) -> None:
    """They may come from another relay, by its native format."""
    *_, plain = send(w.answer(head(), *w.text(0, "a"), *w.text(1, "b"), last()))
    events: list[e.Event] = [event for event in plain if not isinstance(event, e.ProviderData)]
    for place, fields, block in found:
        data = e.ProviderData(e.Raw("anthropic", json.dumps(fields)), block=block)
        events.insert(min(place, len(events) - 1), data)

    payloads = received(events)
    message = render_result("anthropic", events, "st_T")

    assert check_blocks(payloads)
    assert (message["type"], message["stop_reason"]) == ("message", "end_turn")
    texts = [block.get("text") for block in message["content"]]
    assert "a" in str(texts)
    assert "b" in str(texts)


TABLE = Table(
    DOCUMENT,
    BEGIN,
    END,
    head=("part", "difference"),
    rows=[(what, how) for what, (how, _) in DIFFERENT.items()],
)


def test_the_document_lists_what_differs() -> None:
    assert TABLE.render() == TABLE.read()


if __name__ == "__main__":
    TABLE.write()

"""Anthropic Messages as no recording has it: bodies written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.dialects.anthropic.upstream.parser import Parser
from app.errors import UpstreamError
from app.events import (
    ChoiceEnd,
    Event,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Source,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from app.framing.sse import Message
from tests.dialects import streams
from tests.dialects.anthropic.streams import (
    PING,
    STOP,
    delta,
    head,
    inputs,
    last,
    sse,
    start,
    stop,
    text,
)
from tests.dialects.streams import CUT, check, end_of, kinds

pytestmark = pytest.mark.pure


def play(pieces: list[bytes], *, cut: UpstreamError | None = None) -> list[Event]:
    return streams.play(pieces, dialect="anthropic", cut=cut)


def said(*pieces: str, block: int = 0) -> list[Event]:
    deltas = [TextDelta(block, piece) for piece in pieces]
    return [TextStart(block), *deltas, TextEnd(block)]


def called(name: str, *pieces: str, block: int = 0, id: str = "") -> list[Event]:
    return [
        ToolCallStart(block, id or f"seseragi_{block}", name),
        *(ToolCallDelta(block, piece) for piece in pieces),
        ToolCallEnd(block, "".join(pieces) or "{}"),
    ]


def ended(*parts: list[Event], reason: Any = "stop", raw: str = "end_turn") -> list[Event]:
    whole = [event for part in parts for event in part]
    return [*whole, ChoiceEnd(reason, raw), StreamEnd("completed", reason)]


TOOLS = {"reason": "tool_calls", "raw": "tool_use"}
SEARCH = {"id": "s1", "name": "web_search"}
FOUND = [{"type": "web_search_result", "url": "https://a"}]
RESULT = {"tool_use_id": "s1", "content": FOUND}
IN_TEXT = {
    "type": "char_location",
    "cited_text": "c",
    "document_index": 2,
    "document_title": "D",
    "start_char_index": 5,
    "end_char_index": 6,
}


def without_title(**more: Any) -> dict[str, Any]:
    return {**IN_TEXT, "document_title": None, **more}


def cited(index: int, *citations: Any) -> list[dict[str, Any]]:
    return [delta(index, "citations_delta", citation=citation) for citation in citations]


def dropped(kind: str) -> Notice:
    return Notice("block_dropped", f"upstream 'u' sent a block {kind!r}, which was left out")


COMPLETE: list[tuple[str, list[Any], list[Event]]] = [
    ("text", [head(), *text(0, "a", "b"), last()], ended(said("a", "b"))),
    ("nothing-but-an-end", [head(), last()], ended()),
    (
        "pings-anywhere",
        [
            PING,
            head(),
            PING,
            start(0, "text"),
            PING,
            delta(0, "text_delta", text="a"),
            PING,
            last(),
        ],
        ended(said("a")),
    ),
    (
        "initial-text-is-text",
        [head(), start(0, "text", text="a"), delta(0, "text_delta", text="b"), stop(0), last()],
        ended(said("a", "b")),
    ),
    (
        "texts-in-a-row-stay-apart",
        [head(), *text(0, "a"), *text(1, "b"), last()],
        ended(said("a"), said("b", block=1)),
    ),
    (
        "texts-that-interleave",
        [
            *(head(), start(0, "text"), start(1, "text"), delta(0, "text_delta", text="a")),
            *(delta(1, "text_delta", text="b"), delta(0, "text_delta", text="c"), last()),
        ],
        ended(said("a"), said("b", block=1), said("c", block=2)),
    ),
    (
        "a-block-that-was-never-started",
        [head(), delta(3, "text_delta", text="a"), stop(3), stop(4), last()],
        ended(said("a")),
    ),
    (
        "a-start-that-is-repeated",
        [
            *(head(), start(0, "text"), start(0, "text"), delta(0, "text_delta", text="a")),
            *(start(0, "text"), stop(0), *inputs(1, "tool_use", id="i", name="f")[:1]),
            *(*inputs(1, "tool_use", "{}", id="i", name="f"), last("tool_use")),
        ],
        ended(said("a"), called("f", "{}", block=1, id="i"), **TOOLS),
    ),
    (
        "odd-types-are-ignored",
        [
            {"type": "message_start", "message": 5},
            {"type": "content_block_start", "index": "0", "content_block": None},
            {"type": "content_block_delta", "index": None, "delta": "x"},
            delta(0, "text_delta", text=5),
            delta(0, "hologram_delta", text="x"),
            delta(0, "citations_delta", citation=5),
            delta(0, "input_json_delta", partial_json={"a": 1}),
            {"type": "content_block_stop"},
            {"type": "message_delta", "delta": [], "usage": "x"},
            {"type": "hologram"},
            {},
            *text(1, "a"),
            last(usage={"input_tokens": -1, "output_tokens": True}),
        ],
        ended([dropped("")], said("a")),
    ),
    (
        "thinking-and-its-signature",
        [
            *(head(), start(0, "thinking", thinking="a", signature="")),
            *(delta(0, "thinking_delta", thinking="b"), delta(0, "signature_delta", signature="S")),
            *(stop(0), *text(1, "c"), last()),
        ],
        ended(
            [ReasoningStart(0), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")],
            [ReasoningEnd(0, signature="S", format="anthropic")],
            said("c", block=1),
        ),
    ),
    (
        "thinkings-in-a-row",
        [
            *(head(), start(0, "thinking", thinking="a", signature="S"), stop(0)),
            *(start(1, "thinking", thinking="b", signature="T"), stop(1), last()),
        ],
        ended(
            [ReasoningStart(0), ReasoningDelta(0, "a")],
            [ReasoningEnd(0, signature="S", format="anthropic")],
            [ReasoningStart(1), ReasoningDelta(1, "b")],
            [ReasoningEnd(1, signature="T", format="anthropic")],
        ),
    ),
    (
        "thinking-whose-text-is-omitted",
        [
            *(head(), start(0, "thinking", thinking="a", signature="S"), stop(0)),
            *(start(1, "thinking", thinking=""), delta(1, "signature_delta", signature="T")),
            *(stop(1), *text(2, "b"), last()),
        ],
        ended(
            [ReasoningStart(0), ReasoningDelta(0, "a")],
            [ReasoningEnd(0, signature="S", format="anthropic"), Opaque("anthropic", "T")],
            said("b", block=1),
        ),
    ),
    (
        "thinking-that-is-redacted",
        [
            *(head(), *text(0, "a"), start(1, "redacted_thinking", data="R"), stop(1)),
            *(*text(2, "b"), last()),
        ],
        ended(said("a"), [Opaque("anthropic.redacted_thinking", "R")], said("b", block=1)),
    ),
    (
        "a-call",
        [
            *(head(), *text(0, "a"), *inputs(1, "tool_use", "", '{"x"', ":1}", id="i", name="f")),
            last("tool_use"),
        ],
        ended(said("a"), called("f", '{"x"', ":1}", block=1, id="i"), **TOOLS),
    ),
    (
        "calls-without-arguments",
        [
            *(head(), *inputs(0, "tool_use", "", id="i", name="f")),
            *(*inputs(1, "tool_use", id="j", name="f"), last("tool_use")),
        ],
        ended(called("f", id="i"), called("f", block=1, id="j"), **TOOLS),
    ),
    (
        "a-call-whose-input-is-whole-at-once",
        [
            *(head(), start(0, "tool_use", id="i", name="f", input={"x": 1}), stop(0)),
            last("tool_use"),
        ],
        ended(called("f", '{"x": 1}', id="i"), **TOOLS),
    ),
    (
        "a-call-that-was-never-stopped",
        [head(), start(0, "tool_use", id="i", name="f", input={"x": 1}), last("tool_use")],
        ended(called("f", '{"x": 1}', id="i"), **TOOLS),
    ),
    (
        "pieces-overrule-the-input-of-the-start",
        [
            *(head(), start(0, "tool_use", id="i", name="f", input={"x": 1})),
            *(delta(0, "input_json_delta", partial_json="{}"), stop(0), last("tool_use")),
        ],
        ended(called("f", "{}", id="i"), **TOOLS),
    ),
    (
        "calls-that-interleave",
        [
            *(head(), start(0, "tool_use", id="i", name="f"), start(1, "tool_use", name="g")),
            *(delta(1, "input_json_delta", partial_json="["), stop(2)),
            *(delta(0, "input_json_delta", partial_json="{}"), stop(0)),
            *(delta(1, "input_json_delta", partial_json="]"), stop(1), last("tool_use")),
        ],
        ended(
            [
                ToolCallStart(0, "i", "f"),
                ToolCallStart(1, "seseragi_1", "g"),
                ToolCallDelta(1, "["),
            ],
            [ToolCallDelta(0, "{}"), ToolCallEnd(0, "{}"), ToolCallDelta(1, "]")],
            [ToolCallEnd(1, "[]")],
            **TOOLS,
        ),
    ),
    (
        "arguments-that-are-no-json",
        [head(), *inputs(0, "tool_use", '{"x": ', id="i", name="f"), last("max_tokens")],
        ended(called("f", '{"x": ', id="i"), reason="length", raw="max_tokens"),
    ),
    (
        "a-call-without-name-is-dropped",
        [head(), *inputs(0, "tool_use", "{}", id="i"), last()],
        ended([Notice("tool_call_dropped", "the upstream sent a tool call without a name")]),
    ),
    (
        "content-in-the-head-of-the-message",  # calls that code made, when they are resumed
        [
            head(content=[{"type": "tool_use", "id": "i", "name": "f", "input": {"x": 1}}]),
            *(*text(0, "a"), last("tool_use")),
        ],
        ended(called("f", '{"x": 1}', id="i"), said("a", block=1), **TOOLS),
    ),
    (
        "a-tool-of-the-provider",
        [
            *(head(), *text(0, "a"), *inputs(1, "server_tool_use", "", '{"q":', "1}", **SEARCH)),
            *(start(2, "web_search_tool_result", **RESULT), stop(2), *text(3, "b"), last()),
        ],
        ended(
            said("a"),
            [ProviderTool(1, "web_search", input={"q": 1})],
            [ProviderTool(1, "web_search", output=FOUND)],
            said("b", block=2),
        ),
    ),
    (
        "tools-of-the-provider-out-of-order",
        [
            *(head(), start(0, "server_tool_use", id="a", name="bash_code_execution")),
            start(1, "mcp_tool_use", id="b", name="m", server_name="x", input={"y": 2}),
            *(delta(0, "input_json_delta", partial_json="{oops"), stop(1), stop(0)),
            start(2, "mcp_tool_result", tool_use_id="b", content="no", is_error=True),
            start(3, "bash_code_execution_tool_result", tool_use_id="a", content={"stdout": "1"}),
            start(4, "web_fetch_tool_result", tool_use_id="gone", content="p"),
            last(),
        ],
        ended(
            [ProviderTool(0, "m", input={"y": 2})],
            [ProviderTool(1, "bash_code_execution", input="{oops")],
            [ProviderTool(0, "m", output={"is_error": True, "content": "no"})],
            [ProviderTool(1, "bash_code_execution", output={"stdout": "1"})],
            [ProviderTool(2, "web_fetch", output="p")],
        ),
    ),
    (
        "citations-of-all-kinds",
        [
            *(head(), start(0, "text"), delta(0, "text_delta", text="a")),
            *cited(
                0,
                {"type": "web_search_result_location", "url": "https://a", "title": "A"},
                {"type": "search_result_location", "source": "https://b", "title": "B"},
                {"type": "search_result_location", "source": "row 7", "cited_text": "c"},
                IN_TEXT,
                without_title(type="page_location", file_id="file_1", start_page_number=1),
                without_title(type="content_block_location", start_block_index=0),
                without_title(document_index=None),
            ),
            *(stop(0), last()),
        ],
        ended(
            [TextStart(0), TextDelta(0, "a"), Source(url="https://a", title="A", block=0)],
            [Source(url="https://b", title="B", block=0)],
            [Source(document="row 7", cited_text="c", block=0)],
            [Source(document="D", cited_text="c", block=0)],
            [Source(document="file_1", cited_text="c", block=0)],
            [Source(document="2", cited_text="c", block=0), TextEnd(0)],
        ),
    ),
    (
        "citations-wait-for-their-text",
        [
            *(head(), start(0, "text", citations=[IN_TEXT]), *cited(0, without_title())),
            *(delta(0, "text_delta", text="a"), stop(0)),
            *(start(1, "text"), *cited(1, IN_TEXT), delta(1, "text_delta", text="b"), stop(1)),
            *(start(2, "text"), *cited(2, without_title(document_title="E")), stop(2), last()),
        ],
        ended(
            [TextStart(0), TextDelta(0, "a"), Source(document="D", cited_text="c", block=0)],
            [Source(document="2", cited_text="c", block=0), TextEnd(0)],
            [TextStart(1), TextDelta(1, "b"), Source(document="D", cited_text="c", block=1)],
            [TextEnd(1), Source(document="E", cited_text="c")],
        ),
    ),
    (
        "blocks-that-have-no-place",
        [
            *(head(), start(0, "hologram"), stop(0)),
            *(start(1, "container_upload", file_id="f"), stop(1)),
            *(start(2, "container_upload", file_id="g"), stop(2), *text(3, "b"), last()),
        ],
        ended([dropped("hologram"), dropped("container_upload")], said("b")),
    ),
    (
        "a-compaction",
        [
            *(head(), start(0, "compaction", content=None, signature="S")),
            delta(0, "compaction_delta", content="a", encrypted_content="\ud83d"),
            *(stop(0), *text(1, "b"), last("compaction")),
        ],
        ended(
            [
                Opaque(
                    "anthropic.compaction",
                    '{"type":"compaction","content":"a","signature":"S","encrypted_content":"�"}',
                )
            ],
            said("b"),
            reason="pause",
            raw="compaction",
        ),
    ),
    (
        "another-model-goes-on",
        [
            *(head(), start(0, "fallback", to={"model": "n"}), stop(0), *text(1, "a")),
            *(start(2, "fallback"), stop(2), last()),
        ],
        ended(
            [Notice("fallback", "upstream 'u' went on with another model: n")],
            said("a"),
            [Notice("fallback", "upstream 'u' went on with another model: unknown")],
        ),
    ),
    (
        "a-start-that-has-all",
        [
            head(
                content=[{"type": "tool_use", "id": "i", "name": "f", "input": {"x": 1}}],
                stop_reason="pause_turn",
            )
        ],
        ended(called("f", '{"x": 1}', id="i"), reason="pause", raw="pause_turn"),
    ),
    (
        "a-stop-sequence",
        [head(), *text(0, "a"), last("stop_sequence", stop_sequence="###")],
        [
            *(*said("a"), ChoiceEnd("stop", "stop_sequence", "###")),
            StreamEnd("completed", "stop"),
        ],
    ),
    (
        "a-refusal-with-details",
        [
            head(),
            last("refusal", stop_details={"category": "bio", "explanation": "It is dangerous."}),
        ],
        ended(
            [Notice("refusal", "upstream 'u' refused: bio: It is dangerous.")],
            reason="refusal",
            raw="refusal",
        ),
    ),
    (
        "more-ends-than-one",
        [head(), last(None), *text(0, "a"), last("pause_turn"), last(None), last("end_turn")],
        ended(said("a"), reason="pause", raw="pause_turn"),
    ),
    (
        "no-reason",
        [head(), *text(0, "a")],
        [*said("a"), ChoiceEnd("unknown"), StreamEnd("completed", "unknown")],
    ),
    (
        "an-unknown-reason",
        [head(), *text(0, "a"), last("bored")],
        ended(said("a"), reason="unknown", raw="bored"),
    ),
    ("the-same-head-again", [head(), head(), *text(0, "a"), last()], ended(said("a"))),
    ("no-head", [*text(0, "a"), last()], ended(said("a"))),
    (
        "an-emoji-cut-in-two",
        [head(), *text(0, "a\ud83d", "\ude00\ud83d"), last()],
        ended(said("a", "😀", "�")),
    ),
    (
        "half-an-emoji-elsewhere",
        [
            *(head(), start(0, "redacted_thinking", data="\ud83d"), stop(0)),
            *(*inputs(1, "server_tool_use", '"\\ud83d"', id="a", name="\ud83d"), last("x\ud83d")),
        ],
        [
            *(Opaque("anthropic.redacted_thinking", "�"), ProviderTool(0, "�", input="�")),
            *(ChoiceEnd("unknown", "x�"), StreamEnd("completed", "unknown")),
        ],
    ),
]


@pytest.mark.parametrize(
    ("payloads", "expected"), [c[1:] for c in COMPLETE], ids=[c[0] for c in COMPLETE]
)
def test_what_a_stream_means(payloads: list[Any], expected: list[Event]) -> None:
    found = play([sse(*payloads, STOP)])

    check(found)
    assert found == expected


USAGES: list[tuple[str, list[Any], TokenCounts | None]] = [
    ("none", [None, None], None),
    # Of the output it says a placeholder.
    ("the-head-alone", [{"input_tokens": 3, "output_tokens": 1}, None], TokenCounts(3)),
    (
        "the-last-overrides",
        [{"input_tokens": 3, "output_tokens": 1}, {"input_tokens": 5, "output_tokens": 7}],
        TokenCounts(5, 7, 12),
    ),
    (
        "what-is-absent-stays",
        [
            {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1},
            {"input_tokens": None, "output_tokens": 2},
        ],
        TokenCounts(7, 2, 9, 4),
    ),
    (
        "the-cache-is-a-part-of-the-input",
        [
            {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5},
            {"output_tokens": 2, "output_tokens_details": {"thinking_tokens": 1}},
        ],
        TokenCounts(12, 2, 14, 4, 5, 1),
    ),
    ("no-input", [None, {"output_tokens": 2}], TokenCounts(output_tokens=2)),
    ("odd", [5, {"input_tokens": "x", "output_tokens_details": 5}], None),
]


@pytest.mark.parametrize(
    ("usages", "expected"), [c[1:] for c in USAGES], ids=[c[0] for c in USAGES]
)
def test_usage_is_that_of_the_whole_message(
    usages: list[Any], expected: TokenCounts | None
) -> None:
    found = play([sse(head(usage=usages[0]), *text(0, "a"), last(usage=usages[1]), STOP)])

    check(found)
    assert end_of(found).usage == expected
    assert [event for event in found if isinstance(event, Usage)] == (
        [Usage(*(getattr(expected, name) for name in TokenCounts.__struct_fields__))]
        if expected
        else []
    )


def outcome(found: list[Event]) -> Any:
    check(found)
    end = end_of(found)
    return (end.status, end.error.code) if end.error else (end.status, end.finish_reason)


def failed(code: str) -> Any:
    return ("failed", code)


WHOLE = {
    "type": "message",
    "id": "msg_1",
    "model": "m",
    "content": [
        {"type": "thinking", "thinking": "t", "signature": "S"},
        {"type": "text", "text": "a", "citations": None},
        {"type": "tool_use", "id": "i", "name": "f", "input": {"x": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
BEGUN = [head(), *text(0, "a")]
DONE = [*BEGUN, last()]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
TRUNCATED = failed("upstream_truncated")
INVALID = failed("upstream_invalid_response")
ENDS: list[tuple[str, bytes, Any]] = [
    ("stop", sse(*DONE, STOP), ("completed", "stop")),
    ("stop-twice", sse(*DONE, STOP, STOP), ("completed", "stop")),
    ("stop-without-blank-line", sse(*DONE, STOP)[:-2], ("completed", "stop")),
    ("stop-and-an-error", sse(*DONE, STOP, OVERLOADED), ("completed", "stop")),
    (
        "stop-without-a-name",
        sse(*DONE) + b'data: {"type":"message_stop"}\n\n',
        ("completed", "stop"),
    ),
    ("a-name-for-a-type", sse(*DONE) + b"event: message_stop\ndata: {}\n\n", ("completed", "stop")),
    ("no-stop", sse(*DONE), TRUNCATED),
    ("half-a-stop", sse(*DONE, STOP)[:-6], TRUNCATED),
    ("done-for-a-stop", sse(*DONE) + b"data: [DONE]\n\n", TRUNCATED),
    ("stop-and-done", sse(*DONE, STOP) + b"data: [DONE]\n\n", ("completed", "stop")),
    ("no-reason", sse(*BEGUN), TRUNCATED),
    ("nothing", b"", TRUNCATED),
    ("only-pings", sse(PING, PING), TRUNCATED),
    ("only-a-head", sse(head()), TRUNCATED),
    ("only-a-head-unterminated", sse(head())[:-2], TRUNCATED),
    ("a-head-and-a-stop", sse(head(), STOP), failed("upstream_unavailable")),
    ("only-a-stop", sse(STOP), failed("upstream_unavailable")),
    ("an-error-first", sse(OVERLOADED), failed("upstream_overloaded")),
    ("an-error-after-text", sse(*BEGUN, OVERLOADED, STOP), failed("upstream_overloaded")),
    ("an-error-after-the-reason", sse(*DONE, OVERLOADED, STOP), failed("upstream_overloaded")),
    ("an-error-unterminated", sse(OVERLOADED)[:-2], failed("upstream_overloaded")),
    ("an-error-in-words", b"event: error\ndata: oh\n\n", failed("upstream_unavailable")),
    (
        "an-error-without-type",
        b'data: {"error":{"type":"rate_limit_error"}}\n\n',
        failed("upstream_rate_limited"),
    ),
    (
        "an-error-without-data",
        sse(*BEGUN) + b'{"type":"error","error":{"type":"timeout_error"}}\n',
        failed("upstream_timeout"),
    ),
    ("another-head", sse(*BEGUN, head("msg_2"), *DONE, STOP), INVALID),
    ("garbage", sse(*BEGUN) + b"data: bye\n\n" + sse(STOP), INVALID),
    ("garbage-with-a-name", b"event: message_stop\ndata: 5\n\n", INVALID),
    (
        "garbage-in-a-ping",
        sse(*DONE) + b"event: ping\ndata: x\n\n" + sse(STOP),
        ("completed", "stop"),
    ),
    ("an-unknown-event", sse(*DONE) + b"event: x\ndata: y\n\n" + sse(STOP), ("completed", "stop")),
    ("an-empty-event", sse(*DONE) + b"event: x\ndata:\n\n" + sse(STOP), ("completed", "stop")),
    ("a-message-for-a-body", json.dumps(WHOLE).encode(), ("completed", "tool_calls")),
    ("half-a-message-for-a-body", json.dumps(WHOLE).encode()[:-9], TRUNCATED),
    ("a-message-in-a-stream", sse(*BEGUN, WHOLE), TRUNCATED),
    ("an-error-for-a-body", json.dumps(OVERLOADED).encode(), failed("upstream_overloaded")),
    ("errors-for-a-body", json.dumps([OVERLOADED]).encode(), failed("upstream_overloaded")),
    ("words-for-a-body", b'{"detail":"Invalid API Key"}', failed("upstream_auth")),
    ("an-object-for-a-body", b'{"ok":true}', INVALID),
    ("html-for-a-body", b"<html></html>\n", TRUNCATED),
    ("a-number-for-a-body", b"data: 5", TRUNCATED),
]


@pytest.mark.parametrize(("body", "expected"), [c[1:] for c in ENDS], ids=[c[0] for c in ENDS])
def test_how_a_stream_ends(body: bytes, expected: Any) -> None:
    assert outcome(play([body])) == expected


def test_the_model_is_the_one_that_went_on() -> None:
    parser = Parser(upstream="u")
    for payload in (head(), start(0, "fallback", to={"model": "n"})):
        parser.feed(Message(payload["type"], json.dumps(payload)))

    assert parser.model == "n"


def test_a_whole_message_is_an_answer() -> None:
    found = play([json.dumps(WHOLE).encode()])

    assert found == [
        *(ReasoningStart(0), ReasoningDelta(0, "t")),
        *(ReasoningEnd(0, signature="S", format="anthropic"), *said("a", block=1)),
        *called("f", '{"x": 1}', block=2, id="i"),
        *(ChoiceEnd("tool_calls", "tool_use"), Usage(3, 1, 4)),
        StreamEnd("completed", "tool_calls", TokenCounts(3, 1, 4)),
    ]


def test_a_cut_before_the_stop_is_a_failure_with_its_reason() -> None:
    assert outcome(play([sse(*DONE)], cut=CUT)) == failed("upstream_timeout")
    assert outcome(play([], cut=CUT)) == failed("upstream_timeout")


def test_a_call_that_is_cut_does_not_look_like_one_without_arguments() -> None:
    found = play([sse(head(), start(0, "tool_use", id="i", name="f", input={}))], cut=CUT)

    assert ToolCallEnd(0, "") in found


def parser_after(*payloads: Any) -> Parser:
    parser = Parser(upstream="u")
    for payload in payloads:
        parser.feed(Message("message", json.dumps(payload)))
    return parser


def test_a_stream_is_not_finished_before_its_stop() -> None:
    parser = parser_after(*DONE)
    assert not parser.finished
    assert not parser.ended
    parser.feed(Message("message_stop", json.dumps(STOP)))
    assert parser.ended


def test_a_stream_that_is_stopped_ends_as_asked() -> None:
    parser = parser_after(head(), start(0, "text", text="a"))
    assert parser.stop("cancelled") == [TextEnd(0), StreamEnd("cancelled", "cancelled")]
    assert parser.feed(Message("message_stop", json.dumps(STOP))) == []


def test_the_names_come_from_the_head() -> None:
    assert parser_after().upstream_id is None
    parser = parser_after(head("msg_1"), *text(0, "a"))
    assert (parser.upstream_id, parser.model) == ("msg_1", "m")
    parser = parser_after({**WHOLE, "id": "", "model": 5})
    assert (parser.upstream_id, parser.model) == (None, None)


def test_an_error_says_what_the_caller_can_mend() -> None:
    error = {"type": "invalid_request_error", "message": "messages.0: no such role"}
    found = play([sse({"type": "error", "error": error})])

    assert kinds(found) == ["stream.end"]
    end = end_of(found).error
    assert end is not None
    assert end.message == "upstream 'u' refused the request: messages.0: no such role"

"""Answers in Anthropic Messages, written by hand: what they mean, and how they end."""

import json
from functools import partial
from typing import Any

import msgspec

from app.events import (
    ChoiceEnd,
    Event,
    Notice,
    Opaque,
    ProviderTool,
    Raw,
    Source,
    StreamEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tests.dialects.blocks import call as called
from tests.dialects.blocks import ended as ended_with
from tests.dialects.blocks import flat, reasoning
from tests.dialects.blocks import text as said
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed


def sse(*payloads: dict[str, Any]) -> bytes:
    """Write payloads as the API does: an event named after each one's type."""
    return b"".join(
        f"event: {payload.get('type', 'x')}\ndata: {json.dumps(payload)}  \n\n".encode()
        for payload in payloads
    )


def head(id: str = "msg_1", **more: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": id, "model": "m", "content": [], **more}}


def start(index: int, kind: str, **more: Any) -> dict[str, Any]:
    content = {"type": kind, **more}
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def last(reason: str | None = "end_turn", usage: Any = None, **more: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **more}, "usage": usage}


STOP: dict[str, Any] = {"type": "message_stop"}
PING: dict[str, Any] = {"type": "ping"}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    """A block of text."""
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [start(index, "text", text=""), *deltas, stop(index)]


def inputs(index: int, kind: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    """A block with an input that comes in pieces."""
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, kind, input={}, **more), *deltas, stop(index)]


ended = partial(ended_with, raw="end_turn")
TOOLS: dict[str, Any] = {"reason": "tool_calls", "raw": "tool_use"}


def raw(**fields: Any) -> Raw:
    """Anthropic's own words beside an event."""
    data = msgspec.json.encode(fields, order="deterministic")
    return Raw("anthropic", data.decode())


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


PLACES: list[dict[str, Any]] = [
    {"type": "web_search_result_location", "url": "https://a", "title": "A"},
    {"type": "search_result_location", "source": "https://b", "title": "B"},
    {"type": "search_result_location", "source": "row 7", "cited_text": "c"},
    IN_TEXT,
    {**IN_TEXT, "start_char_index": 4},
    without_title(type="page_location", file_id="file_1", start_page_number=1),
    without_title(type="content_block_location", start_block_index=0),
]


def cited(index: int, *citations: Any) -> list[dict[str, Any]]:
    return [delta(index, "citations_delta", citation=citation) for citation in citations]


def dropped(kind: str) -> Notice:
    return Notice("block_dropped", f"upstream 'u' sent a block {kind!r}: dropped")


def answer(*payloads: Any) -> bytes:
    return sse(*payloads, STOP)


BEGUN = sse(head(), start(0, "text", text="a"))
MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([head(), *text(0, "a", "b"), last()], ended(said("a", "b"))),
    "nothing-but-an-end": ([head(), last()], ended()),
    "texts-in-a-row-stay-apart": (
        [head(), *text(0, "a"), *text(1, "b"), last()],
        ended(said("a"), said("b", block=1)),
    ),
    "a-block-that-was-never-started": (
        [head(), delta(3, "text_delta", text="a"), stop(3), stop(4), last()],
        ended(said("a")),
    ),
    "a-start-that-is-repeated": (
        [
            *(head(), start(0, "text"), start(0, "text"), delta(0, "text_delta", text="a")),
            *(start(0, "text"), stop(0), *inputs(1, "tool_use", id="i", name="f")[:1]),
            *(*inputs(1, "tool_use", "{}", id="i", name="f"), last("tool_use")),
        ],
        ended(said("a"), called("f", "{}", block=1, id="i"), **TOOLS),
    ),
    "odd-types-are-ignored": (
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
        ended(dropped(""), said("a")),
    ),
    "thinking-and-its-signature": (
        [
            *(head(), start(0, "thinking", thinking="a", signature="")),
            *(delta(0, "thinking_delta", thinking="b"), delta(0, "signature_delta", signature="S")),
            *(stop(0), *text(1, "c"), last()),
        ],
        ended(reasoning("a", "b", signature="S", format="anthropic"), said("c", block=1)),
    ),
    "thinking-that-is-redacted": (
        [
            *(head(), *text(0, "a"), start(1, "redacted_thinking", data="R"), stop(1)),
            *(*text(2, "b"), last()),
        ],
        ended(said("a"), Opaque("anthropic.redacted_thinking", "R"), said("b", block=1)),
    ),
    "a-call-that-was-never-stopped": (
        [head(), start(0, "tool_use", id="i", name="f", input={"x": 1}), last("tool_use")],
        ended(called("f", '{"x": 1}', id="i"), **TOOLS),
    ),
    "calls-that-interleave": (
        [
            *(head(), start(0, "tool_use", id="i", name="f"), start(1, "tool_use", name="g")),
            *(delta(1, "input_json_delta", partial_json="["), stop(2)),
            *(delta(0, "input_json_delta", partial_json="{}"), stop(0)),
            *(delta(1, "input_json_delta", partial_json="]"), stop(1), last("tool_use")),
        ],
        ended(
            ToolCallStart(0, "i", "f"),
            ToolCallStart(1, "seseragi_1", "g"),
            ToolCallDelta(1, "["),
            ToolCallDelta(0, "{}"),
            ToolCallEnd(0, "{}"),
            ToolCallDelta(1, "]"),
            ToolCallEnd(1, "[]"),
            **TOOLS,
        ),
    ),
    "arguments-that-are-no-json": (
        [head(), *inputs(0, "tool_use", '{"x": ', id="i", name="f"), last("max_tokens")],
        ended(called("f", '{"x": ', id="i", incomplete=True), reason="length", raw="max_tokens"),
    ),
    "tools-of-the-provider-out-of-order": (
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
            ProviderTool(
                0,
                "m",
                input={"y": 2},
                raw=raw(type="mcp_tool_use", id="b", name="m", server_name="x"),
            ),
            ProviderTool(
                1,
                "bash_code_execution",
                input="{oops",
                raw=raw(type="server_tool_use", id="a", name="bash_code_execution"),
            ),
            ProviderTool(
                0,
                "m",
                output={"is_error": True, "content": "no"},
                raw=raw(type="mcp_tool_result", tool_use_id="b", is_error=True),
            ),
            ProviderTool(
                1,
                "bash_code_execution",
                output={"stdout": "1"},
                raw=raw(type="bash_code_execution_tool_result", tool_use_id="a"),
            ),
            ProviderTool(
                2,
                "web_fetch",
                output="p",
                raw=raw(type="web_fetch_tool_result", tool_use_id="gone"),
            ),
        ),
    ),
    "citations-of-all-kinds": (
        [
            *(head(), start(0, "text"), delta(0, "text_delta", text="a")),
            *cited(0, *PLACES, PLACES[3], without_title(document_index=None)),
            *(stop(0), last()),
        ],
        ended(
            said(
                "a",
                Source(url="https://a", title="A", block=0, raw=raw(**PLACES[0])),
                Source(url="https://b", title="B", block=0, raw=raw(**PLACES[1])),
                Source(document="row 7", cited_text="c", block=0, raw=raw(**PLACES[2])),
                Source(document="D", cited_text="c", block=0, raw=raw(**PLACES[3])),
                Source(document="D", cited_text="c", block=0, raw=raw(**PLACES[4])),
                Source(document="file_1", cited_text="c", block=0, raw=raw(**PLACES[5])),
                Source(document="2", cited_text="c", block=0, raw=raw(**PLACES[6])),
            )
        ),
    ),
    "citations-wait-for-their-text": (
        [
            *(head(), start(0, "text", citations=[IN_TEXT]), *cited(0, without_title())),
            *(delta(0, "text_delta", text="a"), stop(0)),
            *(start(1, "text"), *cited(1, IN_TEXT), delta(1, "text_delta", text="b"), stop(1)),
            *(start(2, "text"), *cited(2, without_title(document_title="E")), stop(2), last()),
        ],
        ended(
            said(
                "a",
                Source(document="D", cited_text="c", block=0, raw=raw(**IN_TEXT)),
                Source(document="2", cited_text="c", block=0, raw=raw(**without_title())),
            ),
            said(
                "b",
                Source(document="D", cited_text="c", block=1, raw=raw(**IN_TEXT)),
                block=1,
            ),
            Source(document="E", cited_text="c", raw=raw(**without_title(document_title="E"))),
        ),
    ),
    "blocks-that-have-no-place": (
        [
            *(head(), start(0, "hologram"), stop(0)),
            *(start(1, "container_upload", file_id="f"), stop(1)),
            *(start(2, "container_upload", file_id="g"), stop(2), *text(3, "b"), last()),
        ],
        ended(dropped("hologram"), dropped("container_upload"), said("b")),
    ),
    "a-compaction": (
        [
            *(head(), start(0, "compaction", content=None, signature="S")),
            delta(0, "compaction_delta", content="a", encrypted_content="\ud83d"),
            *(stop(0), *text(1, "b"), last("compaction")),
        ],
        ended(
            Opaque(
                "anthropic.compaction",
                '{"type":"compaction","content":"a","signature":"S","encrypted_content":"�"}',
            ),
            said("b"),
            reason="pause",
            raw="compaction",
        ),
    ),
    "another-model-goes-on": (
        [
            *(head(), start(0, "fallback", to={"model": "n"}), stop(0), *text(1, "a")),
            *(start(2, "fallback"), stop(2), last()),
        ],
        ended(
            Notice("fallback", "upstream 'u' continued with another model: n"),
            said("a"),
            Notice("fallback", "upstream 'u' continued with another model: unknown"),
        ),
    ),
    "a-stop-sequence": (
        [head(), *text(0, "a"), last("stop_sequence", stop_sequence="###")],
        flat(said("a"), ChoiceEnd("stop", "stop_sequence", "###"), StreamEnd("completed", "stop")),
    ),
    "a-refusal-with-details": (
        [
            head(),
            last("refusal", stop_details={"category": "bio", "explanation": "It is dangerous."}),
        ],
        ended(
            Notice("refusal", "upstream 'u' refused: bio: It is dangerous."),
            reason="refusal",
            raw="refusal",
            more=raw(stop_details={"category": "bio", "explanation": "It is dangerous."}),
        ),
    ),
    "more-ends-than-one": (
        [head(), last(None), *text(0, "a"), last("pause_turn"), last(None), last("end_turn")],
        ended(said("a"), reason="pause", raw="pause_turn"),
    ),
    "no-reason": ([head(), *text(0, "a")], ended(said("a"), reason="unknown", raw=None)),
    "the-same-head-again": ([head(), head(), *text(0, "a"), last()], ended(said("a"))),
    "no-head": ([*text(0, "a"), last()], ended(said("a"))),
    "an-emoji-cut-in-two": (
        [head(), *text(0, "a\ud83d", "\ude00\ud83d"), last()],
        ended(said("a", "😀", "�")),
    ),
}
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
SAID = [head(), *text(0, "a")]
DONE = [*SAID, last()]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
ENDS: dict[str, tuple[bytes, Any]] = {
    "stop": (sse(*DONE, STOP), FINISHED),
    "stop-twice": (sse(*DONE, STOP, STOP), FINISHED),
    "stop-without-blank-line": (sse(*DONE, STOP)[:-2], FINISHED),
    "stop-and-an-error": (sse(*DONE, STOP, OVERLOADED), FINISHED),
    "stop-without-a-name": (sse(*DONE) + b'data: {"type":"message_stop"}\n\n', FINISHED),
    "a-name-for-a-type": (sse(*DONE) + b"event: message_stop\ndata: {}\n\n", FINISHED),
    "no-stop": (sse(*DONE), TRUNCATED),
    "half-a-stop": (sse(*DONE, STOP)[:-6], TRUNCATED),
    "done-for-a-stop": (sse(*DONE) + b"data: [DONE]\n\n", TRUNCATED),
    "stop-and-done": (sse(*DONE, STOP) + b"data: [DONE]\n\n", FINISHED),
    "no-reason": (sse(*SAID), TRUNCATED),
    "nothing": (b"", TRUNCATED),
    "only-pings": (sse(PING, PING), TRUNCATED),
    "only-a-head": (sse(head()), TRUNCATED),
    "only-a-head-unterminated": (sse(head())[:-2], TRUNCATED),
    "a-head-and-a-stop": (sse(head(), STOP), UNAVAILABLE),
    "only-a-stop": (sse(STOP), UNAVAILABLE),
    "an-error-first": (sse(OVERLOADED), failed("upstream_overloaded")),
    "an-error-after-text": (sse(*SAID, OVERLOADED, STOP), failed("upstream_overloaded")),
    "an-error-after-the-reason": (sse(*DONE, OVERLOADED, STOP), failed("upstream_overloaded")),
    "an-error-unterminated": (sse(OVERLOADED)[:-2], failed("upstream_overloaded")),
    "an-error-in-words": (b"event: error\ndata: oh\n\n", UNAVAILABLE),
    "an-error-without-data": (
        sse(*SAID) + b'{"type":"error","error":{"type":"timeout_error"}}\n',
        failed("upstream_timeout"),
    ),
    "another-head": (sse(*SAID, head("msg_2"), *DONE, STOP), INVALID),
    "garbage": (sse(*SAID) + b"data: bye\n\n" + sse(STOP), INVALID),
    "garbage-with-a-name": (b"event: message_stop\ndata: 5\n\n", INVALID),
    "garbage-in-a-ping": (sse(*DONE) + b"event: ping\ndata: x\n\n" + sse(STOP), FINISHED),
    "an-unknown-event": (sse(*DONE) + b"event: x\ndata: y\n\n" + sse(STOP), FINISHED),
    "an-empty-event": (sse(*DONE) + b"event: x\ndata:\n\n" + sse(STOP), FINISHED),
    "a-message-for-a-body": (json.dumps(WHOLE).encode(), ("completed", "tool_calls")),
    "half-a-message-for-a-body": (json.dumps(WHOLE).encode()[:-9], TRUNCATED),
    "a-message-in-a-stream": (sse(*SAID, WHOLE), TRUNCATED),
    "an-error-for-a-body": (json.dumps(OVERLOADED).encode(), failed("upstream_overloaded")),
    "errors-for-a-body": (json.dumps([OVERLOADED]).encode(), failed("upstream_overloaded")),
    "words-for-a-body": (b'{"detail":"Invalid API Key"}', failed("upstream_auth")),
    "an-object-for-a-body": (b'{"ok":true}', INVALID),
    "html-for-a-body": (b"<html></html>\n", TRUNCATED),
    "a-number-for-a-body": (b"data: 5", TRUNCATED),
}

"""Answers of Cohere, written by hand: what they mean, and how they end."""

import json
from functools import partial
from typing import Any

from app.events import (
    ChoiceEnd,
    Event,
    LogProbs,
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
from tests.dialects.blocks import call, reasoning, text
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed

DONE = b"data: [DONE]\n\n"


def sse(*payloads: Any) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (payload["type"].encode(), json.dumps(payload).encode())
        for payload in payloads
    )


def event(kind: str, index: int | None = None, /, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}


def content(index: int = 0, *, kind: str = "content-delta", **piece: Any) -> dict[str, Any]:
    return event(kind, index, content=piece)


def start(index: int, id: str = "i", name: str = "f", arguments: Any = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return event(
        "tool-call-start", index, tool_calls={"id": id, "type": "function", "function": function}
    )


def more(index: int, arguments: str) -> dict[str, Any]:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": arguments}})


def end(reason: Any = "COMPLETE", **delta: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **delta}}


def cite(
    start: Any, end: Any, *, sources: Any = ({"type": "document", "id": "d"},), **fields: Any
) -> dict[str, Any]:
    citation = {"start": start, "end": end, "text": "x", "sources": [*sources], **fields}
    return event("citation-start", 0, citations=citation)


START = {"type": "message-start", "id": "m", "delta": {"message": {"role": "assistant"}}}
called = partial(call, id="i")
STOPPED: list[Event] = [ChoiceEnd("stop", "COMPLETE"), StreamEnd("completed", "stop")]
CALLED: list[Event] = [ChoiceEnd("tool_calls", "TOOL_CALL"), StreamEnd("completed", "tool_calls")]
OPEN: list[Event] = [TextStart(0), TextDelta(0, "ab")]
ITEM = {"text": "ab", "token_ids": [1, 2], "logprobs": [-0.5, -1.0]}
WHOLE = {
    "id": "m",
    "finish_reason": "COMPLETE",
    "message": {
        "role": "assistant",
        "tool_plan": "p",
        "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "ab"}],
        "citations": [{"start": 0, "end": 2, "sources": [{"id": "d"}], "content_index": 1, "type": "TEXT_CONTENT"}],
    },
    "usage": {"tokens": {"input_tokens": 1, "output_tokens": 2}},
}  # fmt: skip


def answer(*payloads: Any) -> bytes:
    return sse(*payloads) + DONE


MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([START, content(text="a"), content(text="b"), end()], [*text("a", "b"), *STOPPED]),
    "text-in-the-start": ([content(kind="content-start", type="text", text="a"), content(text="b"), end()], [*text("a", "b"), *STOPPED]),
    "two-texts": ([content(text="a"), event("content-end", 0), content(1, kind="content-start", text=""), content(1, text="b"), end()], [*text("a"), *text("b", block=1), *STOPPED]),
    "two-texts-without-end": ([content(text="a"), content(1, kind="content-start", text="b"), end()], [*text("a"), *text("b", block=1), *STOPPED]),
    "thinking": ([content(kind="content-start", type="thinking", thinking="t"), content(thinking="u"), event("content-end", 0), content(1, text="a"), end()], [*reasoning("t", "u"), *text("a", block=1), *STOPPED]),
    "plan-then-call": ([event("tool-plan-delta", tool_plan="p"), start(0), event("tool-call-end", 0), end("TOOL_CALL")], [*reasoning("p"), *called("f", block=1), *CALLED]),
    "calls": ([start(0), more(0, '{"a"'), more(0, ":1}"), event("tool-call-end", 0), start(1, "j"), more(1, "{}"), event("tool-call-end", 1), end("TOOL_CALL")], [*called("f", '{"a"', ":1}"), *called("f", "{}", block=1, id="j"), *CALLED]),
    "calls-that-interleave": ([start(0), start(1, "j"), more(0, "{}"), more(1, "[]"), end("TOOL_CALL")],
     [ToolCallStart(0, "i", "f"), ToolCallStart(1, "j", "f"), ToolCallDelta(0, "{}"), ToolCallDelta(1, "[]"), ToolCallEnd(0, "{}"), ToolCallEnd(1, "[]"), *CALLED]),
    "call-with-arguments-in-the-start": ([start(0, arguments='{"a":1}'), end("TOOL_CALL")], [*called("f", '{"a":1}'), *CALLED]),
    "call-and-complete": ([start(0), end()], [*called("f"), ChoiceEnd("tool_calls", "COMPLETE"), StreamEnd("completed", "tool_calls")]),
    "more-after-the-end-of-a-call": ([start(0), event("tool-call-end", 0), more(0, "{}"), end("TOOL_CALL")], [*called("f"), *CALLED]),
    "half-a-call-at-the-limit": ([start(0), more(0, '{"a'), end("MAX_TOKENS")], [*called("f", '{"a', incomplete=True), ChoiceEnd("length", "MAX_TOKENS"), StreamEnd("completed", "length")]),
    "stop-sequence": ([content(text="a"), end("STOP_SEQUENCE")], [*text("a"), ChoiceEnd("stop", "STOP_SEQUENCE"), StreamEnd("completed", "stop")]),
    "toxic": ([content(text="a"), end("ERROR_TOXIC")], [*text("a"), ChoiceEnd("content_filter", "ERROR_TOXIC"), StreamEnd("completed", "content_filter")]),
    "a-new-reason": ([content(text="a"), end("TIRED")], [*text("a"), ChoiceEnd("unknown", "TIRED"), StreamEnd("completed", "unknown")]),
    "no-reason": ([content(text="a"), end(None)], [*text("a"), ChoiceEnd("unknown"), StreamEnd("completed", "unknown")]),
    "nothing-said": ([START, end()], STOPPED),
    "usage": ([content(text="a"), end(usage={"tokens": {"input_tokens": 3, "output_tokens": 4.0}})], [*text("a"), STOPPED[0], Usage(3, 4, 7), StreamEnd("completed", "stop", TokenCounts(3, 4, 7))]),
    "citation": ([content(text="ab"), cite(0, 2, content_index=0, type="TEXT_CONTENT"), end()], [*OPEN, Source(document="d", start=0, end=2, block=0), TextEnd(0), *STOPPED]),
    "citation-without-index": ([content(text="ab"), cite(0, 2), end()], [*OPEN, Source(document="d", start=0, end=2, block=0), TextEnd(0), *STOPPED]),
    "citation-without-index-after-its-text": ([content(text="ab"), event("content-end", 0), cite(0, 2), end()], [*text("ab"), Source(document="d", start=0, end=2, block=0), *STOPPED]),
    "citation-without-index-of-the-only-text": ([content(kind="content-start", type="thinking", thinking="t"), content(1, text="ab"), cite(0, 2), end()], [*reasoning("t"), TextStart(1), TextDelta(1, "ab"), Source(document="d", start=0, end=2, block=1), TextEnd(1), *STOPPED]),
    "citation-without-index-of-the-first-text": ([content(text="ab"), event("content-end", 0), content(1, text="c"), cite(0, 2), end()], [*text("ab"), TextStart(1), TextDelta(1, "c"), Source(document="d", start=0, end=2, block=0), TextEnd(1), *STOPPED]),
    "citation-without-index-of-nothing": ([START, cite(0, 2), end()], [Source(document="d"), *STOPPED]),
    "citation-of-an-unknown-block": ([content(text="ab"), cite(0, 2, content_index=7), end()], [*OPEN, Source(document="d", block=0), TextEnd(0), *STOPPED]),
    "citation-of-a-plan": ([event("tool-plan-delta", tool_plan="p"), cite(0, 1, type="PLAN"), end()], [ReasoningStart(0), ReasoningDelta(0, "p"), Source(document="d"), ReasoningEnd(0), *STOPPED]),
    "citation-twice": ([content(text="ab"), cite(0, 2), cite(0, 2), cite(1, 2), end()], [*OPEN, Source(document="d", start=0, end=2, block=0), Source(document="d", start=1, end=2, block=0), TextEnd(0), *STOPPED]),
    "citation-of-a-document-with-url": ([content(text="ab"), cite("0", -1, sources=[{"document": {"id": "e", "url": "https://a", "title": "A"}}]), end()], [*OPEN, Source(url="https://a", document="e", title="A", block=0), TextEnd(0), *STOPPED]),
    "citation-of-nothing": ([content(text="ab"), cite(0, 2, sources=[{}, 5, {"document": {"text": "t"}}]), end()], [*OPEN, TextEnd(0), *STOPPED]),
    "logprobs": ([{**content(text="ab"), "logprobs": ITEM}, end()], [*OPEN, LogProbs(0, [ITEM]), TextEnd(0), *STOPPED]),
    "after-the-end": ([content(text="a"), end(), content(text="b"), end("ERROR", error="x")], [*text("a"), *STOPPED]),
    "half-an-emoji": ([content(text="\ud83d"), content(text="\ude00"), end()], [*text("😀"), *STOPPED]),
}  # fmt: skip
TEXT = content(text="a")
BEGUN = sse(TEXT)
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-done": (sse(TEXT, end()), FINISHED),
    "no-blank-line": (sse(TEXT, end())[:-2], FINISHED),
    "crlf": (sse(TEXT, end()).replace(b"\n", b"\r\n"), FINISHED),
    "no-end": (sse(TEXT), TRUNCATED),
    "done-without-end": (sse(TEXT) + DONE, TRUNCATED),
    "half-an-end": (sse(TEXT, end())[:-4], TRUNCATED),
    "an-end-of-content": (sse(TEXT, event("content-end", 0)), TRUNCATED),
    "nothing": (b"", TRUNCATED),
    "only-a-start": (sse(START), TRUNCATED),
    "only-an-end": (sse(end(None)), UNAVAILABLE),
    "error": (sse(TEXT, end("ERROR")) + DONE, UNAVAILABLE),
    "error-with-text": (sse(end("ERROR", error="oh")), UNAVAILABLE),
    "error-limit": (sse(TEXT, end("ERROR_LIMIT")), UNAVAILABLE),
    "error-beside-complete": (sse(TEXT, end(error="oh")), UNAVAILABLE),
    "timeout": (sse(TEXT, end("TIMEOUT")), failed("upstream_timeout")),
    "broken-call": (sse(end("ERROR", error_type="INVALID_TOOL_GENERATION")), failed("upstream_tool_failed")),
    "too-long": (sse(end("ERROR", error="x", error_type="TOO_MANY_TOKENS")), failed("context_length_exceeded")),
    "error-in-a-body": (b'{"id":"1","message":"invalid api token","code":401}', failed("upstream_auth")),
    "error-in-an-event": (b'event: error\ndata: {"message":"x"}\n\n', UNAVAILABLE),
    "error-in-words": (b"event: error\ndata: x\n\n", UNAVAILABLE),
    "error-without-type": (sse(TEXT) + b'data: {"error":{"code":429}}\n\n', failed("upstream_rate_limited")),
    "detail-in-a-body": (b'{"detail":"too many tokens"}', failed("context_length_exceeded")),
    "whole": (json.dumps(WHOLE).encode(), INVALID),
    "whole-and-cut": (json.dumps(WHOLE).encode()[:-1], TRUNCATED),
    "an-object": (b'data: {"ok":true}\n\n', TRUNCATED),
    "garbage": (sse(TEXT) + b"data: oops\n\n" + sse(end()), INVALID),
    "garbage-in-an-event": (sse(TEXT) + b"event: x\ndata: oops\n\n" + sse(end()), FINISHED),
    "empty-data": (sse(TEXT) + b"data:\n\n" + sse(end()), FINISHED),
}  # fmt: skip

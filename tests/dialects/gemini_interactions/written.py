"""Answers of Google's Interactions API, written by hand: what they mean, and how they end."""

import json
from functools import partial
from typing import Any

from app.events import (
    ChoiceEnd,
    Event,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    Source,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    Usage,
)
from tests.dialects.blocks import call, ended, reasoning, text
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed

THOUGHT = "gemini_interactions.thought"
STEP = "gemini_interactions.step"
DONE = b"event: done\ndata: [DONE]\n\n"
Json = dict[str, Any]


def sse(*events: Json) -> bytes:
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["event_type"].encode(), json.dumps(event).encode())
        for event in events
    )


def event(kind: str, /, **fields: Any) -> Json:
    return {**fields, "event_type": kind}


def start(index: Any, kind: str, **step: Any) -> Json:
    return event("step.start", index=index, step={"type": kind, **step})


def delta(index: Any, kind: str | None, **more: Any) -> Json:
    return event("step.delta", index=index, delta={"type": kind, **more})


def stop(index: Any, **fields: Any) -> Json:
    return event("step.stop", index=index, **fields)


def said(*pieces: str, index: int = 0) -> list[Json]:
    """A step with a text."""
    deltas = [delta(index, "text", text=piece) for piece in pieces]
    return [start(index, "model_output"), *deltas, stop(index)]


def thought(signature: str, *summary: str, index: int = 0) -> list[Json]:
    texts = [delta(index, "thought_summary", content={"type": "text", "text": t}) for t in summary]
    signed = delta(index, "thought_signature", signature=signature)
    return [start(index, "thought"), *texts, signed, stop(index)]


def asked(index: int, *pieces: str, id: str = "i", name: str = "f", **more: Any) -> list[Json]:
    """A step with a call of a function."""
    begin = start(index, "function_call", id=id, name=name, **{"arguments": {}, **more})
    deltas = [delta(index, "arguments_delta", arguments=piece) for piece in pieces]
    return [begin, *deltas, stop(index)]


def ran(index: int, kind: str, start_with: Json, *deltas: Json) -> list[Json]:
    """A step of a tool that Google runs."""
    begin = start(index, kind, **start_with)
    return [begin, *(delta(index, kind, **more) for more in deltas), stop(index)]


def end(status: Any = "completed", **interaction: Any) -> Json:
    return event("interaction.completed", interaction={"id": "", "status": status, **interaction})


def step(kind: str, block: int | None, **fields: Any) -> Opaque:
    whole = json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)
    return Opaque(STEP, whole, block)


def cite(index: int, *annotations: Json) -> Json:
    return delta(index, "text_annotation_delta", annotations=[*annotations])


def page(first: Any = None, last: Any = None, **more: Any) -> Json:
    span = {"start_index": first, "end_index": last}
    return {"type": "url_citation", "url": "https://a", **span, **more}


START = event("interaction.created", interaction={"id": "v1_a", "status": "in_progress"})
called = partial(call, id="i")
over = partial(ended, raw="completed")
waits = partial(ended, reason="tool_calls", raw="requires_action")
USED = {"total_input_tokens": 3, "total_output_tokens": 4, "total_thought_tokens": 5}
SEARCH = ran(0, "google_search_call", {"id": "s"}, {"arguments": {"queries": ["q"]}})
SEARCHED: list[Event] = [
    ProviderTool(0, "google_search", input={"queries": ["q"]}),
    step("google_search_call", 0, id="s", arguments={"queries": ["q"]}),
]


def answer(*events: Any) -> bytes:
    """A body of events, or of lists of them."""
    return sse(*(e for some in events for e in (some if isinstance(some, list) else [some]))) + DONE


def cited(expected: list[Event], *annotations: Json, said: str = "é b") -> tuple[list[Any], Any]:
    sent = [start(0, "model_output"), delta(0, "text", text=said), cite(0, *annotations), stop(0)]
    return [*sent, end()], over([TextStart(0), TextDelta(0, said), *expected, TextEnd(0)])


MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([START, said("a", "b"), end()], over(text("a", "b"))),
    "nothing-said": ([START, end()], over()),
    "two-texts": ([said("a"), said("b", index=1), end()], over(text("a"), text("b", block=1))),
    "text-at-the-start": ([start(0, "model_output", content=[{"type": "text", "text": "a"}]), delta(0, "text", text="b"), end()], over(text("a", "b"))),
    "text-without-a-type": ([start(0, "model_output"), delta(0, None, text="a"), end()], over(text("a"))),
    "text-without-a-start": ([delta(7, "text", text="a"), end()], over(text("a"))),
    "no-indices": ([start(None, "model_output"), delta(None, "text", text="a"), start(None, "model_output"), delta(None, "text", text="b"), end()], over(text("a"), text("b", block=1))),
    "interleaved": ([start(0, "model_output"), start(1, "model_output"), delta(0, "text", text="é"), delta(1, "text", text="b"), delta(0, "text", text="c"), cite(0, page(0, 2)), cite(1, page(0, 1)), end()], over(text("é"), text("b", block=1), [TextStart(2), TextDelta(2, "c"), Source("https://a", block=2), Source("https://a", start=0, end=1, block=1), TextEnd(2)])),
    "half-an-emoji": ([said("\ud83d", "\ude00"), end()], over(text("😀"))),
    "not-the-model's": ([start(0, "user_input", content=[{"type": "text", "text": "a"}]), delta(0, "text", text="b"), stop(0), said("c", index=1), end()], over(text("c"))),
    "unknown": ([event("interaction.x"), start(0, "x"), delta(0, "text", text="a"), delta(0, "x"), stop(0), said("c", index=1), delta(1, "x", x=1), stop(9), end()], over(text("c"))),
    "thought": ([thought("s", "t", "u"), said("a", index=1), end()], over(reasoning("t", "u", signature="s", format=THOUGHT), text("a", block=1))),
    "thought-at-the-start": ([start(0, "thought", summary=[{"type": "text", "text": "t"}], signature="s"), stop(0), end()], over(reasoning("t", signature="s", format=THOUGHT))),
    "thought-without-summary": ([thought("s"), said("a", index=1), end()], over(Opaque(THOUGHT, "s"), text("a"))),
    "thought-without-signature": ([thought("", "t"), said("a", index=1), end()], over(reasoning("t"), text("a", block=1))),
    "two-thoughts": ([thought("s"), thought("t", index=1), end()], over(Opaque(THOUGHT, "s"), Opaque(THOUGHT, "t"))),
    "two-signatures": ([start(0, "thought"), delta(0, "thought_signature", signature="s"), delta(0, "thought_signature", signature="t"), end()], over(Opaque(THOUGHT, "s"), Opaque(THOUGHT, "t"))),
    "thought-of-an-image": ([start(0, "thought"), delta(0, "thought_summary", content={"type": "image", "data": "AA=="}), end()], over(Notice("thought_media", "the draft of an image was dropped"))),
    "call": ([asked(0, '{"a"', ":1}"), end("requires_action")], waits(called("f", '{"a"', ":1}"))),
    "call-after-a-thought": ([thought("s"), asked(1, "{}"), asked(2, "{}", id="j"), end("requires_action")], waits([*called("f")[:1], Opaque(THOUGHT, "s", 0), *called("f", "{}")[1:]], call("f", "{}", block=1, id="j"))),
    "call-with-a-signature": ([asked(0, "{}", signature="s"), end("requires_action")], waits([*called("f")[:1], Opaque(THOUGHT, "s", 0), *called("f", "{}")[1:]])),
    "call-with-a-signature-in-a-delta": ([asked(0, "{}")[:2], delta(0, "thought_signature", signature="s"), stop(0), asked(1, id="j"), end("requires_action")], waits([*called("f", "{}")[:2], Opaque(THOUGHT, "s", 0), called("f", "{}")[2]], call("f", block=1, id="j"))),
    "call-without-arguments": ([asked(0), end("requires_action")], waits(called("f"))),
    "call-whole-at-the-start": ([asked(0, arguments={"a": 1}), end("requires_action")], waits(called("f", '{"a": 1}'))),
    "call-whole-and-in-deltas": ([asked(0, '{"a":1}', arguments={"a": 1}), end("requires_action")], waits(called("f", '{"a":1}'))),
    "call-and-completed": ([asked(0, "{}"), end()], ended(called("f", "{}"), reason="tool_calls", raw="completed")),
    "call-that-is-not-stopped": ([asked(0, arguments={"a": 1})[0], end("requires_action")], waits(called("f", '{"a": 1}'))),
    "call-without-a-name": ([delta(0, "arguments_delta", arguments="{}"), said("a", index=1), end()], over(text("a"), Notice("tool_call_dropped", "the upstream sent a tool call without a name"))),
    "search": ([SEARCH, ran(1, "google_search_result", {"call_id": "s", "signature": ""}, {"result": [{"search_suggestions": "<b>"}], "signature": "x"}), end()], over(SEARCHED, ProviderTool(0, "google_search", output=[{"search_suggestions": "<b>"}]), step("google_search_result", 0, call_id="s", result=[{"search_suggestions": "<b>"}], signature="x"))),
    "search-that-says-nothing": ([SEARCH, ran(1, "google_search_result", {"call_id": "s"}, {"is_error": False}), end()], over(SEARCHED, step("google_search_result", 0, call_id="s", is_error=False))),
    "search-that-failed": ([ran(0, "google_search_result", {"call_id": "s"}, {"result": [{}], "is_error": True}), end()], over(ProviderTool(0, "google_search", output={"is_error": True, "result": [{}]}), step("google_search_result", 0, call_id="s", result=[{}], is_error=True))),
    "tool-without-deltas": ([ran(0, "file_search_call", {"id": "s", "signature": "x"}), end()], over(ProviderTool(0, "file_search"), step("file_search_call", 0, id="s", signature="x"))),
    "tool-whole-at-the-start": ([ran(0, "code_execution_call", {"id": "s", "arguments": {"code": "1"}}), ran(1, "code_execution_result", {"call_id": "s", "result": "1"}), end()], over(ProviderTool(0, "code_execution", input={"code": "1"}), step("code_execution_call", 0, id="s", arguments={"code": "1"}), ProviderTool(0, "code_execution", output="1"), step("code_execution_result", 0, call_id="s", result="1"))),
    "tool-without-a-start": ([delta(0, "url_context_call", arguments={"urls": []}, id="s"), end()], over(ProviderTool(0, "url_context", input={"urls": []}), step("url_context_call", 0, arguments={"urls": []}, id="s"))),
    "tool-of-a-server": ([ran(0, "mcp_server_tool_call", {"id": "s", "name": "t", "server_name": "m", "arguments": {"a": 1}}), end()], over(ProviderTool(0, "t", input={"a": 1}), step("mcp_server_tool_call", 0, id="s", name="t", server_name="m", arguments={"a": 1}))),
    "another-tool's-delta": ([start(0, "url_context_call", id="s"), delta(0, "google_search_call", arguments={"queries": ["q"]}), end()], over(ProviderTool(0, "url_context"), step("url_context_call", 0, id="s"))),
    "pages-read": ([ran(0, "url_context_result", {}, {"result": [{"url": "https://a", "status": "success"}, {"url": "https://b", "status": "error"}]}), end()], over(ProviderTool(0, "url_context", output=[{"url": "https://a", "status": "success"}, {"url": "https://b", "status": "error"}]), Source("https://a"), step("url_context_result", 0, result=[{"url": "https://a", "status": "success"}, {"url": "https://b", "status": "error"}]))),
    "places": ([ran(0, "google_maps_result", {}, {"result": [{"places": [{"name": "A", "url": "https://a"}]}]}), end()], over(ProviderTool(0, "google_maps", output=[{"places": [{"name": "A", "url": "https://a"}]}]), Source("https://a", title="A"), step("google_maps_result", 0, result=[{"places": [{"name": "A", "url": "https://a"}]}]))),
    "citation": cited([Source("https://a", title="A", start=0, end=1, block=0), Source("https://a", start=2, end=3, block=0)], page(None, 2, title="A"), page(3, 4)),
    "citation-within-a-character": cited([Source("https://a", block=0)], page(1, 2)),
    "citation-beyond-the-text": cited([Source("https://a", block=0)], page(0, 99)),
    "citation-without-a-place": cited([Source("https://a", block=0)], page()),
    "citation-of-nothing": cited([], {"type": "url_citation"}, {"type": "word_info", "text": "b", "end_index": 1}),
    "citation-of-a-place": cited([Source("https://a", title="A", block=0)], {"type": "place_citation", "url": "https://a", "name": "A"}),
    "citation-of-a-file": cited([Source(document="f.pdf", title="f.pdf", block=0)], {"type": "file_citation", "file_name": "f.pdf", "document_uri": "stores/1"}),
    "citation-of-a-file-by-id": cited([Source(document="stores/1", block=0)], {"type": "file_citation", "document_uri": "stores/1"}),
    "citation-of-a-file-by-url": cited([Source("https://a", document="f.pdf", title="f.pdf", block=0)], {"type": "file_citation", "file_name": "f.pdf", "document_uri": "https://a"}),
    "citation-of-a-text": ([start(0, "model_output", content=[{"type": "text", "text": "ab", "annotations": [page(0, 1)]}]), end()], over([TextStart(0), TextDelta(0, "ab"), Source("https://a", start=0, end=1, block=0), TextEnd(0)])),
    "image": ([start(0, "model_output"), delta(0, "text", text="a"), delta(0, "image", data="AA==", mime_type="image/png"), delta(0, "text", text="b"), cite(0, page(0, 1)), end()], over(text("a"), Media(1, "image/png", data="AA=="), [TextStart(2), TextDelta(2, "b"), Source("https://a", block=2), TextEnd(2)])),
    "stored-video": ([start(0, "model_output"), delta(0, "video", uri="https://v", mime_type="video/mp4"), end()], over(Media(0, "video/mp4", url="https://v"))),
    "media-of-no-type": ([start(0, "model_output"), delta(0, "document", data="AA=="), delta(0, "image"), end()], over(Media(0, "application/octet-stream", data="AA=="))),
    "sound": ([start(0, "model_output"), delta(0, "audio", data="AA==", mime_type="audio/l16", sample_rate=24000), delta(0, "audio", data="AQ==", rate=24000), end()], over(Media(0, "audio/l16;rate=24000", data="AA=="), Media(0, "audio/l16;rate=24000", data="AQ=="))),
    "step-that-failed": ([start(0, "model_output", error={"code": 3, "message": "m"}), end("incomplete")], ended(Notice("finish_message", "m"), reason="length", raw="incomplete")),
    "all-at-the-end": ([START, end(steps=[{"type": "user_input", "content": [{"type": "text", "text": "a"}]}, {"type": "model_output", "content": [{"type": "text", "text": "b"}]}])], over(text("b"))),
    "again-at-the-end": ([said("b"), end(steps=[{"type": "model_output", "content": [{"type": "text", "text": "b"}]}])], over(text("b"))),
    "too-long": ([said("a"), end("incomplete")], ended(text("a"), reason="length", raw="incomplete")),
    "out-of-budget": ([said("a"), end("budget_exceeded")], ended(text("a"), reason="length", raw="budget_exceeded")),
    "may-be-continued": ([said("a"), end("requires_continuation")], ended(text("a"), reason="pause", raw="requires_continuation")),
    "a-new-status": ([said("a"), end("tired")], ended(text("a"), reason="unknown", raw="tired")),
    "no-status": ([said("a"), event("interaction.completed")], ended(text("a"), reason="unknown", raw=None)),
    "usage": ([said("a"), end(usage=USED, service_tier="flex")], [*text("a"), ChoiceEnd("stop", "completed"), Usage(3, 9, reasoning_tokens=5, service_tier="flex"), StreamEnd("completed", "stop", TokenCounts(3, 9, reasoning_tokens=5, service_tier="flex"))]),
    "usage-so-far": ([said("a")[:-1], stop(0, usage=USED), end()], [*text("a"), ChoiceEnd("stop", "completed"), Usage(3, 9, reasoning_tokens=5), StreamEnd("completed", "stop", TokenCounts(3, 9, reasoning_tokens=5))]),
    "after-the-end": ([said("a"), end(), said("b"), event("error")], over(text("a"))),
}  # fmt: skip
TEXT = said("a")
BEGUN = sse(*TEXT[:2])
OVER = json.dumps({"object": "interaction", "status": "completed", "steps": []}).encode()
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-done": (sse(*TEXT, end()), FINISHED),
    "no-blank-line": (sse(*TEXT, end())[:-2], FINISHED),
    "crlf": (answer(TEXT, end()).replace(b"\n", b"\r\n"), FINISHED),
    "no-names-of-events": (b"".join(line + b"\n" for line in answer(TEXT, end()).split(b"\n") if not line.startswith(b"event")), FINISHED),
    "no-end": (sse(*TEXT), TRUNCATED),
    "done-without-end": (answer(TEXT), TRUNCATED),
    "half-an-end": (sse(*TEXT, end())[:-4], TRUNCATED),
    "a-status-is-no-end": (answer(TEXT, event("interaction.status_update", status="completed")), TRUNCATED),
    "nothing": (b"", TRUNCATED),
    "only-a-start": (sse(START), TRUNCATED),
    "error": (sse(*TEXT, event("error", error={"code": "gateway_timeout", "message": "m"})), failed("upstream_timeout")),
    "error-and-end": (sse(*TEXT, event("error", error={"code": "rate_limit_exceeded"}), end()), failed("upstream_rate_limited")),
    "error-without-a-word": (sse(*TEXT, event("error")), UNAVAILABLE),
    "error-in-words": (b"event: error\ndata: x\n\n", UNAVAILABLE),
    "error-in-a-body": (b'{"error":{"code":"invalid_request","message":"m"}}', failed("upstream_invalid_request")),
    "error-of-google's": (b'[{"error":{"code":403,"status":"PERMISSION_DENIED"}}]', failed("upstream_forbidden")),
    "blocked": (sse(START, event("error", error={"code": "content_blocked", "message": "m"})), failed("content_filtered")),
    "failed": (answer(TEXT, end("failed")), UNAVAILABLE),
    "failed-for-a-reason": (answer(TEXT, end("failed", errors=[{"code": "quota_exceeded", "message": "m"}])), failed("upstream_rate_limited")),
    "cancelled": (answer(TEXT, end("cancelled")), ("cancelled", "cancelled")),
    "whole": (OVER, INVALID),
    "whole-and-cut": (OVER[:-1], TRUNCATED),
    "an-object": (b'data: {"ok":true}\n\n', TRUNCATED),
    "garbage": (sse(*TEXT) + b"event: step.delta\ndata: oops\n\n" + sse(end()), INVALID),
    "garbage-in-an-event": (sse(*TEXT) + b"event: x\ndata: oops\n\n" + sse(end()), FINISHED),
    "older-names": (sse(event("content.delta", index=0, delta={"type": "text", "text": "a"}), event("interaction.complete", interaction={"status": "completed"})), TRUNCATED),
}  # fmt: skip

"""Answers in Chat Completions, written by hand: what they mean, and how they end."""

import json
from typing import Any

from app.events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    LogProbs,
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
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.dialects.blocks import Part, call, ended, flat, reasoning, refusal, text
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed

DONE = b"data: [DONE]\n\n"


def sse(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def choice(delta: Any = None, finish: str | None = None, index: int = 0, **more: Any) -> Any:
    return {"index": index, "delta": delta, "finish_reason": finish, **more}


def chunk(delta: Any = None, finish: str | None = None, index: int = 0, **more: Any) -> Any:
    """A chunk with one choice; `more` stands beside it."""
    return {"choices": [choice(delta, finish, index)], **more}


STOP = chunk({}, "stop")
TEXT = chunk({"content": "a"})


def google(**said: Any) -> Any:
    """What Gemini's Chat Completions route says beside a delta or a call."""
    return {"google": said}


THOUGHT = {"extra_content": google(thought=True)}


def bare(id: str = "", name: str = "", arguments: str = "") -> Any:
    """A fragment of a call without its index."""
    function = {"name": name} if name else {"arguments": arguments}
    return {**({"id": id} if id else {}), "function": function}


COMPLETED = StreamEnd("completed", "stop")
stopped = ended


def called(*parts: Part) -> list[Event]:
    """Tool calls, and the end that they make of a stop: they end together."""
    found = flat(*parts)
    ends = [event for event in found if isinstance(event, ToolCallEnd)]
    rest = [event for event in found if not isinstance(event, ToolCallEnd)]
    return ended(*rest, *ends, reason="tool_calls", raw="stop")


def tool(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A delta with a fragment of a tool call."""
    fragment = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    return {"tool_calls": [fragment]}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
T1, T2 = {"token": "r"}, {"token": "a"}
FLAGGED = {"type": "moderation_results", "results": [{"flagged": True}]}
SAFE = {"hate": {"filtered": False, "severity": "safe"}}
HATE = {"hate": {"filtered": True, "severity": "high"}}
BROKEN = {"error": {"code": "content_filter_error", "message": "The contents are not filtered"}}
CITED = {
    "type": "url_citation",
    "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 2},
}


def answer(*chunks: Any) -> bytes:
    return sse(*chunks) + DONE


BEGUN = sse(TEXT)
MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([chunk({"content": "a"}), STOP], stopped(text("a"))),
    "no-delta": ([chunk(None), {"choices": [{"index": 0}]}, chunk({}, "stop")], stopped()),
    "odd-types-are-ignored": (
        [
            {"choices": [None, 1, "x", {"index": "0", "delta": {"content": "a"}}], "usage": 3},
            chunk({"content": 1, "reasoning": {"a": 1}, "tool_calls": {"a": 1}, "audio": []}),
            chunk({"tool_calls": [None, {}, {"function": "f"}], "refusal": 0, "images": [1, {}]}),
            chunk({"annotations": ["x", {}], "content": [1, {"type": "hologram"}, {}]}),
            {"choices": [{"index": 0, "logprobs": "x", "finish_reason": 5}], "x_groq": "y"},
            chunk({}, "stop", prompt_filter_results=1, citations=5, search_results="x"),
        ],
        stopped(text("a")),
    ),
    "the-first-finish-reason-counts": (
        [chunk({"content": "a"}, "length"), STOP, chunk({"content": "b"}, "")],
        ended(text("a", "b"), reason="length"),
    ),
    "an-unknown-finish-reason": (
        [chunk({"content": "a"}, "bored")],
        ended(text("a"), reason="unknown", raw="bored"),
    ),
    "nothing-but-a-finish-reason": ([chunk({"content": ""}, "length")], ended(reason="length")),
    "a-stop-string": (
        [{"choices": [choice({"content": "a"}, "stop", stop_reason="###")]}],
        flat(text("a"), ChoiceEnd("stop", "stop", "###"), COMPLETED),
    ),
    "reasoning-details-alone": (
        [
            chunk({"reasoning_details": [{"type": "reasoning.text", "text": "a"}]}),
            chunk({"reasoning_details": [{"type": "reasoning.summary", "summary": "b"}, None]}),
            chunk({"reasoning_details": [{"signature": "S", "format": "f"}, {"data": "E"}]}),
            chunk({"content": "c"}, "stop"),
        ],
        stopped(reasoning("a", "b", signature="S", encrypted="E", format="f"), text("c", block=1)),
    ),
    "reasoning-details-that-prove-nothing": (
        [
            chunk({"reasoning": "a", "reasoning_details": [{"text": "a", "format": "f"}]}),
            chunk({"reasoning_details": [{"text": "", "format": "g"}]}),
            chunk({"content": "b", "reasoning_details": [{"format": "h"}]}, "stop"),
        ],
        stopped(reasoning("a", format="f"), text("b", block=1)),
    ),
    "content-in-parts": (
        [
            chunk(
                {
                    "content": [
                        {"type": "thinking", "thinking": "a", "signature": "S"},
                        {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]},
                        {"type": "text", "text": "c"},
                        {"type": "reference", "reference_ids": [7, "x", 7]},
                        {"type": "reference", "reference_ids": None},
                        IMAGE,
                        {"type": "image_url", "image_url": "https://i"},
                        {"type": "refusal", "refusal": "d"},
                    ]
                },
                "stop",
            )
        ],
        stopped(
            reasoning("a", "b", signature="S"),
            text("c", Source(document="7", block=1), Source(document="x", block=1), block=1),
            Media(2, "image/png", data="AAAA"),
            Media(3, "image/*", url="https://i"),
            refusal("d", block=4),
        ),
    ),
    "log-probabilities": (
        [
            {"choices": [choice({"content": ""}, logprobs={"content": [{"token": "x"}]})]},
            {"choices": [choice({"content": "a"}, logprobs={"content": [{"token": "a"}]})]},
            {"choices": [choice({"refusal": "b"}, logprobs={"refusal": [{"token": "b"}]})]},
            {"choices": [choice(tool(0, "i", "f"), logprobs={"content": [{"token": "c"}]})]},
            {"choices": [choice({}, "length", logprobs={"content": [], "refusal": None})]},
        ],
        ended(
            text(LogProbs(0, [{"token": "x"}]), "a", LogProbs(0, [{"token": "a"}])),
            refusal("b", LogProbs(1, [{"token": "b"}]), block=1),
            call("f", LogProbs(2, [{"token": "c"}]), block=2, id="i", incomplete=True),
            reason="length",
        ),
    ),
    "moderation-after-the-finish": (
        [
            *(chunk({"content": "a"}), STOP),
            {"choices": [], "moderation": {"input": FLAGGED, "output": None}},
        ],
        flat(
            TextStart(0),
            TextDelta(0, "a"),
            ContentFilter("prompt", FLAGGED, False),
            TextEnd(0),
            ChoiceEnd("stop", "stop"),
            StreamEnd("completed", "stop"),
        ),
    ),
    "content-filters": (
        [
            {"choices": [], "prompt_filter_results": [{"content_filter_results": SAFE}, {}]},
            {"choices": [choice({"content": "a"}, content_filter_results={})]},
            {"choices": [choice({"content": "b"}, content_filter_results=SAFE)]},
            {"choices": [{"index": 0, "content_filter_results": SAFE}]},
            {"choices": [{"index": 0, "content_filter_results": BROKEN}]},
            {"choices": [choice(None, "content_filter", content_filter_results=HATE)]},
        ],
        ended(
            ContentFilter("prompt", SAFE, False),
            text(
                "a",
                "b",
                ContentFilter("completion", SAFE, False),
                ContentFilter("completion", BROKEN, False),
                ContentFilter("completion", HATE, True),
            ),
            reason="content_filter",
        ),
    ),
    "citations-of-a-text": (
        [
            chunk({"content": "ab", "annotations": [CITED]}),
            chunk({"annotations": [CITED, {"type": "url_citation", "url": "https://b"}]}),
            chunk({"annotations": [{"type": "file_citation", "filename": "f", "file_id": "i"}]}),
            chunk({}, "stop", citations=["https://a", "https://c", {"url": "https://d"}, 5]),
        ],
        stopped(
            text(
                "ab",
                Source(url="https://a", title="A", start=0, end=2, block=0),
                Source(url="https://b", block=0),
                Source(document="f", block=0),
                Source(url="https://c", block=0),
                Source(url="https://d", block=0),
            )
        ),
    ),
    "parallel-calls-that-interleave": (
        [
            chunk(tool(0, "a", "f", "")),
            chunk(tool(1, "b", "g", '{"x"')),
            chunk(tool(0, arguments='{"y"')),
            chunk(tool(1, arguments=":1}")),
            chunk(tool(0, arguments=":2}"), "tool_calls"),
        ],
        ended(
            ToolCallStart(0, "a", "f"),
            ToolCallStart(1, "b", "g"),
            ToolCallDelta(1, '{"x"'),
            ToolCallDelta(0, '{"y"'),
            ToolCallDelta(1, ":1}"),
            ToolCallDelta(0, ":2}"),
            ToolCallEnd(0, '{"y":2}'),
            ToolCallEnd(1, '{"x":1}'),
            reason="tool_calls",
        ),
    ),
    "parallel-calls-without-an-index": (
        [
            chunk({"tool_calls": [bare("a", "f"), bare("b", "g")]}),
            chunk({"tool_calls": [bare(arguments='{"x":1}'), bare(arguments='{"y"')]}),
            chunk({"tool_calls": [bare(arguments=""), bare(arguments=":2}")]}, "tool_calls"),
        ],
        ended(
            ToolCallStart(0, "a", "f"),
            ToolCallStart(1, "b", "g"),
            ToolCallDelta(0, '{"x":1}'),
            ToolCallDelta(1, '{"y"'),
            ToolCallDelta(1, ":2}"),
            ToolCallEnd(0, '{"x":1}'),
            ToolCallEnd(1, '{"y":2}'),
            reason="tool_calls",
        ),
    ),
    "a-call-without-id": ([chunk(tool(0, "", "f", "{}")), STOP], called(call("f", "{}"))),
    "a-name-that-comes-late": (
        [chunk(tool(0, "i", None, '{"a')), chunk(tool(0, None, "f", '":1}')), STOP],
        called(call("f", '{"a":1}', id="i")),
    ),
    "id-and-name-on-every-fragment": (  # Kimi through Novita
        [chunk(tool(0, "0", "f", "{")), chunk(tool(0, "0", "f", "}")), STOP],
        called(call("f", "{", "}", id="0")),
    ),
    "an-id-that-changes-without-name": (
        [chunk(tool(0, "a", "f", "{")), chunk(tool(0, "b", None, "}")), STOP],
        called(call("f", "{", "}", id="a")),
    ),
    "a-new-id-and-name-under-the-same-index": (
        [chunk(tool(0, "a", "f", "{}")), chunk(tool(0, "b", "f", "{}")), STOP],
        called(call("f", "{}", id="a"), call("f", "{}", id="b", block=1)),
    ),
    "another-name-under-the-same-index": (
        [chunk(tool(0, "", "f", "{}")), chunk(tool(0, "", "g", "{}")), STOP],
        called(call("f", "{}"), call("g", "{}", block=1)),
    ),
    "the-same-name-after-whole-arguments": (
        [chunk(tool(0, "", "f", "{}")), chunk(tool(0, "", "f", "{}")), STOP],
        called(call("f", "{}"), call("f", "{}", block=1)),
    ),
    "the-same-name-amid-arguments": (
        [chunk(tool(0, "", "f", "{")), chunk(tool(0, "", "f", "}")), chunk(tool(0, "", "f")), STOP],
        called(call("f", "{", "}")),
    ),
    "no-index-but-ids": (
        [
            chunk(tool(None, "a", "f", "{")),
            chunk(tool(None, "b", "g", "[")),
            chunk(tool(None, "a", "f", "}")),
            chunk(tool(None, "b", None, "]")),
            STOP,
        ],
        ended(
            ToolCallStart(0, "a", "f"),
            ToolCallDelta(0, "{"),
            ToolCallStart(1, "b", "g"),
            ToolCallDelta(1, "["),
            ToolCallDelta(0, "}"),
            ToolCallDelta(1, "]"),
            ToolCallEnd(0, "{}"),
            ToolCallEnd(1, "[]"),
            reason="tool_calls",
            raw="stop",
        ),
    ),
    "an-unknown-id-continues-the-latest": (
        [chunk(tool(None, "a", "f", "{")), chunk(tool(None, "b", None, "}")), STOP],
        called(call("f", "{", "}", id="a")),
    ),
    "arguments-as-an-object": (
        [chunk(tool(0, "a", "f", {"x": "\ud83d"})), STOP],
        called(call("f", '{"x": "�"}', id="a")),
    ),
    "the-old-function-call": (
        [
            chunk({"function_call": {"name": "f", "arguments": ""}}),
            chunk({"function_call": {"arguments": "{}"}}),
            chunk({}, "function_call"),
        ],
        ended(call("f", "{}"), reason="tool_calls", raw="function_call"),
    ),
    "tools-that-the-provider-ran": (
        [
            chunk({"executed_tools": [{"index": 0, "type": "search", "arguments": '{"q":1}'}]}),
            chunk({"executed_tools": [{"index": 0, "type": "search", "arguments": '{"q":1}'}]}),
            chunk({"executed_tools": [{"index": 0, "type": "search", "output": "r"}]}),
            chunk({"executed_tools": [{"arguments": "{", "index": None}, {"output": 1}]}, "stop"),
        ],
        stopped(
            ProviderTool(0, "search", input={"q": 1}),
            ProviderTool(0, "search", output="r"),
            ProviderTool(0, "tool", input="{"),
            ProviderTool(1, "tool", output=1),
        ),
    ),
    "a-custom-tool": (
        [chunk({"tool_calls": [{"id": "i", "custom": {"name": "f", "input": "x"}}]}), STOP],
        called(call("f", Opaque("openai.custom_tool_call", "i", 0), "x", id="i")),
    ),
    "a-call-without-name-is-dropped": (
        [chunk(tool(0, "a", None, "{}")), STOP],
        stopped(Notice("tool_call_dropped", "the upstream sent a tool call without a name")),
    ),
    "gemini's-signature-of-a-call": (
        [
            chunk(
                {
                    "tool_calls": [
                        {
                            "id": "i",
                            "function": {"name": "f", "arguments": "{}"},
                            "extra_content": {"google": {"thought_signature": "S"}},
                        }
                    ]
                }
            ),
            STOP,
        ],
        ended(
            call("f", "{}", Opaque("google.thought_signature", "S", 0), id="i"),
            reason="tool_calls",
            raw="stop",
        ),
    ),
    "an-emoji-cut-in-two": (
        [chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b\ud83d"}), STOP],
        stopped(text("a", "😀b", "�")),
    ),
    "an-emoji-cut-in-two-in-arguments": (
        [chunk(tool(0, "i", "f", '"\ud83d')), chunk(tool(0, arguments='\ude00"')), STOP],
        called(call("f", '"', '😀"', id="i")),
    ),
    "usage-in-the-choice": (  # Kimi
        [
            chunk({"content": "a"}),
            {"choices": [choice({}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2})]},
        ],
        flat(
            text("a"),
            ChoiceEnd("stop", "stop"),
            Usage(1, 2),
            StreamEnd("completed", "stop", TokenCounts(1, 2)),
        ),
    ),
    "thoughts-that-gemini-marks": (
        [
            chunk({"content": "<thought>a", **THOUGHT}),
            chunk({"content": "b</b>", **THOUGHT}),
            chunk({"content": ""}),
            chunk({"content": "</thought>c"}),
            chunk({"content": "</thought>"}),
            chunk({"content": None, "extra_content": google(thought_signature="s")}, "stop"),
        ],
        stopped(
            reasoning("a", "b</b>"),
            text("c", "</thought>", Opaque("google.thought_signature", "s", block=1), block=1),
        ),
    ),
    "a-thought-and-the-answer-in-one": (
        [chunk({"content": "<thought>a</thought>b", **THOUGHT}), chunk({"content": "c"}), STOP],
        stopped(reasoning("a"), text("b", "c", block=1)),
    ),
    "tags-that-nobody-marks": (
        [chunk({"content": "<thought>a"}), chunk({"content": "</thought>b"}), STOP],
        stopped(text("<thought>a", "</thought>b")),
    ),
    "a-finish-reason-with-its-reason": (  # Gemini
        [chunk({"content": "a"}), chunk({}, "content_filter: NEW")],
        ended(text("a"), reason="content_filter", raw="content_filter: NEW"),
    ),
    "no-error-of-minimax": ([TEXT, {**STOP, "base_resp": {"status_code": 0}}], stopped(text("a"))),
    "messages-for-deltas": (  # Writer
        [
            {"object": "chat.completion.chunk", "choices": [{"message": {"content": "a"}}]},
            {
                "object": "chat.completion.chunk",
                "choices": [{"message": {"content": "b"}, "finish_reason": "stop"}],
            },
        ],
        stopped(text("a", "b")),
    ),
    "a-message-that-repeats-the-deltas": (
        [
            chunk({"content": "a"}),
            {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]},
        ],
        stopped(text("a")),
    ),
}
MINIMAX = {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}
ENDS: dict[str, tuple[bytes, Any]] = {
    "done": (sse(TEXT, STOP) + DONE, FINISHED),
    "done-twice": (sse(TEXT, STOP) + DONE + DONE, FINISHED),
    "done-without-blank-line": (sse(TEXT, STOP) + b"data: [DONE]", FINISHED),
    "done-without-space": (sse(TEXT, STOP) + b"data:[DONE]\n\n", FINISHED),
    "done-and-more": (sse(TEXT) + DONE + sse({"error": "x"}), ("completed", "unknown")),
    "half-done": (sse(TEXT, STOP) + b"data: [DON", FINISHED),
    "half-done-without-finish": (sse(TEXT) + b"data: [DON", TRUNCATED),
    "no-done": (sse(TEXT, STOP), FINISHED),
    "no-done-no-blank-line": (sse(TEXT, STOP)[:-2], FINISHED),
    "half-a-chunk": (sse(TEXT, STOP)[:-3], TRUNCATED),
    "half-a-chunk-after-the-finish": (sse(TEXT, STOP, TEXT)[:-9], FINISHED),
    "no-finish": (sse(TEXT), TRUNCATED),
    "done-without-finish": (sse(TEXT) + DONE, ("completed", "unknown")),
    "one-choice-open": (sse(chunk({}, index=1), TEXT, STOP), TRUNCATED),
    "one-choice-open-but-done": (sse(chunk({}, index=1), STOP) + DONE, FINISHED),
    "an-open-call": (sse(chunk(tool(0, "i", "f", "{}"))), TRUNCATED),
    "a-call-and-done": (sse(chunk(tool(0, "i", "f"))) + DONE, ("completed", "tool_calls")),
    "half-a-call-and-done": (
        sse(chunk(tool(0, "i", "f", "{"))) + DONE,
        failed("upstream_tool_failed"),
    ),
    "nothing": (b"", TRUNCATED),
    "comments": (b": hi\n\n: hi\n\n", TRUNCATED),
    "only-done": (DONE, UNAVAILABLE),
    "only-a-role-and-done": (sse(chunk({"role": "x"})) + DONE, UNAVAILABLE),
    "only-a-role": (sse(chunk({"role": "x"})), TRUNCATED),
    "only-a-finish": (sse(STOP), FINISHED),
    "only-a-filter": (sse({"choices": [], "usage": None}) + DONE, UNAVAILABLE),
    "an-error": (sse(TEXT, {"error": {"message": "x"}}), UNAVAILABLE),
    "an-error-text": (sse(TEXT, {"error": "x"}) + DONE, UNAVAILABLE),
    "an-error-after-the-finish": (sse(TEXT, STOP, {"error": "x"}), UNAVAILABLE),
    "no-error": (sse({**TEXT, "error": None}, {"error": {}}, STOP), FINISHED),
    "half-an-emoji-after-arguments": (
        sse(chunk(tool(0, "i", "f", '"a"\ud83d')), STOP) + DONE,
        failed("upstream_tool_failed"),
    ),
    "an-error-number": (sse({"error": {"code": 429}}), failed("upstream_rate_limited")),
    "an-error-digits": (sse({"error": {"code": "503"}}), failed("upstream_overloaded")),
    "an-error-object": (sse({"object": "error", "code": 401}), failed("upstream_auth")),
    "an-error-type": (sse({"type": "error", "message": "x"}), UNAVAILABLE),
    "an-error-beside-the-choice": (  # OpenRouter
        sse(chunk({"content": "b"}, "error", error={"code": 502, "message": "x"})),
        UNAVAILABLE,
    ),
    "an-error-in-the-choice": (
        sse({"choices": [choice({}, "error", error={"code": 504})]}),
        failed("upstream_timeout"),
    ),
    "an-error-of-groq": (sse(TEXT, chunk({}, x_groq={"error": "over capacity"})), UNAVAILABLE),
    "a-named-error": (b'event: error\ndata: {"error":{}}\n\n', UNAVAILABLE),
    "a-named-error-in-words": (b"event: error\ndata: oh\n\n", UNAVAILABLE),
    "a-named-error-cut": (b'event: error\ndata: {"er', UNAVAILABLE),
    "the-error-field-of-llama.cpp": (
        sse(TEXT) + b'error: {"code":503,"type":"unavailable_error"}\n\n' + DONE,
        failed("upstream_overloaded"),
    ),
    "an-error-without-data": (
        sse(TEXT) + b'{\n  "error": {\n    "code": 429\n  }\n}\n',
        failed("upstream_rate_limited"),
    ),
    "an-error-for-a-body": (b'{"error":{"code":"model_not_found"}}', failed("upstream_not_found")),
    "errors-for-a-body": (b'[{"error":{"status":"UNAVAILABLE"}}]', failed("upstream_overloaded")),
    "the-first-of-many-errors": (
        b'data: [{"error":{"code":429}},{"error":{"code":503}}]\n\n',
        failed("upstream_rate_limited"),
    ),
    "words-for-a-body": (b'{"detail":"Invalid API Key"}', failed("upstream_auth")),
    "an-object-for-a-body": (b'{"ok":true}', INVALID),
    "a-list-for-a-body": (b"[]", INVALID),
    "half-a-body": (b'{"choices":[{"message"', TRUNCATED),
    "html-for-a-body": (b"<html></html>\n", TRUNCATED),
    "finish-error": (sse(TEXT, chunk({}, "error")) + DONE, UNAVAILABLE),
    "finish-error-no-done": (sse(TEXT, chunk({}, "error")), UNAVAILABLE),
    "finish-malformed-call-of-the-gemini-route": (
        sse(chunk({}, "function_call_filter: MALFORMED_FUNCTION_CALL")) + DONE,
        failed("upstream_tool_failed"),
    ),
    "an-error-of-minimax": (sse(TEXT, MINIMAX) + DONE, failed("upstream_billing")),
    "an-error-of-minimax-for-a-body": (json.dumps(MINIMAX).encode(), failed("upstream_billing")),
    "no-json": (b"data: hi\n\n" + sse(TEXT), INVALID),
    "no-object": (sse(TEXT) + b"data: 5\n\n", INVALID),
    "null": (b"data: null\n\n", INVALID),
    "too-deep": (b"data: " + b"[" * 100000 + b"\n\n", INVALID),
    "half-a-number": (sse(TEXT) + b"data: 5", TRUNCATED),
    "an-empty-event": (b"data:\n\ndata: \n\n" + sse(TEXT, STOP), FINISHED),
    "an-unknown-event": (b"event: ping\ndata: x\n\n" + sse(TEXT, STOP), FINISHED),
    "a-named-chunk": (b"event: chunk\n" + sse(TEXT, STOP), FINISHED),
    "chunks-in-a-list": (b"data: [" + sse(TEXT)[6:-2] + b"]\n\n" + DONE, ("completed", "unknown")),
    "nan": (
        b'data: {"choices":[{"delta":{"content":"a"},"x":NaN}]}\n\n' + DONE,
        ("completed", "unknown"),
    ),
}


def said(content: str, finish: str | None = None, **more: Any) -> Any:
    """A chunk whose choice has a message and no delta; `more` stands beside it."""
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}

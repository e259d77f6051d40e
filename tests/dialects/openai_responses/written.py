"""Answers in Responses, written by hand, and what they mean."""

import json
from functools import partial
from typing import Any

from app.events import (
    ChoiceEnd,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    Raw,
    Source,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from tests.dialects.blocks import Part, ended, flat, ran, refusal, text
from tests.dialects.blocks import call as call_of
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed


def sse(*payloads: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), json.dumps(payload).encode())
        for payload in payloads
    )


def on(kind: str, at: int = 0, **more: Any) -> dict[str, Any]:
    """An event about the item at an index, under an id that nothing may depend on."""
    known = {"output_index": at, "item_id": f"id-{id(more)}", "sequence_number": 0}
    return {"type": f"response.{kind}", **known, **more}


def added(kind: str, at: int = 0, **item: Any) -> dict[str, Any]:
    return on("output_item.added", at, item={"type": kind, "id": "x", **item})


def done(kind: str, at: int = 0, **item: Any) -> dict[str, Any]:
    return on("output_item.done", at, item={"type": kind, "id": "y", **item})


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], **more}


def delta(text: str, at: int = 0, part: int = 0, **more: Any) -> dict[str, Any]:
    return on("output_text.delta", at, content_index=part, delta=text, **more)


def over(status: str = "completed", **response: Any) -> dict[str, Any]:
    known = {"id": "r", "model": "m", "status": status, "output": []}
    return {"type": f"response.{status}", "response": {**known, **response}}


COMPLETED = over()
call = partial(call_of, id="c")
stopped = partial(ended, raw="completed")
called = partial(ended, reason="tool_calls", raw="completed")


def waiting(asked: str, *parts: Part) -> list[Event]:
    """The parts of an answer that waits for the client to do what is asked."""
    told = f"the model requests {asked}, which only the client can answer"
    return called(*parts, Notice("client_item", told))


MISMATCH = Notice(
    "upstream_contradiction", "the complete text differs from the deltas that the upstream sent"
)
CITED = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
FILES: list[dict[str, Any]] = [
    {"type": "file_citation", "file_id": "f", "filename": "a.md", "index": 3},
    {"type": "file_path", "file_id": "g", "index": 0},
    {
        **{"type": "container_file_citation", "container_id": "c", "file_id": "h"},
        **{"filename": "b.png", "start_index": 1, "end_index": 2},
    },
]
LOGPROBS = [{"token": "a", "logprob": -0.5}]
answer = sse
BEGUN = sse(delta("a"))


def own(annotation: dict[str, Any]) -> Raw:
    data = json.dumps(dict(sorted(annotation.items())), separators=(",", ":"))
    return Raw("openai_responses", data)


def completed_as(status: str, reason: str | None = None) -> dict[str, Any]:
    """A response that the event calls completed, and that says itself what it is."""
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    return {**over(status, **details), "type": "response.completed"}


def incomplete(reason: str) -> dict[str, Any]:
    return over("incomplete", incomplete_details={"reason": reason})


MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "nothing": ([COMPLETED], stopped()),
    "text": ([added("message"), delta("a"), delta("b"), COMPLETED], stopped(text("a", "b"))),
    "every-part-is-a-block": (
        [delta("a"), delta("b", 0, 1), done("message", content=[said("a"), said("b")]), COMPLETED],
        stopped(text("a"), text("b", block=1)),
    ),
    "done-adds-what-the-deltas-lack": (
        [delta("a"), on("output_text.done", content_index=0, text="abc"), COMPLETED],
        stopped(text("a", "bc")),
    ),
    "done-alone": (
        [on("output_text.done", content_index=0, text="abc", logprobs=LOGPROBS), COMPLETED],
        stopped(text("abc", LogProbs(0, LOGPROBS))),
    ),
    "item-alone": ([done("message", content=[said("a")]), COMPLETED], stopped(text("a"))),
    "response-alone": (
        [over(output=[{"type": "message", "content": [said("a")]}])],
        stopped(text("a")),
    ),
    "a-surrogate-pair-in-two-deltas-and-a-rest": (
        [delta("a\ud83d"), on("output_text.done", content_index=0, text="a😀b"), COMPLETED],
        stopped(text("a", "😀b")),
    ),
    "the-deltas-stand-against-another-whole": (
        [
            delta("ab"),
            on("output_text.done", content_index=0, text="xy"),
            done("message", content=[said("xy")]),
            over(output=[{"type": "message", "content": [said("xy")]}]),
        ],
        stopped(TextStart(0), TextDelta(0, "ab"), MISMATCH, TextEnd(0)),
    ),
    "nothing-is-told-twice": (
        [
            added("message"),
            delta("a"),
            on("output_text.done", content_index=0, text="a"),
            on("content_part.done", content_index=0, part=said("a")),
            done("message", content=[said("a")]),
            added("function_call", 1, name="f", call_id="c"),
            done("function_call", 1, name="f", call_id="c", arguments="{}"),
            done("function_call", 1, name="f", call_id="c", arguments="{}"),
            over(
                output=[
                    {"type": "message", "content": [said("a")]},
                    {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
                ]
            ),
        ],
        called(text("a"), call("f", "{}", block=1)),
    ),
    "a-message-that-says-nothing": (
        [done("message", phase="commentary", content=[{"type": "output_hologram"}]), COMPLETED],
        stopped(),
    ),
    "refusal": (
        [
            on("refusal.delta", content_index=0, delta="I "),
            on("refusal.done", content_index=0, refusal="I can't."),
            done("message", content=[{"type": "refusal", "refusal": "I can't."}]),
            COMPLETED,
        ],
        stopped(refusal("I ", "can't.")),
    ),
    "encrypted-reasoning-without-a-text": (
        [
            added("reasoning", encrypted_content="half"),
            done("reasoning", summary=[], encrypted_content="E"),
            done("reasoning", 1, summary=[], encrypted_content="F"),
            over(
                output=[
                    {"type": "reasoning", "summary": [], "encrypted_content": "E2"},
                    {"type": "reasoning", "summary": [], "encrypted_content": "F2"},
                ]
            ),
        ],
        stopped(Opaque("openai.reasoning", "E"), Opaque("openai.reasoning", "F")),
    ),
    "calls-that-interleave": (
        [
            added("function_call", 0, name="f", call_id="c"),
            added("function_call", 1, name="g", call_id="d"),
            on("function_call_arguments.delta", 0, delta='{"a'),
            on("function_call_arguments.delta", 1, delta="{}"),
            on("function_call_arguments.delta", 0, delta='":1}'),
            on("function_call_arguments.done", 1, arguments="{}"),
            done("function_call", 1, name="g", call_id="d", arguments="{}"),
            done("function_call", 0, name="f", call_id="c", arguments='{"a":1}'),
            COMPLETED,
        ],
        called(
            ToolCallStart(0, "c", "f"),
            ToolCallStart(1, "d", "g"),
            ToolCallDelta(0, '{"a'),
            ToolCallDelta(1, "{}"),
            ToolCallDelta(0, '":1}'),
            ToolCallEnd(1, "{}"),
            ToolCallEnd(0, '{"a":1}'),
        ),
    ),
    "a-call-in-a-namespace": (
        [
            added("function_call", name="get", namespace="n", call_id="c", arguments=""),
            done("function_call", name="get", namespace="n", call_id="c", arguments="{}"),
            COMPLETED,
        ],
        called(call("get", Opaque("openai.namespace", "n", 0), "{}", id="c")),
    ),
    "a-custom-call-that-comes-whole": (
        [done("custom_tool_call", name="sql", call_id="c", input="SELECT 1"), COMPLETED],
        called(call("sql", Opaque("openai.custom_tool_call", "c", 0), "SELECT 1", id="c")),
    ),
    "xai-answers-its-own-custom-tools": (
        [
            added("custom_tool_call", name="x_keyword_search", call_id="xs_call_1", input=""),
            on("custom_tool_call_input.delta", delta='{"query":"a"}'),
            on("custom_tool_call_input.done", input='{"query":"a"}'),
            done("custom_tool_call", name="x_keyword_search", input='{"query":"a"}'),
            delta("b", 1),
            COMPLETED,
        ],
        stopped(ran(0, "x_keyword_search", input={"query": "a"}), text("b", block=1)),
    ),
    "tools-of-an-mcp-server": (
        [
            done("mcp_list_tools", server_label="s", tools=[{"name": "roll"}]),
            added("mcp_call", 1, name="roll", server_label="s", arguments=""),
            on("mcp_call_arguments.delta", 1, delta='{"n":2}'),
            on("mcp_call.completed", 1),
            done("mcp_call", 1, name="roll", arguments='{"n":2}', output="7", error=None),
            done("mcp_call", 2, name="roll", arguments="{", error={"message": "no"}),
            done("mcp_approval_request", 3, name="roll", arguments="{}", server_label="s"),
            COMPLETED,
        ],
        waiting(
            "mcp_approval_request",
            ran(0, "mcp_list_tools", output=[{"name": "roll"}]),
            ran(1, "roll", input={"n": 2}, output="7"),
            ran(2, "roll", input="{", output={"message": "no"}),
            ran(3, "roll", input={}),
            Opaque(
                "openai.item",
                '{"type":"mcp_approval_request","id":"y","name":"roll","arguments":"{}","server_label":"s"}',
                3,
            ),
        ),
    ),
    "an-image-once-it-is-whole": (
        [
            delta("a"),
            added("image_generation_call", 1),
            on("image_generation_call.partial_image", 1, partial_image_b64="AA"),
            done("image_generation_call", 1, result="AAAA", output_format="webp"),
            done("image_generation_call", 2, result="BBBB", revised_prompt="a cat"),
            done("image_generation_call", 3, result=None, status="failed"),
            COMPLETED,
        ],
        stopped(
            text("a"),
            ProviderTool(1, "image_generation"),
            Media(2, "image/webp", data="AAAA"),
            ran(3, "image_generation", input="a cat"),
            Media(4, "image/png", data="BBBB"),
            ProviderTool(5, "image_generation"),
        ),
    ),
    "what-stands-for-the-conversation-before": (
        [done("compaction", encrypted_content="E"), COMPLETED],
        stopped(Opaque("openai.compaction", "E")),
    ),
    "citations-count-in-their-part": (
        [
            delta("ab"),
            delta("cd", 0, 1),
            on("output_text.annotation.added", content_index=1, annotation=CITED),
            on("output_text.annotation.added", content_index=0, annotation=CITED),
            on("output_text.annotation.added", content_index=0, annotation=None),
            *(
                on("output_text.annotation.added", content_index=1, annotation=annotation)
                for annotation in FILES
            ),
            done(
                "message",
                content=[
                    said("ab", annotations=[CITED]),
                    said("cd", annotations=[CITED, {**FILES[0], "logprob": None}]),
                ],
            ),
            COMPLETED,
        ],
        stopped(
            text("ab"),
            text("cd", block=1)[:-1],
            Source("https://a", title="A", start=0, end=2, block=1),
            Source("https://a", title="A", start=0, end=2, block=0),
            Source(document="a.md", start=3, end=3, block=1, raw=own(FILES[0])),
            Source(document="g", block=1, raw=own(FILES[1])),
            Source(document="b.png", start=1, end=2, block=1, raw=own(FILES[2])),
            TextEnd(1),
        ),
    ),
    "logprobs": (
        [delta("a", logprobs=LOGPROBS), delta("b", logprobs=[]), COMPLETED],
        stopped(text("a", LogProbs(0, LOGPROBS), "b")),
    ),
    "sound-and-what-is-heard": (
        [
            {"type": "response.audio.delta", "delta": "AAAA"},
            {"type": "response.audio.transcript.delta", "delta": "a"},
            {"type": "response.audio.delta", "delta": "BBBB"},
            {"type": "response.audio.delta", "delta": ""},
            {"type": "response.audio.done"},
            COMPLETED,
        ],
        stopped(
            Media(0, "audio/pcm", data="AAAA"),
            text("a", Media(0, "audio/pcm", data="BBBB"), block=1),
        ),
    ),
    "odd-types-are-ignored": (
        [
            {"type": "response.created", "response": "x"},
            {"type": "response.output_item.added", "output_index": "0", "item": 3},
            {"type": "response.output_item.done", "output_index": -1},
            {"type": "response.output_text.delta", "delta": {"a": 1}, "content_index": None},
            {"type": "response.output_text.done", "text": 5},
            {"type": "response.content_part.done", "part": []},
            {"type": "response.function_call_arguments.delta", "output_index": 7},
            {"type": "response.audio.delta", "delta": 0},
            delta("a", 2, logprobs="x"),
            over(output="x", usage=3, content_filters={}, incomplete_details=1),
        ],
        flat(
            text("a"),
            Notice("tool_call_dropped", "the upstream sent a tool call without a name"),
            stopped(),
        ),
    ),
    "tools-that-were-searched-for": (
        [
            done("tool_search_call", arguments={"paths": ["f"]}, execution="server"),
            done("tool_search_output", 1, tools=[{"name": "f"}], execution="server"),
            COMPLETED,
        ],
        stopped(
            ran(0, "tool_search", input={"paths": ["f"]}),
            ran(1, "tool_search", output=[{"name": "f"}]),
        ),
    ),
    "openrouters-end": ([delta("a"), {**COMPLETED, "type": "response.done"}], stopped(text("a"))),
    "an-end-without-a-response": ([delta("a"), {"type": "response.completed"}], stopped(text("a"))),
    **{
        f"an-incomplete-answer-{number}": (
            [delta("a"), end],
            ended(text("a"), reason=reason, raw="incomplete"),
        )
        for number, (end, reason) in enumerate(
            [
                (incomplete("max_output_tokens"), "length"),
                (incomplete("content_filter"), "content_filter"),
                (incomplete("max_messages"), "unknown"),
                (over("incomplete", incomplete_details=None), "unknown"),
                (completed_as("incomplete", "max_output_tokens"), "length"),
                (completed_as("incomplete", "content_filter"), "content_filter"),
                (completed_as("incomplete"), "unknown"),
                (completed_as("completed", "max_output_tokens"), "length"),
            ]
        )
    },
    "completed-in-progress": ([delta("a"), completed_as("in_progress")], stopped(text("a"))),
    "cancelled-there": (
        [delta("a"), over("cancelled")],
        flat(text("a"), ChoiceEnd("cancelled", "cancelled"), StreamEnd("cancelled", "cancelled")),
    ),
}

WHOLE = {
    **{"object": "response", "id": "r", "model": "m", "status": "completed"},
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
        {"type": "message", "content": [said("a", annotations=[CITED])]},
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
    ],
}
RATE_LIMITED = failed("upstream_rate_limited")
LIMITED = b'{"error":{"code":"rate_limit_exceeded"}}'
NOISE = b"event: ping\ndata: pong\n\n: hi\n\ndata:\n\n"
FAILED = {"status": "failed", "error": {"code": "server_error"}}
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-end": (sse(delta("a")), TRUNCATED),
    "done-for-an-end": (sse(delta("a")) + b"data: [DONE]\n\n", TRUNCATED),
    "noise": (NOISE + sse(delta("a")) + b"data: [DONE]\n\n" + sse(COMPLETED), FINISHED),
    "an-end-without-a-type": (sse(delta("a"), {**COMPLETED, "type": ""}), TRUNCATED),
    "an-end-that-is-a-message": (sse(delta("a"), {**COMPLETED, "type": "message"}), TRUNCATED),
    "a-type-in-the-event-alone": (
        b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n' + sse(COMPLETED),
        FINISHED,
    ),
    "completed-but-failed": (
        sse(delta("a"), {"type": "response.completed", "response": FAILED}),
        UNAVAILABLE,
    ),
    "completed-but-cancelled": (
        sse(delta("a"), completed_as("cancelled")),
        ("cancelled", "cancelled"),
    ),
    "a-named-error": (b"event: error\ndata: %b\n\n" % LIMITED, RATE_LIMITED),
    "an-error-and-done": (b"data: %b\n\ndata: [DONE]\n\n" % LIMITED, RATE_LIMITED),
    "a-named-error-in-words": (b"event: error\ndata: rate_limit_exceeded\n\n", UNAVAILABLE),
    "html": (b"data: <html>\n\n" + sse(COMPLETED), INVALID),
    "a-number": (b"data: 1\n\n" + sse(COMPLETED), INVALID),
    "half-an-object": (b"event: response.created\ndata: {\n\n" + sse(COMPLETED), INVALID),
    **{
        f"failed-with-{(error or {}).get('code')}": (sse(over("failed", error=error)), end)
        for error, end in (
            (None, UNAVAILABLE),
            ({"code": "server_error", "message": "m"}, UNAVAILABLE),
            ({"code": "insufficient_quota", "message": "m"}, failed("upstream_billing")),
            ({"code": "invalid_prompt", "message": "m"}, failed("upstream_invalid_request")),
            ({"code": "server_is_overloaded", "message": "m"}, failed("upstream_overloaded")),
            ({"code": "bio_policy", "message": "m"}, failed("content_filtered")),
        )
    },
    **{
        f"a-body-{name}": (json.dumps(body).encode(), end)
        for name, body, end in (
            ("error", {"error": {"code": "invalid_api_key"}}, failed("upstream_auth")),
            ("detail", {"detail": "Prompt is too long"}, failed("context_length_exceeded")),
            ("of-another", {"models": []}, INVALID),
            ("in-progress", {**WHOLE, "status": "in_progress"}, INVALID),
            ("failed", {**WHOLE, **FAILED}, UNAVAILABLE),
        )
    },
}

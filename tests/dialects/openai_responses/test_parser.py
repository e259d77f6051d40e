"""Responses as no recording has it: events written by hand, and what they mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from app import events
from app.dialects.openai_responses.upstream.parser import Parser
from app.errors import UpstreamError
from app.events import (
    ChoiceEnd,
    ContentFilter,
    ErrorInfo,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
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
from tests.dialects.streams import check, end_of, play, tool_calls

pytestmark = pytest.mark.pure

RECORDINGS = Path(__file__).parents[2] / "recordings" / "openai_responses"
CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")


def sse(*payloads: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), json.dumps(payload).encode())
        for payload in payloads
    )


def run(*payloads: dict[str, Any]) -> list[Event]:
    found = play([sse(*payloads)], dialect="openai_responses")
    check(found)
    return found


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


def ended(status: str = "completed", **response: Any) -> dict[str, Any]:
    known = {"id": "r", "model": "m", "status": status, "output": []}
    return {"type": f"response.{status}", "response": {**known, **response}}


def completed_as(status: str, reason: str | None = None) -> dict[str, Any]:
    """A response that the event calls completed, and that says itself what it is."""
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    return {**ended(status, **details), "type": "response.completed"}


COMPLETED = ended()


def text(*pieces: str, block: int = 0) -> list[Event]:
    return [TextStart(block), *(TextDelta(block, piece) for piece in pieces), TextEnd(block)]


def reasoning(*pieces: str, block: int = 0, **end: str) -> list[Event]:
    return [
        ReasoningStart(block),
        *(ReasoningDelta(block, piece) for piece in pieces),
        ReasoningEnd(block, **end),  # type: ignore[arg-type]  # a table of strings
    ]


def call(name: str, *pieces: str, block: int = 0, id: str = "c") -> list[Event]:
    return [
        ToolCallStart(block, id, name),
        *(ToolCallDelta(block, piece) for piece in pieces),
        ToolCallEnd(block, "".join(pieces) or "{}"),
    ]


def stopped(*found: list[Event]) -> list[Event]:
    """What comes before it, and a stop."""
    before = [event for part in found for event in part]
    return [*before, ChoiceEnd("stop", "completed"), StreamEnd("completed", "stop")]


def called(*found: list[Event]) -> list[Event]:
    before = [event for part in found for event in part]
    return [*before, ChoiceEnd("tool_calls", "completed"), StreamEnd("completed", "tool_calls")]


def waiting(asked: str, *found: list[Event]) -> list[Event]:
    """What comes before it, and an end that waits for the client to do what is asked."""
    told = f"the model asks for {asked}, which only the client can answer"
    return called(*found, [Notice("client_item", told)])


def code_of(found: list[Event]) -> str | None:
    """The code of the error that the stream ended with."""
    error = end_of(found).error
    return error.code if error else None


SUMMARY = "reasoning_summary_text"
MISMATCH = Notice(
    "upstream_contradiction", "the whole text differs from the pieces that the upstream sent of it"
)
CITED = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
LOGPROBS = [{"token": "a", "logprob": -0.5}]
SAFE = {"hate": {"filtered": False, "severity": "safe"}}
HATE = {"hate": {"filtered": True, "severity": "high"}}

COMPLETE: list[tuple[str, list[dict[str, Any]], list[Event]]] = [
    ("nothing", [COMPLETED], stopped()),
    ("text", [added("message"), delta("a"), delta("b"), COMPLETED], stopped(text("a", "b"))),
    (
        "deltas-alone",
        [delta("a"), delta("b", 1), COMPLETED],
        stopped(text("a"), text("b", block=1)),
    ),
    (
        "no-index-at-all",
        [{"type": "response.output_text.delta", "delta": "a"}, COMPLETED],
        stopped(text("a")),
    ),
    (
        "every-part-is-a-block",
        [delta("a"), delta("b", 0, 1), done("message", content=[said("a"), said("b")]), COMPLETED],
        stopped(text("a"), text("b", block=1)),
    ),
    (
        "the-lifecycle-and-unknown-events-say-nothing",
        [
            {"type": "response.created", "response": {"id": "r", "usage": None, "output": []}},
            {"type": "response.queued", "response": {}},
            {"type": "keepalive", "sequence_number": 3},
            {"type": "response.keep_alive"},
            {"type": "response.hologram.delta", "output_index": 0, "delta": "x"},
            added("hologram"),
            done("hologram", content=[said("x")]),
            on("content_part.added", 1, content_index=0, part=said("")),
            delta("a", 1),
            COMPLETED,
            {"type": "response.rate_limits.updated"},
            {"type": "error", "message": "late"},
        ],
        stopped(text("a")),
    ),
    (
        "done-adds-what-the-deltas-lack",
        [delta("a"), on("output_text.done", content_index=0, text="abc"), COMPLETED],
        stopped(text("a", "bc")),
    ),
    (
        "done-alone",
        [on("output_text.done", content_index=0, text="abc", logprobs=LOGPROBS), COMPLETED],
        stopped([TextStart(0), TextDelta(0, "abc"), LogProbs(0, LOGPROBS), TextEnd(0)]),
    ),
    (
        "part-alone",
        [on("content_part.done", content_index=0, part=said("a", annotations=[CITED])), COMPLETED],
        stopped(
            [
                *text("a")[:-1],
                Source("https://a", title="A", start=0, end=2, block=0),
                TextEnd(0),
            ]
        ),
    ),
    ("item-alone", [done("message", content=[said("a")]), COMPLETED], stopped(text("a"))),
    (
        "response-alone",
        [ended(output=[{"type": "message", "content": [said("a")]}])],
        stopped(text("a")),
    ),
    (
        "a-surrogate-pair-in-two-deltas-and-a-rest",
        [delta("a\ud83d"), on("output_text.done", content_index=0, text="a😀b"), COMPLETED],
        stopped(text("a", "😀b")),
    ),
    (
        "the-deltas-stand-against-another-whole",
        [
            delta("ab"),
            on("output_text.done", content_index=0, text="xy"),
            done("message", content=[said("xy")]),
            ended(output=[{"type": "message", "content": [said("xy")]}]),
        ],
        stopped([TextStart(0), TextDelta(0, "ab"), MISMATCH, TextEnd(0)]),
    ),
    (
        "nothing-is-told-twice",
        [
            added("message"),
            delta("a"),
            on("output_text.done", content_index=0, text="a"),
            on("content_part.done", content_index=0, part=said("a")),
            done("message", content=[said("a")]),
            added("function_call", 1, name="f", call_id="c"),
            done("function_call", 1, name="f", call_id="c", arguments="{}"),
            done("function_call", 1, name="f", call_id="c", arguments="{}"),
            ended(
                output=[
                    {"type": "message", "content": [said("a")]},
                    {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
                ]
            ),
        ],
        called(text("a"), call("f", "{}", block=1)),
    ),
    (
        "items-of-one-index-are-two-if-their-types-differ",
        [
            added("reasoning"),
            on("reasoning_text.delta", delta="r"),
            done("reasoning", content=[{"type": "reasoning_text", "text": "r"}]),
            added("message"),
            delta("a"),
            done("message", content=[said("a")]),
            added("message"),
            delta("b"),
            ended(
                output=[
                    {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "r"}]},
                    {"type": "message", "content": [said("a")]},
                    {"type": "message", "content": [said("b")]},
                ]
            ),
        ],
        stopped(reasoning("r"), text("a", block=1), text("b", block=2)),
    ),
    (
        "phases",
        [
            added("message", phase="commentary"),
            delta("a"),
            done("message", phase="commentary", content=[said("a")]),
            added("message", 1, phase="final_answer"),
            delta("b", 1),
            done("message", 1, phase="final_answer", content=[said("b")]),
            COMPLETED,
        ],
        stopped(
            [Opaque("openai.phase", "commentary")],
            text("a"),
            [Opaque("openai.phase", "final_answer")],
            text("b", block=1),
        ),
    ),
    (
        "a-message-that-says-nothing",
        [done("message", phase="commentary", content=[{"type": "output_hologram"}]), COMPLETED],
        stopped(),
    ),
    (
        "refusal",
        [
            on("refusal.delta", content_index=0, delta="I "),
            on("refusal.done", content_index=0, refusal="I can't."),
            done("message", content=[{"type": "refusal", "refusal": "I can't."}]),
            COMPLETED,
        ],
        stopped([RefusalStart(0), RefusalDelta(0, "I "), RefusalDelta(0, "can't."), RefusalEnd(0)]),
    ),
    (
        "refusal-in-the-item-alone",
        [done("message", content=[{"type": "refusal", "refusal": "No."}]), COMPLETED],
        stopped([RefusalStart(0), RefusalDelta(0, "No."), RefusalEnd(0)]),
    ),
    (
        "every-part-of-a-summary-is-a-block",
        [
            added("reasoning", encrypted_content="half"),
            on(f"{SUMMARY}.delta", summary_index=0, delta="a"),
            on(f"{SUMMARY}.done", summary_index=0, text="a"),
            on(f"{SUMMARY}.delta", summary_index=1, delta="b"),
            done(
                "reasoning",
                summary=[
                    {"type": "summary_text", "text": "a"},
                    {"type": "summary_text", "text": "b"},
                ],
                encrypted_content="E",
            ),
            COMPLETED,
        ],
        stopped(reasoning("a"), reasoning("b", block=1, encrypted="E", format="openai")),
    ),
    (
        "a-summary-in-the-item-alone",
        [done("reasoning", summary=[{"text": "a"}], encrypted_content="E"), COMPLETED],
        stopped(reasoning("a", encrypted="E", format="openai")),
    ),
    (
        "encrypted-reasoning-without-a-text",
        [
            added("reasoning", encrypted_content="half"),
            done("reasoning", summary=[], encrypted_content="E"),
            done("reasoning", 1, summary=[], encrypted_content="F"),
            ended(
                output=[
                    {"type": "reasoning", "summary": [], "encrypted_content": "E2"},
                    {"type": "reasoning", "summary": [], "encrypted_content": "F2"},
                ]
            ),
        ],
        stopped([Opaque("openai.reasoning", "E"), Opaque("openai.reasoning", "F")]),
    ),
    (
        "encrypted-reasoning-whose-block-a-call-closed",
        [
            on(f"{SUMMARY}.delta", summary_index=0, delta="a"),
            added("function_call", 1, name="f", call_id="c"),
            done("reasoning", summary=[{"text": "a"}], encrypted_content="E"),
            done("function_call", 1, name="f", call_id="c", arguments=""),
            COMPLETED,
        ],
        called(
            reasoning("a"),
            call("f", block=1)[:1],
            [Opaque("openai", "E", 0)],
            call("f", block=1)[1:],
        ),
    ),
    (
        "vllm-counts-parts-of-reasoning-by-token",
        [
            on("reasoning_text.delta", content_index=0, delta="a"),
            on("reasoning_text.delta", content_index=1, delta="b"),
            on("reasoning_text.done", content_index=2, text="ab"),
            done("reasoning", content=[{"type": "reasoning_text", "text": "ab"}], summary=[]),
            COMPLETED,
        ],
        stopped(reasoning("a", "b")),
    ),
    (
        "a-part-of-reasoning-that-had-no-deltas",
        [
            on("reasoning_text.delta", content_index=0, delta="a"),
            on("reasoning_text.done", content_index=1, text="b"),
            done("reasoning", content=[{"text": "a"}, {"text": "b"}]),
            COMPLETED,
        ],
        stopped(reasoning("a", "b")),
    ),
    (
        "reasoning-in-done-alone",
        [on("reasoning_text.done", content_index=0, text="a"), COMPLETED],
        stopped(reasoning("a")),
    ),
    (
        "calls-that-interleave",
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
            [
                ToolCallStart(0, "c", "f"),
                ToolCallStart(1, "d", "g"),
                ToolCallDelta(0, '{"a'),
                ToolCallDelta(1, "{}"),
                ToolCallDelta(0, '":1}'),
                ToolCallEnd(1, "{}"),
                ToolCallEnd(0, '{"a":1}'),
            ]
        ),
    ),
    (
        "a-call-of-the-same-function-twice",
        [
            *(
                event
                for at, name in enumerate("cd")
                for event in (
                    added("function_call", at, name="f", call_id=name),
                    on("function_call_arguments.done", at, arguments="{}"),
                    done("function_call", at, name="f", call_id=name, arguments="{}"),
                )
            ),
            COMPLETED,
        ],
        called(call("f", "{}"), call("f", "{}", block=1, id="d")),
    ),
    (
        "a-name-that-comes-at-the-end",
        [
            on("function_call_arguments.delta", delta="{"),
            on("function_call_arguments.delta", delta="}"),
            done("function_call", name="f", call_id="c", arguments="{}"),
            COMPLETED,
        ],
        called(call("f", "{}")),
    ),
    (
        "a-call-in-the-response-alone",
        [
            done("function_call", name="f", call_id="c", arguments="{}"),
            ended(
                output=[
                    {"type": "function_call", "name": "g", "call_id": "d", "arguments": ""},
                    {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
                ]
            ),
        ],
        called(call("f", "{}"), call("g", block=1, id="d")),
    ),
    (
        "arguments-that-were-contradicted",
        [
            added("function_call", name="f", call_id="c"),
            on("function_call_arguments.delta", delta='{"a":1}'),
            on("function_call_arguments.done", arguments='{"a": 1}'),
            COMPLETED,
        ],
        called(
            call("f", '{"a":1}')[:2],
            [
                Notice(
                    "upstream_contradiction",
                    "the whole tool call differs from the pieces that the upstream sent of it",
                )
            ],
            call("f", '{"a":1}')[2:],
        ),
    ),
    (
        "a-call-in-a-namespace",
        [
            added("function_call", name="get", namespace="n", call_id="c", arguments=""),
            done("function_call", name="get", namespace="n", call_id="c", arguments="{}"),
            COMPLETED,
        ],
        called(
            [
                ToolCallStart(0, "c", "get"),
                Opaque("openai.namespace", "n", 0),
                ToolCallDelta(0, "{}"),
                ToolCallEnd(0, "{}"),
            ]
        ),
    ),
    (
        "a-custom-call-that-comes-whole",
        [done("custom_tool_call", name="sql", call_id="c", input="SELECT 1"), COMPLETED],
        called(
            [
                ToolCallStart(0, "c", "sql"),
                Opaque("openai.custom_tool_call", "c", 0),
                ToolCallDelta(0, "SELECT 1"),
                ToolCallEnd(0, "SELECT 1"),
            ]
        ),
    ),
    (
        "a-custom-tool-takes-any-text",
        [
            added("custom_tool_call", name="sql", call_id="c", input=""),
            on("custom_tool_call_input.delta", delta="SELECT "),
            on("custom_tool_call_input.done", input="SELECT 1"),
            done("custom_tool_call", name="sql", call_id="c", input="SELECT 1"),
            COMPLETED,
        ],
        called(
            [
                ToolCallStart(0, "c", "sql"),
                Opaque("openai.custom_tool_call", "c", 0),
                ToolCallDelta(0, "SELECT "),
                ToolCallDelta(0, "1"),
                ToolCallEnd(0, "SELECT 1"),
            ]
        ),
    ),
    (
        "xai-answers-its-own-custom-tools",
        [
            added("custom_tool_call", name="x_keyword_search", call_id="xs_call_1", input=""),
            on("custom_tool_call_input.delta", delta='{"query":"a"}'),
            on("custom_tool_call_input.done", input='{"query":"a"}'),
            done("custom_tool_call", name="x_keyword_search", input='{"query":"a"}'),
            delta("b", 1),
            COMPLETED,
        ],
        stopped(
            [
                ProviderTool(0, "x_keyword_search"),
                ProviderTool(0, "x_keyword_search", input={"query": "a"}),
            ],
            text("b", block=1),
        ),
    ),
    (
        "code-that-the-provider-runs",
        [
            added("code_interpreter_call", code="", outputs=None),
            on("code_interpreter_call_code.delta", delta="1+"),
            on("code_interpreter_call_code.delta", delta="1"),
            on("code_interpreter_call_code.done", code="1+1"),
            done("code_interpreter_call", outputs=[{"type": "logs", "logs": "2"}]),
            COMPLETED,
        ],
        stopped(
            [
                ProviderTool(0, "code_interpreter"),
                ProviderTool(
                    0, "code_interpreter", input="1+1", output=[{"type": "logs", "logs": "2"}]
                ),
            ]
        ),
    ),
    (
        "tools-of-an-mcp-server",
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
            [
                ProviderTool(0, "mcp_list_tools"),
                ProviderTool(0, "mcp_list_tools", output=[{"name": "roll"}]),
                ProviderTool(1, "roll"),
                ProviderTool(1, "roll", input={"n": 2}, output="7"),
                ProviderTool(2, "roll"),
                ProviderTool(2, "roll", input="{", output={"message": "no"}),
                ProviderTool(3, "roll"),
                ProviderTool(3, "roll", input={}),
                Opaque(
                    "openai.item",
                    '{"type":"mcp_approval_request","id":"y","name":"roll","arguments":"{}",'
                    '"server_label":"s"}',
                    3,
                ),
            ],
        ),
    ),
    (
        "any-other-call",
        [
            done("file_search_call", queries=["a"], results=[{"file_id": "f"}]),
            done("local_shell_call", 1, action={"command": ["ls"]}, call_id="c"),
            done("computer_call", 2, action={"type": "click"}),
            done("hologram_call", 3),
            done("shell_call_output", 4, output=[{"stdout": "x"}]),
            done("function_call_output", 5, output="x"),
            COMPLETED,
        ],
        waiting(
            "computer_call, local_shell_call",
            [
                ProviderTool(0, "file_search"),
                ProviderTool(0, "file_search", input=["a"], output=[{"file_id": "f"}]),
                ProviderTool(1, "local_shell"),
                ProviderTool(1, "local_shell", input={"command": ["ls"]}),
                Opaque(
                    "openai.item",
                    '{"type":"local_shell_call","id":"y","action":{"command":["ls"]},"call_id":"c"}',
                    1,
                ),
                ProviderTool(2, "computer"),
                ProviderTool(2, "computer", input={"type": "click"}),
                Opaque(
                    "openai.item", '{"type":"computer_call","id":"y","action":{"type":"click"}}', 2
                ),
                ProviderTool(3, "hologram"),
                ProviderTool(4, "shell"),
                ProviderTool(4, "shell", output=[{"stdout": "x"}]),
            ],
        ),
    ),
    (
        "a-shell-of-the-providers-asks-nobody",
        [
            done("shell_call", call_id="a", environment={"type": "container_reference"}),
            done("shell_call", 1, call_id="b", action={"commands": ["ls"]}),
            done("shell_call_output", 2, call_id="b", output=[]),
            COMPLETED,
        ],
        stopped(
            [
                ProviderTool(0, "shell"),
                ProviderTool(1, "shell"),
                ProviderTool(1, "shell", input={"commands": ["ls"]}),
                Opaque(
                    "openai.item",
                    '{"type":"shell_call","id":"y","call_id":"b","action":{"commands":["ls"]}}',
                    1,
                ),
                ProviderTool(2, "shell"),
                ProviderTool(2, "shell", output=[]),
            ]
        ),
    ),
    (
        "an-image-once-it-is-whole",
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
            [
                ProviderTool(1, "image_generation"),
                Media(2, "image/webp", data="AAAA"),
                ProviderTool(3, "image_generation"),
                ProviderTool(3, "image_generation", input="a cat"),
                Media(4, "image/png", data="BBBB"),
                ProviderTool(5, "image_generation"),
            ],
        ),
    ),
    (
        "what-stands-for-the-conversation-before",
        [done("compaction", encrypted_content="E"), COMPLETED],
        stopped([Opaque("openai.compaction", "E")]),
    ),
    (
        "citations-count-in-their-part",
        [
            delta("ab"),
            delta("cd", 0, 1),
            on("output_text.annotation.added", content_index=1, annotation=CITED),
            on("output_text.annotation.added", content_index=0, annotation=CITED),
            on("output_text.annotation.added", content_index=0, annotation=None),
            *(
                on("output_text.annotation.added", content_index=1, annotation=annotation)
                for annotation in (
                    {"type": "file_citation", "file_id": "f", "filename": "a.md", "index": 3},
                    {"type": "file_path", "file_id": "g", "index": 0},
                    {
                        "type": "container_file_citation",
                        "container_id": "c",
                        "file_id": "h",
                        "filename": "b.png",
                        "start_index": 1,
                        "end_index": 2,
                    },
                )
            ),
            done(
                "message",
                content=[said("ab", annotations=[CITED]), said("cd", annotations=[CITED])],
            ),
            COMPLETED,
        ],
        stopped(
            text("ab"),
            text("cd", block=1)[:-1],
            [
                Source("https://a", title="A", start=0, end=2, block=1),
                Source("https://a", title="A", start=0, end=2, block=0),
                Source(document="a.md", start=3, end=3, block=1),
                Source(document="g", block=1),
                Source(document="b.png", start=1, end=2, block=1),
                TextEnd(1),
            ],
        ),
    ),
    (
        "logprobs",
        [delta("a", logprobs=LOGPROBS), delta("b", logprobs=[]), COMPLETED],
        stopped(
            [
                TextStart(0),
                TextDelta(0, "a"),
                LogProbs(0, LOGPROBS),
                TextDelta(0, "b"),
                TextEnd(0),
            ]
        ),
    ),
    (
        "sound-and-what-is-heard",
        [
            {"type": "response.audio.delta", "delta": "AAAA"},
            {"type": "response.audio.transcript.delta", "delta": "a"},
            {"type": "response.audio.delta", "delta": "BBBB"},
            {"type": "response.audio.delta", "delta": ""},
            {"type": "response.audio.done"},
            COMPLETED,
        ],
        stopped(
            [
                Media(0, "audio/pcm", data="AAAA"),
                TextStart(1),
                TextDelta(1, "a"),
                Media(0, "audio/pcm", data="BBBB"),
                TextEnd(1),
            ]
        ),
    ),
    (
        "filters",
        [
            ended(
                content_filters=[
                    {"source_type": "prompt", "content_filter_results": SAFE},
                    {
                        "source_type": "completion",
                        "blocked": True,
                        "content_filter_results": HATE,
                    },
                ]
            )
        ],
        stopped([ContentFilter("prompt", SAFE, False), ContentFilter("completion", HATE, True)]),
    ),
    (
        "odd-types-are-ignored",
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
            ended(output="x", usage=3, content_filters={}, incomplete_details=1),
        ],
        [
            *text("a"),
            Notice("tool_call_dropped", "the upstream sent a tool call without a name"),
            *stopped(),
        ],
    ),
    (
        "texts-without-the-index-of-their-item",
        [
            added("reasoning"),
            {"type": "response.reasoning_summary_text.delta", "item_id": "r", "delta": "a"},
            done("reasoning", summary=[{"type": "summary_text", "text": "a"}]),
            added("message", 1),
            {"type": "response.output_text.delta", "item_id": "m", "delta": "b"},
            done("message", 1, content=[said("b")]),
            COMPLETED,
        ],
        stopped(
            [ReasoningStart(0), ReasoningDelta(0, "a"), ReasoningEnd(0)],
            [TextStart(1), TextDelta(1, "b"), TextEnd(1)],
        ),
    ),
    (
        "reasoning-that-the-item-has-as-its-summary",
        [
            on("reasoning_text.delta", delta="a"),
            ended(output=[{"type": "reasoning", "summary": [{"text": "a"}]}]),
        ],
        stopped([ReasoningStart(0), ReasoningDelta(0, "a"), ReasoningEnd(0)]),
    ),
    (
        "a-summary-that-the-item-has-as-its-reasoning",
        [
            on("reasoning_summary_text.delta", delta="a"),
            on("reasoning_summary_text.delta", delta="b", summary_index=1),
            done("reasoning", content=[{"text": "ab"}]),
            COMPLETED,
        ],
        stopped(
            [ReasoningStart(0), ReasoningDelta(0, "a"), ReasoningEnd(0)],
            [ReasoningStart(1), ReasoningDelta(1, "b"), ReasoningEnd(1)],
        ),
    ),
    (
        "a-program-and-what-it-gave",
        [
            added("program", call_id="c", code="", fingerprint="f"),
            done("program", call_id="c", code="{}", fingerprint="g"),
            done("program_output", 1, call_id="c", result='{"a":1}'),
            COMPLETED,
        ],
        stopped(
            [
                *(ProviderTool(0, "program"), ProviderTool(0, "program", input="{}")),
                ProviderTool(1, "program"),
                ProviderTool(1, "program", output='{"a":1}'),
            ]
        ),
    ),
    (
        "tools-that-were-searched-for",
        [
            done("tool_search_call", arguments={"paths": ["f"]}, execution="server"),
            done("tool_search_output", 1, tools=[{"name": "f"}], execution="server"),
            COMPLETED,
        ],
        stopped(
            [
                ProviderTool(0, "tool_search"),
                ProviderTool(0, "tool_search", input={"paths": ["f"]}),
                ProviderTool(1, "tool_search"),
                ProviderTool(1, "tool_search", output=[{"name": "f"}]),
            ]
        ),
    ),
    (
        "a-search-that-was-announced-as-a-call",  # Perplexity
        [
            added("function_call", name="s", call_id="c", arguments="{}", status="completed"),
            done("search_results", queries=["q"], results=[{"url": "u"}]),
            delta("a", 1),
            ended(output=[{"type": "search_results", "queries": ["q"], "results": []}]),
        ],
        stopped(
            [
                ProviderTool(0, "search_results"),
                ProviderTool(0, "search_results", input=["q"], output=[{"url": "u"}]),
            ],
            [TextStart(1), TextDelta(1, "a"), TextEnd(1)],
        ),
    ),
    ("openrouters-end", [delta("a"), {**COMPLETED, "type": "response.done"}], stopped(text("a"))),
    ("an-end-without-a-response", [delta("a"), {"type": "response.completed"}], stopped(text("a"))),
]


@pytest.mark.parametrize(
    ("sent", "expected"), [pytest.param(s, e, id=name) for name, s, e in COMPLETE]
)
def test_a_stream_is_its_events(sent: list[dict[str, Any]], expected: list[Event]) -> None:
    assert run(*sent) == expected


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (ended("incomplete", incomplete_details={"reason": "max_messages"}), "unknown"),
        (ended("incomplete", incomplete_details=None), "unknown"),
        (completed_as("incomplete", "max_output_tokens"), "length"),
        (completed_as("incomplete", "content_filter"), "content_filter"),
        (completed_as("incomplete", None), "unknown"),
        (completed_as("completed", "max_output_tokens"), "length"),
    ],
)
def test_an_incomplete_answer_says_why(end: dict[str, Any], reason: Any) -> None:
    found = run(delta("a"), end)

    assert found == [
        *text("a"),
        ChoiceEnd(reason, "incomplete"),
        StreamEnd("completed", reason),
    ]


def test_a_call_that_is_announced_as_complete_waits_for_its_arguments() -> None:
    found = run(
        added("function_call", name="f", call_id="c", arguments="{}", status="completed"),
        on("function_call_arguments.done", arguments='{"a":1}'),
        added("function_call", 1, name="g", call_id="d", arguments="", status="completed"),
        done("function_call", 1, name="g", call_id="d", arguments=""),
        COMPLETED,
    )

    assert tool_calls(found) == [
        {"choice": 0, "id": "c", "name": "f", "arguments": '{"a":1}'},
        {"choice": 0, "id": "d", "name": "g", "arguments": "{}"},
    ]
    assert end_of(found).finish_reason == "tool_calls"


def test_a_response_counts_by_its_own_status() -> None:
    failed = {**completed_as("failed"), "response": {"status": "failed", "error": {"code": "x"}}}

    assert end_of(run(delta("a"), failed)).status == "failed"
    assert end_of(run(delta("a"), completed_as("cancelled"))).status == "cancelled"
    assert run(delta("a"), completed_as("in_progress")) == stopped(text("a"))


def test_a_call_that_was_cut_off_stays_incomplete() -> None:
    found = run(
        added("function_call", name="f", call_id="c"),
        on("function_call_arguments.delta", delta='{"a'),
        done("function_call", name="f", call_id="c", arguments='{"a', status="incomplete"),
        ended("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )

    assert tool_calls(found)[0]["arguments"] == '{"a'
    assert end_of(found).finish_reason == "length"


def test_an_answer_that_was_cancelled_there_is_not_completed() -> None:
    found = run(delta("a"), ended("cancelled"))

    assert found == [
        *text("a"),
        ChoiceEnd("cancelled", "cancelled"),
        StreamEnd("cancelled", "cancelled"),
    ]


NESTED = {
    "type": "error",
    "sequence_number": 2,
    "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "m", "param": None},
}
FLAT = {"type": "error", "code": "rate_limit_exceeded", "message": "m", "sequence_number": 2}
FAILED = ended("failed", error={"code": "rate_limit_exceeded", "message": "m"})


@pytest.mark.parametrize("sent", [[NESTED], [FLAT], [FAILED], [NESTED, FAILED], [FLAT, FAILED]])
def test_an_error_is_told_once(sent: list[dict[str, Any]]) -> None:
    message = "upstream 'u' has reached its rate limit; try again later"
    error = ErrorInfo("upstream_rate_limited", message, retryable=True)

    assert run(*sent) == [StreamEnd("failed", "error", error=error)]
    assert run(delta("a"), *sent) == [*text("a"), StreamEnd("failed", "error", error=error)]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, "upstream_unavailable"),
        ({"code": "server_error", "message": "m"}, "upstream_unavailable"),
        ({"code": "insufficient_quota", "message": "m"}, "upstream_billing"),
        ({"code": "invalid_prompt", "message": "m"}, "upstream_invalid_request"),
        ({"code": "server_is_overloaded", "message": "m"}, "upstream_overloaded"),
        ({"code": "bio_policy", "message": "m"}, "content_filtered"),
    ],
)
def test_a_failed_response_has_the_code_of_its_error(error: Any, code: str) -> None:
    found = run(ended("failed", error=error, usage={"input_tokens": 3}))

    assert code_of(found) == code
    assert end_of(found).usage == TokenCounts(input_tokens=3)


@pytest.mark.parametrize(
    "body",
    [
        b'event: error\ndata: {"error":{"code":"rate_limit_exceeded"}}\n\n',
        b'data: {"error":{"code":429,"message":"m"}}\n\ndata: [DONE]\n\n',
        b"event: error\ndata: rate_limit_exceeded\n\n",
    ],
)
def test_errors_of_other_hosts_are_errors(body: bytes) -> None:
    assert end_of(play([body], dialect="openai_responses")).status == "failed"


def test_usage_is_passed_on_as_it_was_sent() -> None:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }
    counts = TokenCounts(9, 5, 14, 4, 1, 2)

    assert run(ended(usage=usage))[-2] == Usage(9, 5, 14, 4, 1, 2)
    assert end_of(run(ended(usage=usage))).usage == counts


WHOLE = {
    "object": "response",
    "id": "r",
    "model": "m",
    "status": "completed",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]},
        {"type": "message", "content": [said("a", annotations=[CITED])]},
        {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
    ],
}


def test_a_whole_response_instead_of_a_stream_is_an_answer() -> None:
    found = play([json.dumps(WHOLE).encode()], dialect="openai_responses")

    check(found)
    assert found == called(
        reasoning("t"),
        [
            TextStart(1),
            TextDelta(1, "a"),
            Source("https://a", title="A", start=0, end=2, block=1),
            TextEnd(1),
        ],
        call("f", "{}", block=2),
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"error": {"message": "m", "code": "invalid_api_key"}}, "upstream_auth"),
        ({"detail": "Prompt is too long"}, "context_length_exceeded"),
        ({"models": []}, "upstream_invalid_response"),
        ({**WHOLE, "status": "in_progress"}, "upstream_invalid_response"),
        ({**WHOLE, "status": "failed", "error": {"code": "server_error"}}, "upstream_unavailable"),
    ],
)
def test_a_whole_body_that_is_no_answer_is_a_failure(body: Any, code: str) -> None:
    found = play([json.dumps(body).encode()], dialect="openai_responses")

    check(found)
    assert code_of(found) == code


@pytest.mark.parametrize(
    "body", [b"data: <html>\n\n", b"data: 1\n\n", b"event: response.created\ndata: {\n\n"]
)
def test_a_message_that_is_no_object_is_a_failure(body: bytes) -> None:
    found = play([body + sse(COMPLETED)], dialect="openai_responses")

    assert code_of(found) == "upstream_invalid_response"


def test_what_is_no_event_of_the_format_is_ignored() -> None:
    body = b"event: ping\ndata: pong\n\n: hi\n\ndata:\n\n" + sse(delta("a"))
    found = play([body + b"data: [DONE]\n\n" + sse(COMPLETED)], dialect="openai_responses")

    assert found == stopped(text("a"))


@pytest.mark.parametrize("kind", ["", "message"])
def test_an_event_that_does_not_say_what_it_is_ends_nothing(kind: str) -> None:
    body = b"data: %b\n\n" % json.dumps({**COMPLETED, "type": kind}).encode()

    found = play([sse(delta("a")) + body], dialect="openai_responses")

    assert end_of(found).status == "failed"


def test_done_alone_ends_nothing() -> None:
    found = play([sse(delta("a")) + b"data: [DONE]\n\n"], dialect="openai_responses")

    assert code_of(found) == "upstream_truncated"


def test_the_type_may_stand_in_the_event_alone() -> None:
    body = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n' + sse(COMPLETED)

    assert play([body], dialect="openai_responses") == stopped(text("a"))


def test_the_names_are_the_first_that_came() -> None:
    parser = Parser(upstream="u")
    for name in ("first", "second"):
        response = {"type": "response.created", "response": {"id": name, "model": f"of-{name}"}}
        parser.feed(Message("message", json.dumps(response)))

    assert (parser.upstream_id, parser.model) == ("first", "of-first")


def test_a_lost_connection_is_a_failure_and_late_ones_are_not() -> None:
    cut = play([sse(delta("a"))], dialect="openai_responses", cut=CUT)
    late = play([sse(delta("a"), COMPLETED)], dialect="openai_responses", cut=CUT)

    assert cut[-1] == StreamEnd("failed", "error", error=CUT.info())
    assert late == stopped(text("a"))


@pytest.mark.parametrize(
    "path", sorted(RECORDINGS.glob("*.spec.sse")), ids=lambda path: str(path.name)
)
def test_the_specified_bodies_are_their_events(path: Path) -> None:
    expected = json.loads(path.with_suffix(".events.json").read_text(encoding="utf-8"))
    body = path.read_bytes()
    found = play([body], dialect="openai_responses")

    check(found)
    assert [json.loads(events.encode(event)) for event in found] == expected
    for at in range(len(body)):
        assert play([body[:at], body[at:]], dialect="openai_responses") == found


def test_there_are_specified_bodies() -> None:
    assert len(list(RECORDINGS.glob("*.spec.sse"))) >= 3

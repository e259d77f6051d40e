"""Answers of Converse, written by hand: what they mean, and how they end."""

import json
from base64 import b64encode
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
    TokenCounts,
    Usage,
)
from tests.dialects.blocks import Part, flat, text
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed
from tests.framing.frames import error, event, exception


def start(index: int, **block: Any) -> bytes:
    return event("contentBlockStart", {"contentBlockIndex": index, "start": block})


def delta(index: int, **piece: Any) -> bytes:
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": piece})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index})


def finish(reason: str = "end_turn", **more: Any) -> bytes:
    return event("messageStop", {"stopReason": reason, **more})


USED = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}


def metadata(**more: Any) -> bytes:
    return event("metadata", {"usage": USED, "metrics": {"latencyMs": 1}, **more})


def use(
    index: int, *pieces: Any, id: str = "s", name: str = "code", kind: str = "server_tool_use"
) -> bytes:
    inner = b"".join(delta(index, toolUse={"input": piece}) for piece in pieces)
    tool = {"toolUseId": id, "name": name, "type": kind}
    return start(index, toolUse=tool) + inner + stop(index)


def result(index: int, *values: Any, status: str = "success") -> bytes:
    head = start(index, toolResult={"toolUseId": "s", "status": status, "type": "code_result"})
    return head + delta(index, toolResult=list(values)) + stop(index)


def thinks(index: int, **content: str) -> bytes:
    return delta(index, reasoningContent=content)


def stopped(*parts: Part, reason: Any = "stop", raw: str = "end_turn") -> list[Event]:
    """The parts of an answer, and an end with its usage."""
    end = StreamEnd("completed", reason, TokenCounts(1, 2, 3))
    return [*flat(*parts), ChoiceEnd(reason, raw), Usage(1, 2, 3), end]


def cited(**source: Any) -> list[Event]:
    """A text, and another one that a source is of."""
    return stopped(text("a"), text("b", Source(**source, block=1), block=1))


def answer(*frames: bytes) -> bytes:
    """Write the frames between the beginning and the end, unless they have an end of their own."""
    body = BEGIN + b"".join(frames)
    return body if b"messageStop" in body else body + finish() + metadata()


BEGIN = event("messageStart", {"role": "assistant", "p": "abc"})
BEGUN = BEGIN + delta(0, text="a")
A, B = delta(0, text="a"), delta(1, text="b")
CALLED = finish("tool_use") + metadata()
# Hidden reasoning of Claude's is Anthropic's base64 text, in base64 once more.
HIDDEN = b64encode(b"\x12\x05\xff").decode()
HIDDEN_TWICE = b64encode(HIDDEN.encode()).decode()
CITATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "page": (
        {"title": "T", "location": {"web": {"url": "https://a.b/c", "domain": "a.b"}}},
        {"url": "https://a.b/c", "title": "T"},
    ),
    "source": ({"source": "https://a.b/c"}, {"url": "https://a.b/c"}),
    "text": (
        {
            **{"title": "T", "source": "s", "sourceContent": [{"text": "x"}, {"text": "y"}]},
            "location": {"documentChar": {"documentIndex": 0, "start": 5, "end": 7}},
        },
        {"document": "s", "title": "T", "cited_text": "xy"},
    ),
    "title": ({"title": "T", "location": {"documentPage": {}}}, {"document": "T", "title": "T"}),
    "chunk": ({"location": {"documentChunk": {"documentIndex": 3}}}, {"document": "3"}),
    "search": ({"location": {"searchResultLocation": {"searchResultIndex": 4}}}, {"document": "4"}),
}

MEANINGS: dict[str, tuple[list[bytes], list[Event]]] = {
    "text": ([A, delta(0, text="b"), stop(0)], stopped(text("a", "b"))),
    "nothing-but-an-end": ([], stopped()),
    "blocks-without-stops": ([A, B], stopped(text("a"), text("b", block=1))),
    "unknown-events-blocks-and-fields": (
        [
            *(event("initial-response", {}), event("novelty", [1]), start(0, novelty={"a": 1})),
            *(delta(0, novelty={"text": "x"}), delta(0, text="a", novelty=1), stop(0)),
        ],
        stopped(text("a")),
    ),
    "a-call-that-never-began": (
        [delta(0, toolUse={"input": "{}"}), stop(0)],
        stopped(Notice("tool_call_dropped", "the upstream sent a tool call without a name")),
    ),
    "a-signature-without-a-text": (
        [thinks(0, signature="c2ln"), stop(0)],
        stopped(Opaque("anthropic", "c2ln")),
    ),
    "hidden-reasoning": (
        [
            thinks(number, redactedContent=content)
            for number, content in enumerate((HIDDEN_TWICE, HIDDEN, "no base64!"))
        ],
        stopped(
            Opaque("anthropic.redacted_thinking", HIDDEN),
            Opaque("bedrock.redacted_content", HIDDEN),
            Opaque("bedrock.redacted_content", "no base64!"),
        ),
    ),
    "a-tool-without-input": ([use(0)], stopped(ProviderTool(0, "code", {}))),
    "a-tool-with-an-object": ([use(0, {"x": 1})], stopped(ProviderTool(0, "code", {"x": 1}))),
    "a-tool-with-half-an-input": ([use(0, '{"x"')], stopped(ProviderTool(0, "code", '{"x"'))),
    "a-tool-that-failed": (
        [use(0, "{}"), result(1, {"text": "a"}, {"json": [1]}, status="error")],
        stopped(ProviderTool(0, "code", {}), ProviderTool(0, "code", output={"error": ["a", [1]]})),
    ),
    "a-result-of-nothing": (
        [result(0, {"text": "a"})],
        stopped(ProviderTool(0, "code_result", output="a")),
    ),
    **{
        f"a-citation-of-a-{name}-{order}": ([A, *frames], cited(**source))
        for name, (citation, source) in CITATIONS.items()
        for order, frames in (
            ("before-its-text", (delta(1, citation=citation), B, stop(1))),
            ("after-its-text", (B, delta(1, citation=citation), stop(1))),
        )
    },
    "citations-of-nothing": (
        [A, delta(0, citation={}), delta(0, citation={"location": {"web": 5}})],
        stopped(text("a")),
    ),
    "an-image": (
        [start(0, image={"format": "png"}), delta(0, image={"source": {"bytes": "YWI="}}), stop(0)],
        stopped(Media(0, "image/png", data="YWI=")),
    ),
    "an-image-in-pieces": (
        [
            start(0, image={"format": "jpeg"}),
            *(delta(0, image={"source": {"bytes": piece}}) for piece in ("YQ==", "Yg==")),
            stop(0),
        ],
        stopped(Media(0, "image/jpeg", data="YWI=")),
    ),
    "an-image-by-its-place": (
        [
            start(0, image={"format": "png"}),
            delta(0, image={"source": {"s3Location": {"uri": "s3://b/a.png"}}}),
            stop(0),
        ],
        stopped(Media(0, "image/png", url="s3://b/a.png")),
    ),
    "an-image-that-failed": (
        [
            start(0, image={"format": "png"}),
            delta(0, image={"error": {"message": "blocked"}}),
            stop(0),
        ],
        stopped(Notice("block_dropped", "the upstream sent no image: blocked")),
    ),
    **{
        f"finish-{raw}": (
            [A, stop(0), finish(raw), metadata()],
            stopped(text("a"), reason=reason, raw=raw),
        )
        for raw, reason in (
            *(("stop_sequence", "stop"), ("max_tokens", "length"), ("a_new_one", "unknown")),
            ("model_context_window_exceeded", "length"),
            *(("content_filtered", "content_filter"), ("guardrail_intervened", "content_filter")),
        )
    },
}

TORN = BEGIN + start(0, toolUse={"toolUseId": "t", "name": "f"}) + delta(0, toolUse={"input": "{"})
EXCEPTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("internalServerException", {}, "upstream_unavailable"),
    (
        "modelStreamErrorException",
        {"originalStatusCode": 500, "originalMessage": "it broke"},
        "upstream_unavailable",
    ),
    ("modelTimeoutException", {"message": "slow"}, "upstream_timeout"),
    ("throttlingException", {"message": "Too many tokens, wait"}, "upstream_rate_limited"),
    ("serviceUnavailableException", {"message": "busy"}, "upstream_overloaded"),
    ("validationException", {"message": "no such field"}, "upstream_invalid_request"),
    ("validationException", {"message": "Input Tokens Exceeded: so"}, "context_length_exceeded"),
    ("accessDeniedException", {"message": "no"}, "upstream_forbidden"),
    ("somethingNewException", {"message": "no"}, "upstream_unavailable"),
]
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-finish": (BEGUN, TRUNCATED),
    "nothing": (b"", TRUNCATED),
    "a-torn-call": (TORN + CALLED, TRUNCATED),
    "a-torn-call-at-the-limit": (TORN + finish("max_tokens"), ("completed", "length")),
    "half-a-frame-after-the-finish": (BEGUN + finish() + metadata()[:9], TRUNCATED),
    "an-empty-answer": (BEGIN + finish(), FINISHED),
    "a-malformed-call": (BEGUN + finish("malformed_tool_use"), failed("upstream_tool_failed")),
    "a-malformed-answer": (
        BEGUN + finish("malformed_model_output"),
        failed("upstream_tool_failed"),
    ),
    **{
        f"{name}-{way}-{code}": (body, failed(code))
        for name, payload, code in EXCEPTIONS
        for way, body in (
            ("alone", exception(name, payload)),
            ("as-an-event", event(name, payload)),
            ("as-an-error", error(name, payload.get("message", ""))),
            ("amid-text", BEGUN + exception(name, payload) + A + finish()),
            ("after-the-finish", BEGUN + finish() + exception(name, payload)),
        )
    },
    "a-body-of-json-cut": (b'{"message": "x', TRUNCATED),
    **{
        f"a-body-{name}": (json.dumps(body).encode(), end)
        for name, body, end in (
            (
                "message",
                {"message": "The security token included is expired"},
                failed("upstream_auth"),
            ),
            ("Message", {"Message": "nothing known"}, UNAVAILABLE),
            ("type", {"__type": "com.amazon#ThrottlingException"}, failed("upstream_rate_limited")),
            ("coral", {"Output": {"__type": "com.amazon.coral#UnknownOperation"}}, UNAVAILABLE),
            ("error", {"error": {"code": "rate_limit_exceeded"}}, failed("upstream_rate_limited")),
            ("object", {"a": 1}, INVALID),
            ("empty", {}, INVALID),
        )
    },
}

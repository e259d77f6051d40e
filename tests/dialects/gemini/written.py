"""Answers of Gemini, written by hand, and what they mean."""

import json
from typing import Any

from app.events import (
    ContentFilter,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    Source,
    ToolCallStart,
)
from tests.dialects.blocks import Part, ended, flat
from tests.dialects.blocks import call as called
from tests.dialects.blocks import text as said
from tests.dialects.streams import FINISHED, INVALID, TRUNCATED, UNAVAILABLE, failed

SIGNATURE = "gemini.thought_signature"


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def candidate(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {**content, **({"finishReason": finish} if finish else {}), **more}


def chunk(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"candidates": [candidate(*parts, finish=finish, **more)]}


def call(name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {**({"name": name} if name else {}), **fields}}


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"text": said, **fields}


def partial(path: str, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value}


def more(*values: dict[str, Any]) -> dict[str, Any]:
    """A chunk with more of a call's arguments, which go on."""
    return chunk(call(partialArgs=[*values], willContinue=True))


STOP = chunk(finish="STOP")


def stopped(*parts: Part) -> list[Event]:
    calls = any(isinstance(event, ToolCallStart) for event in flat(*parts))
    return ended(*parts, reason="tool_calls" if calls else "stop", raw="STOP")


FILE = {"retrievedContext": {"text": "cited", "fileSearchStore": "fileSearchStores/s"}}


def part(block: int, text: str) -> Opaque:
    """A part as it came, to be sent back."""
    return Opaque("gemini.part", text, block)


answer = sse
BEGUN = sse(chunk(text("a")))
SIGNED = chunk(text("", thoughtSignature="S"))
AGAIN: list[tuple[str, Any, list[str | Event], str, str]] = [
    ("STOP", chunk(text("b"), finish="MAX_TOKENS"), ["b"], "length", "MAX_TOKENS"),
    ("STOP", chunk(finish="SAFETY"), [], "content_filter", "SAFETY"),
    ("STOP", chunk(text(""), finish="STOP"), [], "stop", "STOP"),
    ("STOP", SIGNED, [Opaque(SIGNATURE, "S", 0)], "stop", "STOP"),
    ("MAX_TOKENS", chunk(text(""), finish="STOP"), [], "length", "MAX_TOKENS"),
]
"""Finish reasons that another one follows: the reason, the last chunk, and what comes of both."""
MEANINGS: dict[str, tuple[list[Any], list[Event]]] = {
    "text": ([chunk(text("a")), chunk(text("b"), finish="STOP")], stopped(said("a", "b"))),
    "empty-text": ([chunk(text("")), chunk(text("a")), STOP], stopped(said("a"))),
    "signature-of-a-text": (
        [chunk(text("a", thoughtSignature="S")), STOP],
        stopped(said("a", Opaque(SIGNATURE, "S", 0))),
    ),
    "signature-after-the-text": (
        [chunk(text("a")), chunk(text("", thoughtSignature="S"), finish="STOP")],
        stopped(said("a", Opaque(SIGNATURE, "S", 0))),
    ),
    "signature-of-nothing": (
        [chunk({"thoughtSignature": "S"}), chunk(text("a")), STOP],
        stopped(Opaque(SIGNATURE, "S"), said("a")),
    ),
    "signature-of-a-call": (
        [chunk({**call("f", id="i"), "thoughtSignature": "S"}), STOP],
        stopped(called("f", "{}", id="i"), Opaque(SIGNATURE, "S", 0)),
    ),
    "calls-without-ids": (
        [chunk(text("a"), call("f", args={"x": [1, "é"]}), call("f")), STOP],
        stopped(said("a"), called("f", '{"x": [1, "é"]}', block=1), called("f", "{}", block=2)),
    ),
    "calls-of-the-same-id": (
        [chunk(call("f", id="i", args={"a": 1})), chunk(call("g", id="i")), STOP],
        stopped(called("f", '{"a": 1}', id="i"), called("g", "{}", block=1)),
    ),
    "call-that-closes-nothing": ([chunk(text("a"), call()), STOP], stopped(said("a"))),
    "a-sound-in-pieces": (
        [
            chunk({"inlineData": {"mimeType": "audio/L16;rate=24000", "data": data}})
            for data in ("AA==", "BB==")
        ]
        + [STOP],
        stopped([Media(0, "audio/L16;rate=24000", data=data) for data in ("AA==", "BB==")]),
    ),
    "a-draft-of-a-picture": (
        [chunk({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thought": True}), STOP],
        stopped(Notice("thought_media", "the draft of an image was dropped")),
    ),
    "media-without-any": (
        [chunk({"inlineData": {}}, {"fileData": "x"}, text("a")), STOP],
        stopped(said("a")),
    ),
    "tools-of-googles-without-ids": (
        [
            chunk({"executableCode": {"language": "PYTHON", "code": "1"}}),
            chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}),
            STOP,
        ],
        stopped(
            ProviderTool(0, "code_execution", input={"language": "PYTHON", "code": "1"}),
            part(0, '{"executableCode":{"language":"PYTHON","code":"1"}}'),
            ProviderTool(0, "code_execution", output={"outcome": "OUTCOME_OK", "output": "2"}),
            part(0, '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}'),
        ),
    ),
    "logprobs": (
        [
            chunk(
                text("a"),
                logprobsResult={
                    "chosenCandidates": [
                        {"token": "a", "tokenId": 5, "logProbability": -0.5},
                        {"token": "b", "logProbability": -1},
                    ],
                    "topCandidates": [{"candidates": [{"token": "a", "logProbability": -0.5}]}],
                },
            ),
            STOP,
        ],
        stopped(
            said(
                "a",
                LogProbs(
                    0,
                    [
                        {
                            "token": "a",
                            "logprob": -0.5,
                            "top_logprobs": [{"token": "a", "logprob": -0.5}],
                        },
                        {"token": "b", "logprob": -1},
                    ],
                ),
            )
        ),
    ),
    "ratings-of-the-prompt": (
        [
            {"promptFeedback": {"safetyRatings": [{"category": "H", "probability": "LOW"}]}},
            chunk(text("a"), finish="STOP"),
        ],
        stopped(
            ContentFilter("prompt", {"H": {"probability": "LOW", "filtered": False}}, False),
            said("a"),
        ),
    ),
    "url-context": (
        [
            chunk(
                text("a"),
                finish="STOP",
                urlContextMetadata={
                    "urlMetadata": [
                        {
                            "retrievedUrl": "https://a/",
                            "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS",
                        },
                        {
                            "retrievedUrl": "https://b/",
                            "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR",
                        },
                    ]
                },
            )
        ],
        stopped(said("a", Source("https://a/", block=0))),
    ),
    "citations-count-bytes": (
        [
            chunk(text("é b ")),
            chunk(
                text("c"),
                finish="STOP",
                citationMetadata={
                    "citations": [
                        {"startIndex": 3, "endIndex": 4, "uri": "https://a/", "title": "A"},
                        {"endIndex": 1, "uri": "https://b/"},
                        {"endIndex": 99, "uri": "https://c/"},
                        {"uri": "https://d/"},
                    ]
                },
            ),
        ],
        stopped(
            said(
                "é b ",
                "c",
                Source("https://a/", title="A", start=2, end=3, block=0),
                Source("https://b/", block=0),
                Source("https://c/", block=0),
                Source("https://d/", block=0),
            )
        ),
    ),
    "citation-sources": (
        [chunk(text("a"), finish="STOP", citationMetadata={"citationSources": [{"uri": "u"}]})],
        stopped(said("a", Source("u", block=0))),
    ),
    "grounding": (
        [
            chunk(text("aé")),
            chunk(
                text("b"),
                finish="STOP",
                groundingMetadata={
                    "groundingChunks": [
                        {"web": {"uri": "w", "title": "W"}},
                        {"retrievedContext": {"documentName": "d", "title": "D", "text": "cited"}},
                        {"maps": {"uri": "m"}},
                        {"image": {"sourceUri": "i", "imageUri": "j", "title": "I"}},
                        {},
                        "x",
                    ],
                    "groundingSupports": [
                        {
                            "segment": {"endIndex": 3, "text": "aé"},
                            "groundingChunkIndices": [1, 0, 9, "x"],
                        },
                        {
                            "segment": {"startIndex": 3, "endIndex": 4, "text": "b"},
                            "groundingChunkIndices": [0],
                        },
                        {
                            "segment": {"startIndex": 3, "endIndex": 4, "text": "elsewhere"},
                            "groundingChunkIndices": [2],
                        },
                    ],
                },
            ),
        ],
        stopped(
            said(
                "aé",
                "b",
                Source(None, "d", "D", "cited", 0, 2, 0),
                Source("w", title="W", start=0, end=2, block=0),
                Source("w", title="W", start=2, end=3, block=0),
                Source("m", block=0),
                Source("i", title="I", block=0),
            )
        ),
    ),
    "grounding-in-files-whose-lists-go-on": (
        [
            chunk(text("a"), groundingMetadata={"groundingChunks": [FILE]}),
            chunk(
                text("b"),
                finish="STOP",
                groundingMetadata={
                    "groundingChunks": [{"retrievedContext": {"title": "t.txt", "text": "more"}}],
                    "groundingSupports": [
                        {
                            "segment": {"endIndex": 2, "text": "ab"},
                            "groundingChunkIndices": [1, 0, 2],
                        }
                    ],
                },
            ),
        ],
        stopped(
            said(
                "a",
                Source(None, "fileSearchStores/s", cited_text="cited", block=0),
                "b",
                Source(None, "t.txt", "t.txt", "more", 0, 2, 0),
                Source(None, "fileSearchStores/s", None, "cited", 0, 2, 0),
            )
        ),
    ),
    "a-citation-with-nothing-but-a-title": (
        [
            chunk(
                text("a"),
                finish="STOP",
                citationMetadata={"citations": [{"endIndex": 1, "uri": "", "title": "A book"}]},
            )
        ],
        stopped(said("a", Source(None, "A book", "A book", None, 0, 1, 0))),
    ),
    "grounding-of-the-second-text": (
        [
            chunk(text("a b"), {"inlineData": {"mimeType": "image/png", "data": "A"}}, text("c d")),
            chunk(
                finish="STOP",
                groundingMetadata={
                    "groundingChunks": [{"web": {"uri": "w"}}],
                    "groundingSupports": [
                        {
                            "segment": {
                                "partIndex": 2,
                                "startIndex": 2,
                                "endIndex": 3,
                                "text": "d",
                            },
                            "groundingChunkIndices": [0],
                        }
                    ],
                },
            ),
        ],
        stopped(
            said("a b"),
            Media(1, "image/png", data="A"),
            said("c d", Source("w", start=2, end=3, block=2), block=2),
        ),
    ),
    "finish-message": (
        [chunk(text("a"), finish="STOP", finishMessage="all is said")],
        stopped(said("a", Notice("finish_message", "all is said"))),
    ),
    "what-is-unknown": (
        [chunk({"novel": {"a": 1}}, "x", text("a"), novelty=[1]), {"more": 1}, STOP],
        stopped(said("a")),
    ),
    "a-filter-that-left-nothing": (
        [chunk(finish="SAFETY")],
        ended(reason="content_filter", raw="SAFETY"),
    ),
    **{
        f"finish-{raw}": ([chunk(text("a"), finish=raw)], ended(said("a"), reason=reason, raw=raw))
        for raw, reason in (
            *(("MAX_TOKENS", "length"), ("CONTINUATION", "pause"), ("OTHER", "unknown")),
            *((raw, "content_filter") for raw in ("SAFETY", "RECITATION", "SPII", "MODEL_ARMOR")),
            *((raw, "content_filter") for raw in ("LANGUAGE", "IMAGE_SAFETY", "NO_IMAGE")),
            *((raw, "unknown") for raw in ("FINISH_REASON_UNSPECIFIED", "PUP_LIMITED_DISABLED")),
            ("NEW_IN_2027", "unknown"),
        )
    },
    **{
        f"a-reason-again-{number}": (
            [chunk(text("a"), finish=first), last],
            ended(said("a", *rest), reason=reason, raw=raw),
        )
        for number, (first, last, rest, reason, raw) in enumerate(AGAIN)
    },
}

WHOLE = chunk(text("a"), finish="STOP")
TWO = {"candidates": [candidate(text("a"), finish="STOP"), candidate(text("b"), index=1)]}
BLOCK = {"promptFeedback": {"blockReason": "SAFETY"}}
OUT_OF_ORDER = [partial(path, numberValue=1) for path in ("$.a.x", "$.b", "$.a.y")]
ENDS: dict[str, tuple[bytes, Any]] = {
    "no-finish": (sse(chunk(text("a"))), TRUNCATED),
    "no-finish-of-the-second": (sse(TWO), TRUNCATED),
    "a-finish-of-each": (sse(TWO, {"candidates": [candidate(finish="STOP", index=1)]}), FINISHED),
    "one-chunk-for-a-body": (json.dumps(WHOLE, indent=2).encode(), FINISHED),
    "one-chunk-unterminated": (b"data: " + json.dumps(WHOLE).encode(), FINISHED),
    "a-chunk-that-was-cut": (sse(WHOLE) + b'data: {"candi', TRUNCATED),
    "done": (sse(WHOLE) + b"data: [DONE]", FINISHED),
    "half-a-field": (sse(WHOLE) + b"da", FINISHED),
    "an-empty-field": (sse(WHOLE) + b"data: ", FINISHED),
    "words-unterminated": (sse(WHOLE) + b": bye", FINISHED),
    "an-unknown-event": (b"event: ping\ndata: x\n\n" + sse(WHOLE), FINISHED),
    "a-call-that-was-not-closed": (sse(chunk(call("f", willContinue=True)), STOP), TRUNCATED),
    "arguments-out-of-order": (sse(chunk(call("f", partialArgs=OUT_OF_ORDER)), STOP), INVALID),
    "a-block-amid-text": (sse(chunk(text("a")), BLOCK), failed("content_filtered")),
    "a-block-after-the-whole": (sse(WHOLE, BLOCK), FINISHED),
    "a-key-for-a-body": (b'{"detail": "Invalid API key"}', failed("upstream_auth")),
    "a-message-for-a-body": (b'{"message": "no model m"}', UNAVAILABLE),
    **{
        f"nothing-{number}": (body, UNAVAILABLE)
        for number, body in enumerate(
            (b"", b"\n", b"[]", b": \n\n", b"data: \n\n", b"data: [DONE]\n\n")
        )
    },
    **{
        f"finish-{raw}": (sse(chunk(text("a"), finish=raw)), end)
        for raw, end in (
            ("MALFORMED_FUNCTION_CALL", failed("upstream_tool_failed")),
            ("UNEXPECTED_TOOL_CALL", failed("upstream_tool_failed")),
            ("TOO_MANY_TOOL_CALLS", failed("upstream_tool_failed")),
            ("MALFORMED_RESPONSE", UNAVAILABLE),
            ("MISSING_THOUGHT_SIGNATURE", failed("upstream_invalid_request")),
        )
    },
    **{
        f"garbage-{number}-{when}": (before + garbage, end)
        for number, garbage in enumerate(
            (b"data: {\n\n", b"data: 5\n\n", b"data: null\n\n", b"data: [5]\n\n")
        )
        for when, before, end in (("first", b"", INVALID), ("late", sse(WHOLE), FINISHED))
    },
}

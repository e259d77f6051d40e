"""Gemini's answers as no recording has them: bodies written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.events import (
    Event,
    Notice,
    Source,
    TextDelta,
    TokenCounts,
)
from tests.dialects.gemini.written import (
    BLOCK,
    MEANINGS,
    WHOLE,
    chunk,
    sse,
    text,
)
from tests.dialects.streams import (
    CUT,
    body_of,
    check,
    end_of,
    error_of,
    joined,
    kinds,
    play,
    recordings,
)

pytestmark = pytest.mark.pure


def array(*chunks: Any) -> bytes:
    return b"[" + b"\n,\r\n".join(json.dumps(chunk, indent=2).encode() for chunk in chunks) + b"]\n"


def read(*chunks: Any, **options: Any) -> list[Event]:
    """Return the events of the chunks, which come as events or as an array to the same effect."""
    found = play([sse(*chunks)], dialect="gemini", **options)
    check(found)
    assert play([array(*chunks)], dialect="gemini", **options) == found
    return found


def test_an_array_means_what_its_elements_mean_as_events() -> None:
    for chunks, expected in MEANINGS.values():
        assert expected == play([array(*chunks)], dialect="gemini")


def test_the_finish_message_says_what_was_malformed() -> None:
    found = read(chunk(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed call: f(("))
    error = error_of(found)
    assert error.message.endswith("try again: Malformed call: f((")
    assert "notice" not in kinds(found)


USAGES = [
    ({}, None),
    ({"trafficType": "ON_DEMAND"}, None),
    ({"promptTokenCount": 3, "totalTokenCount": 3}, TokenCounts(3, None, 3)),
    (
        {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
        TokenCounts(3, 4, 7),
    ),
    (
        {
            "promptTokenCount": 3,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 20,
            "totalTokenCount": 37,
            "cachedContentTokenCount": 2,
        },
        TokenCounts(13, 24, 37, 2, None, 20),
    ),
    ({"promptTokenCount": 3, "thoughtsTokenCount": 20}, TokenCounts(3, 20, None, None, None, 20)),
    # By the total, the prompt has the tools' tokens already.
    (
        {
            "promptTokenCount": 13,
            "toolUsePromptTokenCount": 10,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 20,
            "totalTokenCount": 37,
        },
        TokenCounts(13, 24, 37, None, None, 20),
    ),
    # By the total, the candidates have the thoughts' already.
    (
        {
            "promptTokenCount": 3,
            "candidatesTokenCount": 24,
            "thoughtsTokenCount": 20,
            "totalTokenCount": 27,
        },
        TokenCounts(3, 24, 27, None, None, 20),
    ),
    # A total that is no sum decides nothing.
    (
        {"promptTokenCount": 3, "thoughtsTokenCount": 20, "totalTokenCount": 99},
        TokenCounts(3, 20, 99, None, None, 20),
    ),
]


@pytest.mark.parametrize(("usage", "counts"), USAGES)
def test_usage(usage: dict[str, int], counts: TokenCounts | None) -> None:
    found = read({**chunk(text("a"), finish="STOP"), "usageMetadata": usage})

    assert end_of(found).usage == counts
    assert ("usage" in kinds(found)) == (counts is not None)


def test_a_block_and_a_malformed_call_say_how_they_ended() -> None:
    assert end_of(read(chunk(text("a")), BLOCK)).finish_reason == "content_filter"
    assert end_of(read(chunk(finish="MALFORMED_FUNCTION_CALL"))).finish_reason == "error"


def test_an_empty_answer_may_be_tried_again_and_late_garbage_is_noted() -> None:
    assert error_of(play([b""], dialect="gemini")).retryable
    assert "notice" in kinds(play([sse(WHOLE) + b"data: 5\n\n"], dialect="gemini"))


EXHAUSTED = {
    "error": {
        "code": 429,
        "message": "Please retry in 48.9s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}],
    }
}
ERRORS: list[tuple[Any, str]] = [
    (EXHAUSTED, "upstream_rate_limited"),
    ({"error": {"code": 503, "status": "UNAVAILABLE"}}, "upstream_overloaded"),
    ({"error": {"code": 500, "status": "INTERNAL"}}, "upstream_unavailable"),
    ({"error": {"code": 504, "status": "DEADLINE_EXCEEDED"}}, "upstream_timeout"),
    ({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}, "upstream_invalid_request"),
    ({"error": "out of order"}, "upstream_unavailable"),
]


@pytest.mark.parametrize(("error", "code"), ERRORS)
@pytest.mark.parametrize("before", [[], [chunk(text("a"))], [chunk(text("a"), finish="STOP")]])
def test_errors_fail_the_answer_wherever_they_come(
    error: dict[str, Any], code: str, before: list[Any]
) -> None:
    pretty = json.dumps(error, indent=2).encode()
    ways = [
        sse(*before, error),
        sse(*before) + pretty + b"\n",  # as Google sends them, without any "data:"
        sse(*before) + pretty,
        sse(*before) + b"data: [" + json.dumps(error).encode() + b"]\r\n\r\n",
        sse(*before) + b"event: error\r\ndata: " + json.dumps(error).encode() + b"\r\n\r\n",
        array(*before, error),
    ]
    for way in ways:
        found = play([way], dialect="gemini")
        check(found)
        assert error_of(found).code == code
        assert end_of(found).finish_reason == (
            "stop" if before and "finish" in str(before) else "error"
        )
        if error is EXHAUSTED:
            assert error_of(found).retry_after_s == 48


def truncated(found: list[Event]) -> bool:
    check(found)
    error = end_of(found).error
    return error is not None and error.code == "upstream_truncated"


def test_an_array_ends_with_its_bracket() -> None:
    whole = array(chunk(text("a")), chunk(text("b"), finish="STOP"))
    end = whole.rindex(b"]")

    assert end_of(play([whole[: end + 1]], dialect="gemini")).status == "completed"
    assert end_of(play([whole[: end + 1]], dialect="gemini", cut=CUT)).status == "completed"
    for size in range(1, end + 1):
        assert truncated(play([whole[:size]], dialect="gemini"))
        assert end_of(play([whole[:size]], dialect="gemini", cut=CUT)).status == "failed"


def test_a_lost_connection_does_no_harm_after_all_that_was_asked_for() -> None:
    whole = sse(WHOLE)

    found = play([whole], dialect="gemini", cut=CUT)
    assert end_of(found).status == "completed"
    assert any(isinstance(e, Notice) and e.code == "upstream_timeout" for e in found)
    assert end_of(play([whole], dialect="gemini", cut=CUT, choices=2)).status == "failed"
    assert end_of(play([whole], dialect="gemini", choices=2)).status == "completed"


@pytest.mark.parametrize("row", recordings("gemini", "gemini/grounding-search.sse"))
def test_the_sources_of_a_recording_stand_where_they_say(row: dict[str, Any]) -> None:
    found = play([body_of(row)], dialect="gemini")
    answer = joined(found, TextDelta)
    last = next(line for line in body_of(row).decode().splitlines() if "groundingSupports" in line)
    metadata = json.loads(last[6:])["candidates"][0]["groundingMetadata"]
    pages = [c["web"] for c in metadata["groundingChunks"]]
    expected = [
        (support["segment"]["text"], pages[number]["uri"], pages[number]["title"])
        for support in metadata["groundingSupports"]
        for number in support["groundingChunkIndices"]
    ]
    sources = [e for e in found if isinstance(e, Source)]

    assert len(expected) == 9
    assert [(answer[s.start : s.end], s.url, s.title) for s in sources] == expected
    assert {s.block for s in sources} == {0}

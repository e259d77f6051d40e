"""Anthropic Messages as no recording has it: bodies written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.dialects.anthropic.upstream.parser import Parser
from app.errors import UpstreamError
from app.events import (
    ChoiceEnd,
    Event,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StreamEnd,
    TokenCounts,
    Usage,
)
from app.framing.sse import Message
from tests.dialects import streams
from tests.dialects.anthropic.written import STOP, WHOLE, head, last, sse, start, text
from tests.dialects.blocks import call as called
from tests.dialects.blocks import text as said
from tests.dialects.streams import check, end_of, error_of, kinds

pytestmark = pytest.mark.pure


def play(pieces: list[bytes], *, cut: UpstreamError | None = None) -> list[Event]:
    return streams.play(pieces, dialect="anthropic", cut=cut)


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


def test_an_error_says_what_the_caller_can_mend() -> None:
    error = {"type": "invalid_request_error", "message": "messages.0: no such role"}
    found = play([sse({"type": "error", "error": error})])

    assert kinds(found) == ["stream.end"]
    end = error_of(found)
    assert end.message == "upstream 'u' refused the request: messages.0: no such role"

"""Responses as no recording has it: events written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.dialects.openai_responses.upstream.parser import Parser
from app.events import ErrorInfo, Event, Source, StreamEnd, TokenCounts, Usage
from app.framing.sse import Message
from tests.dialects.blocks import reasoning, text
from tests.dialects.openai_responses.written import (
    COMPLETED,
    WHOLE,
    call,
    called,
    delta,
    over,
    sse,
    stopped,
)
from tests.dialects.streams import CUT, check, end_of, play

pytestmark = pytest.mark.pure


def run(*payloads: dict[str, Any]) -> list[Event]:
    found = play([sse(*payloads)], dialect="openai_responses")
    check(found)
    return found


NESTED = {
    "type": "error",
    "sequence_number": 2,
    "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "m", "param": None},
}
FAILED = over("failed", error={"code": "rate_limit_exceeded", "message": "m"})
FLAT = {"type": "error", "code": "rate_limit_exceeded", "message": "m", "sequence_number": 2}


@pytest.mark.parametrize("sent", [[NESTED], [FLAT], [FAILED], [NESTED, FAILED], [FLAT, FAILED]])
def test_an_error_is_told_once(sent: list[dict[str, Any]]) -> None:
    message = "upstream 'u' has reached its rate limit; try again later"
    error = ErrorInfo("upstream_rate_limited", message, retryable=True)

    assert run(*sent) == [StreamEnd("failed", "error", error=error)]
    assert run(delta("a"), *sent) == [*text("a"), StreamEnd("failed", "error", error=error)]


def test_a_failed_response_has_its_usage() -> None:
    found = run(over("failed", error=None, usage={"input_tokens": 3}))

    assert end_of(found).usage == TokenCounts(input_tokens=3)


def test_usage_is_passed_on_as_it_was_sent() -> None:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 14,
    }
    counts = TokenCounts(9, 5, 14, 4, 1, 2)

    assert run(over(usage=usage))[-2] == Usage(9, 5, 14, 4, 1, 2)
    assert end_of(run(over(usage=usage))).usage == counts


def test_a_whole_response_instead_of_a_stream_is_an_answer() -> None:
    found = play([json.dumps(WHOLE).encode()], dialect="openai_responses")

    check(found)
    assert found == called(
        reasoning("t"),
        text("a", Source("https://a", title="A", start=0, end=2, block=1), block=1),
        call("f", "{}", block=2),
    )


def test_the_names_are_the_first_that_came() -> None:
    parser = Parser(upstream="u")
    for name in ("first", "second"):
        response = {"type": "response.created", "response": {"id": name, "model": f"of-{name}"}}
        parser.feed(Message("message", json.dumps(response)))

    assert (parser.upstream_id, parser.model) == ("first", "of-first")


def test_a_connection_that_is_lost_after_the_end_does_no_harm() -> None:
    late = play([sse(delta("a"), COMPLETED)], dialect="openai_responses", cut=CUT)

    assert late == stopped(text("a"))

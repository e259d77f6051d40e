"""Responses as no recording has it: events written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.dialects.openai_responses.upstream.parser import Parser
from app.events import (
    ChoiceEnd,
    ErrorInfo,
    Event,
    Source,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    Usage,
)
from app.framing.sse import Message
from tests.dialects.blocks import reasoning, text
from tests.dialects.openai_responses.written import (
    CITED,
    COMPLETED,
    added,
    call,
    called,
    delta,
    done,
    on,
    over,
    said,
    sse,
    stopped,
)
from tests.dialects.streams import CUT, check, end_of, play, tool_calls

pytestmark = pytest.mark.pure


def run(*payloads: dict[str, Any]) -> list[Event]:
    found = play([sse(*payloads)], dialect="openai_responses")
    check(found)
    return found


def completed_as(status: str, reason: str | None = None) -> dict[str, Any]:
    """A response that the event calls completed, and that says itself what it is."""
    details = {"incomplete_details": {"reason": reason}} if reason else {}
    return {**over(status, **details), "type": "response.completed"}


def code_of(found: list[Event]) -> str | None:
    """The code of the error that the stream ended with."""
    error = end_of(found).error
    return error.code if error else None


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (over("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (over("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (over("incomplete", incomplete_details={"reason": "max_messages"}), "unknown"),
        (over("incomplete", incomplete_details=None), "unknown"),
        (completed_as("incomplete", "max_output_tokens"), "length"),
        (completed_as("incomplete", "content_filter"), "content_filter"),
        (completed_as("incomplete", None), "unknown"),
        (completed_as("completed", "max_output_tokens"), "length"),
    ],
)
def test_an_incomplete_answer_says_why(end: dict[str, Any], reason: Any) -> None:
    found = run(delta("a"), end)

    assert found == [*text("a"), ChoiceEnd(reason, "incomplete"), StreamEnd("completed", reason)]


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
        over("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )

    assert tool_calls(found)[0]["arguments"] == '{"a'
    assert end_of(found).finish_reason == "length"


def test_an_answer_that_was_cancelled_there_is_not_completed() -> None:
    found = run(delta("a"), over("cancelled"))

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
FAILED = over("failed", error={"code": "rate_limit_exceeded", "message": "m"})


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
    found = run(over("failed", error=error, usage={"input_tokens": 3}))

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

    assert run(over(usage=usage))[-2] == Usage(9, 5, 14, 4, 1, 2)
    assert end_of(run(over(usage=usage))).usage == counts


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

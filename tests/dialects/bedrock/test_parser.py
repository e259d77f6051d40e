"""Converse as no recording has it: frames written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app import events
from app.dialects.bedrock.upstream.parser import Parser
from app.events import ContentFilter, Event, TextDelta, TokenCounts
from app.framing.eventstream import TRUNCATED
from app.framing.sse import Message
from tests.dialects.bedrock.written import (
    BEGIN,
    BEGUN,
    EXCEPTIONS,
    USED,
    delta,
    finish,
    metadata,
    stop,
)
from tests.dialects.streams import body_of, check, end_of, error_of, kinds, play, recordings
from tests.framing.frames import exception

pytestmark = pytest.mark.pure


def read(*frames: bytes) -> list[Event]:
    found = play([b"".join(frames)], dialect="bedrock_converse")
    check(found)
    return found


def test_usage_counts_the_cache_into_the_input() -> None:
    used = {**USED, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 100, "totalTokens": 113}
    found = read(BEGUN, finish(), metadata(usage=used))

    assert end_of(found).usage == TokenCounts(111, 2, 113, 10, 100)


def test_a_malformed_answer_has_its_usage() -> None:
    end = end_of(read(BEGUN, finish("malformed_tool_use"), metadata()))

    assert end.usage == TokenCounts(1, 2, 3)


@pytest.mark.parametrize(("name", "payload", "code"), EXCEPTIONS)
def test_nothing_is_told_after_an_exception(name: str, payload: Any, code: str) -> None:
    found = read(BEGUN, exception(name, payload), delta(0, text="b"), finish())
    last = ("upstream_invalid_request", "context_length_exceeded", "upstream_auth")

    assert TextDelta(0, "b") not in found
    assert error_of(found).retryable == (code not in last)


def test_an_exception_after_the_finish_keeps_the_finish() -> None:
    found = read(BEGUN, finish("max_tokens"), exception("x", {}))

    assert end_of(found).status == "failed"
    assert end_of(found).finish_reason == "length"


def test_an_exception_without_json_is_one_too() -> None:
    parser = Parser(upstream="u")
    found = parser.feed(Message("exception:throttlingException", "<html>"))

    assert error_of(found).code == "upstream_rate_limited"


@pytest.mark.parametrize("data", ["", "[1]", '{"a', "5"])
def test_a_payload_that_is_no_object_fails_an_answer_that_is_not_finished(data: str) -> None:
    parser = Parser(upstream="u")
    found = parser.feed(Message("event:contentBlockDelta", data))
    assert error_of(found).code == "upstream_invalid_response"

    parser = Parser(upstream="u")
    parser.feed(Message("event:messageStop", '{"stopReason": "end_turn"}'))
    found = parser.feed(Message("event:metadata", data)) + parser.close(None)
    assert kinds(found)[0] == "notice"
    assert end_of(found).status == "completed"


GUARDRAIL = {
    "actionReason": "Guardrail blocked.",
    "modelOutput": ["the secret is 42"],
    "inputAssessment": {
        "g": {
            "topicPolicy": {
                "topics": [{"name": "money", "type": "DENY", "action": "BLOCKED", "detected": True}]
            },
            "wordPolicy": {
                "customWords": [{"match": "bad", "action": "BLOCKED"}],
                "managedWordLists": [{"match": "worse", "type": "PROFANITY", "action": "NONE"}],
            },
        }
    },
    "outputAssessments": {
        "g": [
            {
                "contentPolicy": {
                    "filters": [{"type": "HATE", "confidence": "LOW", "action": "NONE"}]
                },
                "sensitiveInformationPolicy": {
                    "piiEntities": [{"match": "a@b.c", "type": "EMAIL", "action": "ANONYMIZED"}],
                    "regexes": [{"name": "n", "regex": "x+", "match": "xx", "action": "NONE"}],
                },
                "invocationMetrics": {"usage": {"topicPolicyUnits": 1}},
            }
        ]
    },
}


def test_a_guardrails_trace_is_told_without_what_it_hid() -> None:
    found = read(
        BEGIN,
        delta(0, text="Sorry."),
        stop(0),
        finish("guardrail_intervened"),
        metadata(trace={"guardrail": GUARDRAIL}),
    )

    money = {"type": "DENY", "name": "money", "action": "BLOCKED", "detected": True}
    assert [e for e in found if isinstance(e, ContentFilter)] == [
        ContentFilter(
            "prompt",
            {
                "topicPolicy": {"filtered": True, "findings": [money]},
                "wordPolicy": {
                    "filtered": True,
                    "findings": [{"action": "BLOCKED"}, {"type": "PROFANITY", "action": "NONE"}],
                },
            },
            True,
        ),
        ContentFilter(
            "completion",
            {
                "contentPolicy": {
                    "filtered": False,
                    "findings": [{"type": "HATE", "action": "NONE", "confidence": "LOW"}],
                },
                "sensitiveInformationPolicy": {
                    "filtered": True,
                    "findings": [
                        {"type": "EMAIL", "action": "ANONYMIZED"},
                        {"name": "n", "action": "NONE"},
                    ],
                },
            },
            True,
        ),
    ]
    assert end_of(found).finish_reason == "content_filter"
    assert TextDelta(0, "Sorry.") in found
    whole = b"".join(events.encode(e) for e in found).decode()
    for hidden in ("42", "bad", "worse", "a@b.c", "xx", "x+"):
        assert hidden not in whole


@pytest.mark.parametrize("row", recordings("bedrock_converse", "guard"))
def test_what_a_recorded_guardrail_masked_stays_masked(row: dict[str, Any]) -> None:
    found = play([body_of(row)], dialect="bedrock_converse")

    (verdict,) = (e for e in found if isinstance(e, ContentFilter))
    assert (verdict.scope, verdict.filtered) == ("completion", True)
    assert [f["type"] for f in verdict.categories["sensitiveInformationPolicy"]["findings"]] == [
        "ADDRESS"
    ] * 4
    whole = b"".join(events.encode(e) for e in found).decode()
    assert not any(word in whole for word in ("Rome", "Tokyo", "Italy", "Japan"))


def test_a_prompt_router_tells_the_model_and_not_the_account() -> None:
    parser = Parser(upstream="u")
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"
    trace = {"promptRouter": {"invokedModelId": arn}}
    parser.feed(Message("event:metadata", json.dumps({"trace": trace})))

    assert parser.model == "us.amazon.nova-lite-v1:0"


def test_half_a_frame_after_the_finish_is_told_as_such() -> None:
    parser = Parser(upstream="u")
    parser.feed(Message("event:messageStop", '{"stopReason": "end_turn"}'))
    found = parser.close(Message(TRUNCATED, ""))

    assert "inside a frame" in error_of(found).message

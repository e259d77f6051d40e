"""Converse as no recording has it: frames written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app import events
from app.dialects.bedrock.upstream.parser import Parser
from app.events import ContentFilter, Event, TokenCounts
from app.framing.eventstream import TRUNCATED
from app.framing.sse import Message
from tests.dialects.bedrock.written import (
    BEGUN,
    USED,
    finish,
    metadata,
)
from tests.dialects.streams import body_of, check, end_of, error_of, kinds, play, recordings

pytestmark = pytest.mark.pure


def read(*frames: bytes) -> list[Event]:
    found = play([b"".join(frames)], dialect="bedrock_converse")
    check(found)
    return found


def test_usage_counts_the_cache_into_the_input() -> None:
    used = {**USED, "cacheReadInputTokens": 10, "cacheWriteInputTokens": 100, "totalTokens": 113}
    found = read(BEGUN, finish(), metadata(usage=used))

    assert end_of(found).usage == TokenCounts(111, 2, 113, 10, 100)


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

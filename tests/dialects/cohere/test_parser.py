"""Cohere's events as no recording has them: bodies written by hand, and what they mean."""

import json

import pytest

from app.dialects.cohere.upstream.parser import Parser, parse_usage
from app.events import (
    ChoiceEnd,
    StreamEnd,
    TokenCounts,
)
from app.framing.sse import Message
from tests.dialects.blocks import text
from tests.dialects.cohere.written import START, end, sse
from tests.dialects.streams import error_of, play

pytestmark = pytest.mark.pure


def test_a_type_may_stand_in_the_event_alone() -> None:
    body = b'event: content-delta\ndata: {"delta":{"message":{"content":{"text":"a"}}}}\n\n'
    found = play([body, b'event: message-end\ndata: {"delta":{}}\n\n'], dialect="cohere")

    assert found == [*text("a"), ChoiceEnd("unknown"), StreamEnd("completed", "unknown")]


def test_the_provider_says_why_a_call_is_broken() -> None:
    found = play(
        [sse(end("ERROR", error="try again", error_type="INVALID_TOOL_GENERATION"))],
        dialect="cohere",
    )
    error = error_of(found)
    assert error.message == "upstream 'u' produced a broken tool call; try again: try again"


def test_the_answer_has_a_name_and_no_model() -> None:
    parser = Parser(upstream="u")
    parser.feed(Message("message-start", json.dumps(START)))

    assert (parser.upstream_id, parser.model, parser.finished) == ("m", None, False)


def test_billed_units_are_no_tokens() -> None:
    assert parse_usage({"billed_units": {"input_tokens": 1, "output_tokens": 1}}) == TokenCounts()
    assert parse_usage({"tokens": {"output_tokens": 2}, "cached_tokens": 0}) == TokenCounts(
        output_tokens=2, cached_input_tokens=0
    )

"""Ollama's lines as no recording has them: bodies written by hand, and what they mean."""

import json

import pytest

from app.dialects.ollama.upstream.parser import Parser, parse_usage
from app.events import TokenCounts
from app.framing.sse import Message
from tests.dialects.ollama.written import STOPPED, done, ndjson, say
from tests.dialects.streams import CUT, play

pytestmark = pytest.mark.pure


def test_a_connection_that_is_lost_after_the_last_line_does_no_harm() -> None:
    assert STOPPED[-1] == play([ndjson(say("a"), done())], dialect="ollama", cut=CUT)[-1]


def test_the_model_is_known_and_the_answer_has_no_name() -> None:
    parser = Parser(upstream="u")
    assert (parser.model, parser.finished) == (None, False)

    parser.feed(Message("message", json.dumps(say("a"))))
    assert (parser.upstream_id, parser.model) == (None, "m")
    assert not parser.finished


def test_a_count_that_is_not_sent_is_unknown() -> None:
    assert parse_usage({}) == TokenCounts()
    assert parse_usage({"prompt_eval_count": 0, "eval_count": 0}) == TokenCounts(0, 0, 0)

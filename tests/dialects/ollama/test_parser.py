"""Ollama's lines as no recording has them: bodies written by hand, and what they mean."""

import pytest

from app.dialects.ollama.upstream.parser import parse_usage
from app.events import TokenCounts

pytestmark = pytest.mark.pure


def test_a_count_that_is_not_sent_is_unknown() -> None:
    assert parse_usage({}) == TokenCounts()
    assert parse_usage({"prompt_eval_count": 0, "eval_count": 0}) == TokenCounts(0, 0, 0)

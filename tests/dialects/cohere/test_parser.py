"""Cohere's events as no recording has them: bodies written by hand, and what they mean."""

import pytest

from app.dialects.cohere.upstream.parser import parse_usage
from app.events import (
    TokenCounts,
)

pytestmark = pytest.mark.pure


def test_billed_units_are_no_tokens() -> None:
    assert parse_usage({"billed_units": {"input_tokens": 1, "output_tokens": 1}}) == TokenCounts()
    assert parse_usage({"tokens": {"output_tokens": 2}, "cached_tokens": 0}) == TokenCounts(
        output_tokens=2, cached_input_tokens=0
    )

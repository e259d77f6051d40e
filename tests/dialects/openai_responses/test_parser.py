"""Responses as no recording has it: events written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.events import Event, Source, TokenCounts, Usage
from tests.dialects.blocks import reasoning, text
from tests.dialects.openai_responses.written import (
    WHOLE,
    call,
    called,
    over,
    sse,
)
from tests.dialects.streams import check, end_of, play

pytestmark = pytest.mark.pure


def run(*payloads: dict[str, Any]) -> list[Event]:
    found = play([sse(*payloads)], dialect="openai_responses")
    check(found)
    return found


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

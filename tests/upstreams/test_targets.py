"""What a target tells of a request that its dialect has no place for."""

import json
import sys
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.exchange import arrange
from app.policies.deadlines import Limits
from app.requests import parse_chat_request
from app.upstreams.endpoints import Upstream
from app.upstreams.targets import Target

pytestmark = pytest.mark.pure

TARGET = Target(Upstream("u", "http://127.0.0.1:9", "anthropic"), "m")
OWN = {"first_event_timeout_s": 200.0}


@pytest.mark.parametrize(
    ("own", "last", "silence_s"),
    [({}, True, 300), ({}, False, 60), (OWN, True, 200), (OWN, False, 200)],
)
def test_a_target_is_left_after_a_minute_if_another_follows(
    own: dict[str, float], last: bool, silence_s: float
) -> None:
    target = Target(Upstream("u", "http://127.0.0.1:9"), "m", timeouts=own)

    assert silence_s == target.silence_s(Limits(), last=last)


def told(target: Target, **fields: object) -> list[str]:
    body = {"messages": [{"role": "user", "content": "x"}], **fields}
    request = target.build_request(parse_chat_request(json.dumps(body).encode()))
    return [notice.message for notice in request.notices]


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_a_request_is_fitted_once_for_its_body_and_its_notices(dialect: str) -> None:
    """Arranging walks the whole conversation."""
    target = Target(Upstream("u", "http://127.0.0.1:9", dialect), "m")
    parts = b'[{"type": "text", "text": "x"}]'  # a conversation of bare texts needs no arranging
    chat = parse_chat_request(b'{"messages": [{"role": "user", "content": %b}]}' % parts)
    arranged = 0

    def profile(frame: Any, event: str, arg: object) -> None:
        nonlocal arranged
        arranged += event == "call" and frame.f_code is arrange.__code__

    sys.setprofile(profile)
    try:
        target.build_request(chat)
    finally:
        sys.setprofile(None)

    assert 1 == arranged


def test_fields_without_a_place_are_told_once_and_together() -> None:
    assert ["upstream 'u' does not support logprobs, seed: dropped"] == told(
        TARGET, seed=0, logprobs=True, temperature=0
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"frequency_penalty": 0, "presence_penalty": 0.0},
        {"logprobs": False, "top_logprobs": 0},
        {"metadata": {}, "n": 1},
    ],
)
def test_a_field_that_says_what_holds_anyway_is_not_told(fields: dict[str, object]) -> None:
    assert [] == told(TARGET, **fields)


def test_what_would_be_refused_is_told_by_the_model_that_would() -> None:
    thinking = {"reasoning_effort": "low", "temperature": 0}
    said = "upstream 'u' requires temperature 1 for a model that thinks: dropped"
    gemini = Target(Upstream("u", "http://127.0.0.1:9", "gemini"), "gemini-3.6-flash")

    assert [said] == told(TARGET, **thinking)
    assert [] == told(TARGET, temperature=0)
    assert ["upstream 'u' does not support reasoning_effort 'max': sent 'high'"] == told(
        gemini, reasoning_effort="max"
    )

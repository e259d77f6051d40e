"""A provider's refusal keeps its own code, and the field that is at fault."""

import json
from typing import Any

import pytest

from app.dialects.answering.openai_errors import error_object
from app.dialects.reading.provider_errors import parse_error, parse_failure
from app.errors import RelayError

pytestmark = pytest.mark.pure


def refuse(status: int, error: Any) -> RelayError:
    body = json.dumps({"error": error}).encode()
    return parse_failure(status, {}, body, upstream="u", now=0)


UNSUPPORTED = {
    "message": "Unsupported value: 'temperature' does not support 2 with this model.",
    "type": "invalid_request_error",
    "param": "temperature",
    "code": "unsupported_value",
}


def test_code_and_param_of_a_refusal_reach_the_client():
    failed = refuse(400, UNSUPPORTED)
    shown = error_object(failed.info())

    assert ("upstream_invalid_request", 400) == (failed.code, failed.status)
    assert ("unsupported_value", "temperature") == (shown["code"], shown["param"])
    assert "does not support 2" in shown["message"]


def test_they_are_kept_with_the_stream():
    failed = parse_error({"error": UNSUPPORTED}, upstream="u")

    assert failed.info() == RelayError.of(failed.info()).info()
    assert ("unsupported_value", "temperature") == (failed.provider_code, failed.param)


@pytest.mark.parametrize(
    "told",
    [
        {"code": None, "param": None},
        {"code": 400, "param": ["a"]},
        {"code": "a sentence of words", "param": "x" * 101},
        {"code": "sk-live/secret?", "param": "<b>"},
    ],
)
def test_what_is_no_name_is_left_out(told: dict[str, Any]):
    failed = refuse(400, {**UNSUPPORTED, **told})

    assert (None, None) == (failed.provider_code, failed.param)
    assert "upstream_invalid_request" == error_object(failed.info())["code"]


@pytest.mark.parametrize("status", [401, 402, 429, 500, 503])
def test_of_the_relays_own_account_clients_are_told_nothing(status: int):
    failed = refuse(status, {"message": "m", "code": "some_code", "param": "p"})

    assert (None, None) == (failed.provider_code, failed.param)


def test_full_context_has_the_code_that_clients_look_for():
    failed = refuse(400, {**UNSUPPORTED, "code": "context_length_exceeded", "param": "messages"})
    shown = error_object(failed.info())

    assert ("context_length_exceeded", "messages") == (shown["code"], shown["param"])

"""A large event of an upstream neither holds the event loop nor takes memory without bound."""

import json
from typing import Any

import pytest

from app.dialects.reading.answer_bounds import MAX_EVENTS, MAX_VALUES
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import StreamEnd, TextDelta
from app.framing.sse import Message

pytestmark = pytest.mark.pure


def feed(dialect: str, payload: Any, *, tail: bool = False) -> list[Any]:
    data = payload if isinstance(payload, str) else json.dumps(payload)
    parser = UPSTREAM_FORMATS[dialect].parser(upstream="u")
    message = Message("chunk", data)
    return [*(parser.close(message) if tail else parser.feed(message))]


def error_of(found: list[Any]) -> str:
    end = found[-1]
    assert isinstance(end, StreamEnd)
    assert end.error is not None
    assert "upstream_invalid_response" == end.error.code
    return end.error.message


@pytest.mark.parametrize("dialect", UPSTREAM_FORMATS)
def test_event_of_too_many_values_is_not_decoded(dialect: str):
    found = feed(dialect, '{"x":[' + "1," * MAX_VALUES + "1]}")

    assert f"upstream 'u' sent more than {MAX_VALUES} values in one event" == error_of(found)


TEXTS = {
    "openai_chat": lambda n: {"choices": [{"index": 0, "delta": {"content": "a"}}] * n},
    "gemini": lambda n: {
        "candidates": [{"content": {"parts": [{"text": "a"}, {"thought": True, "text": "b"}] * n}}]
    },
}


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("dialect", TEXTS)
def test_event_of_too_many_pieces_ends_the_answer(dialect: str, tail: bool):
    payload = TEXTS[dialect](MAX_EVENTS + 1)
    found = feed(dialect, payload, tail=tail)

    assert "pieces of an answer in one event" in error_of(found)
    assert MAX_EVENTS <= len(found) <= MAX_EVENTS + 4


def test_image_and_a_long_text_in_one_event_are_taken():
    image = {"inlineData": {"mimeType": "image/png", "data": "A" * 6 * 2**20}}
    payload = {"candidates": [{"content": {"parts": [{"text": "a" * 2**20}, image]}}]}
    found = feed("gemini", payload)

    assert ["a" * 2**20] == [event.text for event in found if isinstance(event, TextDelta)]
    assert not any(isinstance(event, StreamEnd) for event in found)

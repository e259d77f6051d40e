"""Payloads that providers sent, whose framing was not kept, are understood."""

import json
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import ChoiceEnd, Event, ReasoningDelta, RefusalDelta, TextDelta, TokenCounts
from app.framing.sse import Message
from tests.dialects.streams import absent, body_of, check, common, end_of, index, joined, tool_calls

pytestmark = pytest.mark.pure

PAYLOAD_DIALECT = {
    "anthropic": "anthropic",
    "cohere_v2": "cohere",
    "gemini": "gemini",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
}
"""The dialect that reads a format of the index of payloads."""


def payloads() -> list[Any]:
    found = index("payloads/index.json")
    if found is None:
        return [absent()]
    rows = [common(row) for row in found["payloads"] if row["format"] in PAYLOAD_DIALECT]
    return [pytest.param(row, id=row["file"]) for row in rows]


def feed(row: dict[str, Any]) -> list[Event]:
    parser = UPSTREAM_FORMATS[PAYLOAD_DIALECT[row["format"]]].parser(upstream="u")
    lines = body_of(row).decode().splitlines()
    found = [event for line in lines for event in parser.feed(Message("message", line))]
    return found + parser.close(None)


@pytest.mark.parametrize("row", payloads())
def test_the_events_say_what_the_provider_said(row: dict[str, Any]) -> None:
    found = feed(row)

    check(found)
    truth = row["truth"]
    (choice,) = truth["choices"]
    assert joined(found, TextDelta) == choice["text"]
    assert joined(found, ReasoningDelta) == choice["reasoning"]
    assert joined(found, RefusalDelta) == choice["refusal"]
    said = [{**call, "arguments": json.loads(call["arguments"])} for call in tool_calls(found)]
    assert [(c["name"], c["arguments"]) for c in said] == [
        (c["name"], c["arguments_parsed"] or {}) for c in choice["tool_calls"]
    ]
    for call, known in zip(said, choice["tool_calls"], strict=True):
        assert known["id"] in (call["id"], None)  # where none was sent, one is made up
    end = end_of(found)
    assert end.status == ("failed" if truth["error"] else "completed")
    assert end.finish_reason == choice["finish_reason"]
    reasons = [e.finish_reason_raw for e in found if isinstance(e, ChoiceEnd)]
    assert reasons == ([] if truth["error"] else [choice["finish_reason_raw"]])
    assert end.usage == (TokenCounts(**truth["usage"]) if truth["usage"] else None)

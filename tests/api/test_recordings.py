"""Recorded provider streams through the running relay: sockets, log, native frames."""

import itertools
import json
import random
from typing import Any

import pytest

from app.testing.upstream import Step, chunk, chunked_head, send
from tests.api.test_faults import check_form
from tests.dialects.streams import DIALECT_OF, body_of, recordings, usage_of
from tests.serving import HELLO, chat, serve_script

pytestmark = pytest.mark.proving


def script(body: bytes, seed: int) -> list[Step]:
    """The body in chunks cut at random places."""
    cuts = sorted(random.Random(seed).sample(range(1, len(body)), min(40, len(body) - 1)))
    edges = [0, *cuts, len(body)]
    pieces = [chunk(body[start:end]) for start, end in itertools.pairwise(edges)]
    return [chunked_head(), *pieces, send("0\r\n\r\n")]


def joined(events: list[dict[str, Any]], kind: str, choice: int) -> str:
    return "".join(
        event["text"]
        for event in events
        if event["type"] == kind and event.get("choice", 0) == choice
    )


def called(events: list[dict[str, Any]], choice: int) -> list[tuple[str, str, Any]]:
    """The tool calls of a choice: id, name, and the arguments as what they say."""
    ends = {e["block"]: e["arguments"] for e in events if e["type"] == "tool_call.end"}
    return [
        (event["id"], event["name"], parsed(ends[event["block"]]))
        for event in events
        if event["type"] == "tool_call.start" and event.get("choice", 0) == choice
    ]


def parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@pytest.mark.parametrize("row", recordings())
async def test_recorded_stream_comes_out_as_its_truth_says(row):
    truth, body, dialect = row["truth"], body_of(row), DIALECT_OF[row["format"]]
    async with serve_script(script(body, seed=len(body)), dialect=dialect) as (relay, _):
        if truth["error"] and not any(choice["text"] for choice in truth["choices"]):
            response = await relay.client.post("/v1/chat", json=HELLO)
            if response.status_code != 200:
                assert response.json()["code"].startswith("upstream_")
                return
        events = await chat(relay)

    check_form(events)
    end = events[-1]
    assert ("failed" if truth["error"] else "completed") == end["status"], end
    for choice in truth["choices"]:
        index = choice["index"]
        assert choice["text"] == joined(events, "text.delta", index)
        assert choice["reasoning"] == joined(events, "reasoning.delta", index)
        assert choice["refusal"] == joined(events, "refusal.delta", index)
        found = called(events, index)
        assert [
            (call["id"] or made_up, call["name"], parsed(call["arguments"] or "{}"))
            for call, (made_up, _, _) in zip(choice["tool_calls"], found, strict=True)
        ] == found
    if usage := usage_of(row):
        known = {name: value for name, value in usage.items() if value is not None}
        told = [event for event in events if event["type"] == "usage"]
        assert [known] == [{k: v for k, v in one.items() if k != "type"} for one in told]
        if not end["usage"].get("estimated"):
            assert known == end["usage"]
        else:  # what the provider said is not all, or cannot be true
            assert not known.get("input_tokens") or not known.get("output_tokens")

"""However a host counts items and parts, nothing is told twice and nothing is lost."""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from app.events import Event, Notice, ReasoningDelta, Source, TextDelta, ToolCallDelta
from tests.dialects.streams import check, end_of, joined, play, tool_calls

pytestmark = pytest.mark.pure

Payload = dict[str, Any]
CITED = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
REASONING = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm. So."}]}
TEXT: Payload = {"type": "output_text", "text": "Hello wörld 🌊", "annotations": [CITED]}
SECOND: Payload = {"type": "output_text", "text": "Hello again", "annotations": []}
MESSAGE = {"type": "message", "role": "assistant", "content": [TEXT]}
CALL = {"type": "function_call", "name": "f", "call_id": "c", "arguments": '{"a": 1}'}
HALVES = {"wörld \ud83c": "wörld ", "\udf0a": "🌊"}


def event(kind: str, at: int, **more: Any) -> Payload:
    return {"type": f"response.{kind}", "output_index": at, **more}


def stream() -> list[Payload]:
    """A stream as OpenAI sends it: a thought, a text, a call."""
    found = [event("output_item.added", 0, item={"type": "reasoning", "content": []})]
    found += [
        event("reasoning_text.delta", 0, content_index=0, delta=piece) for piece in ("Hm.", " So.")
    ]
    found.append(event("reasoning_text.done", 0, content_index=0, text="Hm. So."))
    found.append(event("output_item.done", 0, item=REASONING))
    found.append(event("output_item.added", 1, item={"type": "message", "content": []}))
    found += [
        event("output_text.delta", 1, content_index=0, delta=piece)
        for piece in ("Hel", "lo ", "wörld \ud83c", "\udf0a")
    ]
    found.append(event("output_text.done", 1, content_index=0, text=TEXT["text"]))
    found.append(event("content_part.done", 1, content_index=0, part=TEXT))
    found.append(event("output_item.done", 1, item=MESSAGE))
    begun = {**CALL, "arguments": "", "status": "in_progress"}
    found.append(event("output_item.added", 2, item=begun))
    found += [event("function_call_arguments.delta", 2, delta=piece) for piece in ('{"a"', ": 1}")]
    found.append(event("function_call_arguments.done", 2, arguments=CALL["arguments"]))
    found.append(event("output_item.done", 2, item=CALL))
    response = {
        "id": "r",
        "model": "m",
        "status": "completed",
        "output": [REASONING, MESSAGE, CALL],
    }
    return [*found, {"type": "response.completed", "response": response}]


def is_whole(payload: Payload) -> bool:
    return str(payload["type"]).endswith(".done")


def is_piece(payload: Payload) -> bool:
    return str(payload["type"]).endswith(".delta")


def change(which: Callable[[Payload], bool], **fields: Callable[[int], Any]) -> Any:
    """Return what changes the indexes of some events."""

    def changed(payload: Payload) -> Payload:
        if not which(payload):
            return payload
        new = {name: how(payload[name]) for name, how in fields.items() if name in payload}
        return {**payload, **new}

    return lambda payloads: [changed(payload) for payload in payloads]


def by_token(payloads: list[Payload]) -> list[Payload]:
    """Count a part of each token, as vLLM did."""
    part = 0
    found = []
    for payload in payloads:
        if payload.get("delta") in HALVES:  # parts have whole characters
            payload = {**payload, "delta": HALVES[payload["delta"]]}
        part += is_piece(payload)
        again = {"content_index": part} if "content_index" in payload and is_piece(payload) else {}
        found.append({**payload, **again})
    return found


def without(*names: str) -> Any:
    return lambda payloads: [
        {key: value for key, value in payload.items() if key not in names} for payload in payloads
    ]


COUNTING: dict[str, Any] = {
    "as OpenAI does": lambda payloads: payloads,
    "parts from one": change(lambda p: True, content_index=lambda i: i + 1),
    "pieces from one": change(is_piece, content_index=lambda i: i + 1),
    "wholes from one": change(is_whole, content_index=lambda i: i + 1),
    "below zero": change(is_piece, content_index=lambda i: -1),
    "a part for each token": by_token,
    "no parts": without("content_index"),
    "items from one": change(lambda p: "output_index" in p, output_index=lambda i: i + 1),
    # vLLM counts the item on before it ends the one before.
    "wholes of the next item": change(is_whole, output_index=lambda i: i + 1),
    "and parts for each token": lambda payloads: by_token(
        COUNTING["wholes of the next item"](payloads)
    ),
    "and parts from one": lambda payloads: COUNTING["pieces from one"](
        COUNTING["wholes of the next item"](payloads)
    ),
    "wholes far away": change(is_whole, output_index=lambda i: i + 100),
    "no items": without("output_index"),
}
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "wholes of texts": ("output_text.done", "reasoning_text.done", "arguments.done"),
    "parts": ("content_part.done",),
    "texts and parts": ("_text.done", "arguments.done", "content_part.done"),
    "items": ("output_item.done",),
    "all but the end": (".done",),
}


def run(payloads: list[Payload]) -> list[Event]:
    body = b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads)
    found = play([body], dialect="openai_responses")
    check(found)
    return found


@pytest.mark.parametrize(("counting", "left_out"), [*product(COUNTING, LEFT_OUT)])
def test_all_is_told_once(counting: str, left_out: str) -> None:
    payloads = [
        payload
        for payload in COUNTING[counting](stream())
        if not payload["type"].endswith(LEFT_OUT[left_out] or "?")
    ]

    found = run(payloads)

    assert joined(found, ReasoningDelta) == "Hm. So."
    assert joined(found, TextDelta) == TEXT["text"]
    calls = [{"choice": 0, "id": "c", "name": "f", "arguments": CALL["arguments"]}]
    assert tool_calls(found) == calls
    assert "".join(e.arguments for e in found if isinstance(e, ToolCallDelta)) == CALL["arguments"]
    assert not [e for e in found if isinstance(e, Notice)]
    assert end_of(found).finish_reason == "tool_calls"
    cited = [e for e in found if isinstance(e, Source)]
    assert [(source.url, source.start, source.end) for source in cited] == [("https://a", 0, 2)]


@pytest.mark.parametrize("counting", COUNTING)
def test_what_pieces_lack_is_added_once(counting: str) -> None:
    missing = (*HALVES.values(), "\udf0a", " So.", ": 1}")
    payloads = [p for p in COUNTING[counting](stream()) if p.get("delta") not in missing]

    found = run(payloads)

    assert joined(found, TextDelta) == TEXT["text"]
    assert joined(found, ReasoningDelta) == "Hm. So."
    assert [call["arguments"] for call in tool_calls(found)] == [CALL["arguments"]]


@pytest.mark.parametrize("shift", [0, 1, 5])
def test_parts_that_begin_alike_are_two(shift: int) -> None:
    parts = [TEXT, SECOND]
    payloads = [event("output_item.added", 0, item={"type": "message", "content": []})]
    for index, part in enumerate(parts):
        for piece in (part["text"][:5], part["text"][5:]):
            payloads.append(event("output_text.delta", 0, content_index=index + shift, delta=piece))
        whole = {"content_index": index, "text": part["text"]}
        payloads.append(event("output_text.done", 0, **whole))
        payloads.append(event("content_part.done", 0, content_index=index, part=part))
    message = {"type": "message", "content": parts}
    payloads.append(event("output_item.done", 0, item=message))
    payloads.append({"type": "response.completed", "response": {"output": [message]}})

    assert joined(run(payloads), TextDelta) == TEXT["text"] + SECOND["text"]


def test_items_that_say_the_same_are_two() -> None:
    message = {"type": "message", "content": [TEXT]}
    payloads = []
    for index in range(2):
        payloads.append(event("output_text.delta", index, content_index=0, delta=TEXT["text"]))
        payloads.append(event("output_item.done", index, item=message))
    payloads.append(event("output_item.done", 2, item=message))
    output = [message, message, message]
    payloads.append({"type": "response.completed", "response": {"output": output}})

    assert joined(run(payloads), TextDelta) == 3 * TEXT["text"]


def test_a_whole_that_contradicts_strange_pieces_is_a_notice_and_no_text() -> None:
    message = {"type": "message", "content": [{"type": "output_text", "text": "Hallo"}]}
    payloads = [
        event("output_text.delta", 0, content_index=3, delta="Hello"),
        event("output_item.done", 0, item=message),
        {"type": "response.completed", "response": {"output": [message]}},
    ]
    found = run(payloads)

    assert joined(found, TextDelta) == "Hello"
    assert [e.code for e in found if isinstance(e, Notice)] == ["upstream_contradiction"]

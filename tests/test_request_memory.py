"""What a request takes in memory, by the allocator, is what its size is estimated at."""

import gc
import json
import tracemalloc
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.policies.admission import (
    estimate_memory,
)

MESSAGE = {"role": "user", "content": "hi"}


def shapes() -> list[tuple[str, str, dict[str, Any]]]:
    text = "x" * 50_000
    native = {"narrow text": text, "wide text": text + "\U0001f600", "Japanese": "日本" * 10_000}
    values: dict[str, Any] = {
        "lists": [[]] * 3000,
        "tables": [{}] * 3000,
        "large numbers": [10**15] * 3000,
        "texts": ["ab"] * 3000,
        "small tables": [{"a": 1}] * 2000,
        "tables in tables": [{"a": {"b": {"c": {}}}}] * 1000,
        "tables of tables": [{f"key{i}": {"a": {}}} for i in range(1000)],
        "keys": {f"k{i}": i for i in range(2000)},
        "nested": [[[[1]]]] * 1000,
    }
    part = {"type": "text", "text": "hi"}
    run = {"threadId": "t", "runId": "r", "tools": [], "context": [], "forwardedProps": {}}
    claude = {"model": "m", "max_tokens": 5}
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    return [
        *(
            ("native", name, {"messages": [{**MESSAGE, "content": c}]})
            for name, c in native.items()
        ),
        *(
            ("native", name, {"messages": [MESSAGE], "provider_options": {"a": value}})
            for name, value in values.items()
        ),
        ("native", "messages", {"messages": [MESSAGE] * 1000}),
        ("openai_chat", "messages", {"messages": [MESSAGE] * 1000}),
        ("openai_responses", "items", {"input": [{"type": "message", **MESSAGE}] * 1000}),
        ("openai_responses", "tools", {"input": "x", "tools": [tool] * 200}),
        ("anthropic", "messages", {**claude, "messages": [MESSAGE] * 1000}),
        ("anthropic", "text", {**claude, "messages": [{**MESSAGE, "content": text}]}),
        ("anthropic", "wide", {**claude, "messages": [{**MESSAGE, "content": text + "日"}]}),
        ("anthropic", "tables", {**claude, "messages": [MESSAGE], "x": [{"a": 1}] * 2000}),
        ("ui", "parts", {"id": "c", "messages": [{"role": "user", "parts": [part] * 1000}]}),
        ("ag_ui", "messages", {**run, "state": {}, "messages": [{**MESSAGE, "id": "m"}] * 500}),
    ]


@pytest.mark.parametrize(("client_format", "name", "said"), shapes())
def test_the_estimate_is_what_the_allocator_gives_or_some_more(client_format, name, said):
    body = json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()
    gc.collect()
    tracemalloc.start()
    try:
        asked = CLIENT_FORMATS[client_format].parse_request(body)
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert asked.chat.messages
    assert kept < estimate_memory(body) < 15 * kept


def test_commas_of_a_text_do_not_take_the_memory_of_all():
    said = {"messages": [{**MESSAGE, "content": "," * 2**21}]}

    assert estimate_memory(json.dumps(said).encode()) < 2**28 / 4

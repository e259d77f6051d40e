"""What a client of Chat Completions receives of what a provider of Chat Completions sent."""

import json
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from app.dialects.openai_chat.client.renderer import Renderer
from app.dialects.openai_chat.client.result import render_result
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import Event, StreamStart, StreamTarget
from tests.dialects.clients import STREAM

TEXTS = ("content", "reasoning", "reasoning_content", "refusal", "arguments")
"""Members whose pieces are joined, at any place."""


def parse(body: bytes, *, own: bool = True) -> list[Event]:
    """Return the events of an answer, as the run begins them."""
    spoken = UPSTREAM_FORMATS["openai_chat"]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u", choices=1)
    if own:
        parser.keep_provider_data()
    found = [event for message in decoder.feed(body) for event in parser.feed(message)]
    found += parser.close(decoder.close())
    model = parser.model or "m"
    start = StreamStart(STREAM, "route", 1_700_000_000, {"usage": "1"})
    return [start, StreamTarget("u", model, 1), *found]


def sent(body: bytes) -> list[Any]:
    """Return the chunks that a provider sent."""
    decoder = UPSTREAM_FORMATS["openai_chat"].decoder(max_line=2**24, max_event=2**24)
    messages = [*decoder.feed(body), *filter(None, [decoder.close()])]
    return [json.loads(m.data) for m in messages if m.data.startswith("{")]


def received(events: Iterable[Event]) -> list[Any]:
    """Return the chunks that a client receives."""
    renderer = Renderer(STREAM)
    frames = [frame.data for event in events for frame in renderer.feed(event)]
    return [json.loads(data) for data in frames if data != b"[DONE]"]


def answer(events: list[Event]) -> Any:
    """Return the whole answer that a client receives."""
    return render_result(STREAM, events)


def walk(chunks: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the values of each member in order, without repetitions: texts are one value."""
    found: dict[str, list[Any]] = {}
    for chunk in chunks:
        for name, value in chunk.items():
            if name == "choices":
                for choice in value:
                    _choice(found, f"choices.{choice.get('index', 0)}", choice)
            elif name == "usage":
                if value:
                    found = {n: v for n, v in found.items() if not n.startswith("usage.")}
                    _add_usage(found, "usage", value)
            else:
                _add(found, name, value)
    joined = {
        path: ["".join(values)]
        if path.rpartition(".")[2] in TEXTS and all(isinstance(v, str) for v in values)
        else _without_runs(values)
        for path, values in found.items()
    }
    return {path: values for path, values in joined.items() if values not in ([], [""])}


def _choice(found: dict[str, list[Any]], path: str, choice: Any) -> None:
    for name, value in choice.items():
        if name in ("delta", "message"):
            for inner, part in (value or {}).items():
                if inner == "tool_calls":
                    calls = [part] if isinstance(part, dict) else part or ()  # TGI sends one
                    for number, call in enumerate(calls):
                        place = f"{path}.tool_calls.{call.get('index', number)}"
                        _call(found, place, call)
                else:
                    _add(found, f"{path}.{name}.{inner}", part)
        elif name == "logprobs":
            for inner, part in (value or {}).items():
                found.setdefault(f"{path}.logprobs.{inner}", []).extend(part or ())
        elif name != "index":
            _add(found, f"{path}.{name}", value)


def _call(found: dict[str, list[Any]], path: str, call: Any) -> None:
    for name, value in call.items():
        if name in ("function", "custom"):
            for inner, part in value.items():
                _add(found, f"{path}.{inner}", part)
        elif name != "index":
            _add(found, f"{path}.{name}", value)


def _add_usage(found: dict[str, list[Any]], path: str, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _add_usage(found, f"{path}.{name}", inner)
    else:
        _add(found, path, value)


def _add(found: dict[str, list[Any]], path: str, value: Any) -> None:
    if value is not None and not (value == [] and path.endswith("reasoning_details")):
        found.setdefault(path, []).append(value)


def _without_runs(values: list[Any]) -> list[Any]:
    return [json.loads(text) for text, _ in groupby(json.dumps(v, sort_keys=True) for v in values)]


def compare(first: list[Any], second: list[Any]) -> dict[str, str]:
    """Return how each differing member differs: lost, changed or added."""
    before, after = walk(first), walk(second)
    found = {}
    for path in sorted(before.keys() | after.keys()):
        if path not in after:
            found[path] = "lost"
        elif path not in before:
            found[path] = "added"
        elif before[path] != after[path]:
            found[path] = "changed"
    return found

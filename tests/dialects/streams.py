"""Bodies run through the parsers of upstream formats, and checks of the events."""

import functools
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app import events
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.errors import RelayError, UpstreamError
from app.events import (
    ChoiceEnd,
    ErrorInfo,
    Event,
    LogProbs,
    Media,
    ProviderData,
    ProviderTool,
    ReasoningDelta,
    RefusalDelta,
    StreamEnd,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

STREAMS = Path(__file__).parents[3] / "shared" / "streams"
"""Bodies recorded from providers, with the truth about them. Not part of the repository."""

ABSENT = "no recorded streams"
"""Why tests of them are skipped where they are not; tests/conftest.py says it once for all."""

SPECIFIED = Path(__file__).parents[1] / "recordings"
"""Bodies written from the providers' documentation, and the events that they are."""

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")
"""How a connection was lost."""


@functools.cache
def index(name: str) -> Any:
    """Read an index of the recordings; None where there are none."""
    path = STREAMS / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


DIALECT_OF = {
    "anthropic": "anthropic",
    "bedrock_converse": "bedrock_converse",
    "bedrock_invoke": "bedrock_anthropic",
    "gemini": "gemini",
    "gemini_array": "gemini",
    "cohere_v2": "cohere",
    "ollama": "ollama",
    "openai_chat": "openai_chat",
    "openai_responses": "openai_responses",
}
"""The dialect that reads a format of the index."""


def recordings(dialect: str | None = None, name: str = "") -> list[Any]:
    """Parameters: the rows that a dialect reads, or all, or one that skips the test.

    A row has the `name` in that of its file.
    """
    found = index("index.json")
    if found is None:
        return [absent()]
    rows = [common(row) for row in found["streams"] if row["format"] in DIALECT_OF]
    return [
        pytest.param(row, id=row["file"])
        for row in rows
        if dialect in (None, DIALECT_OF[row["format"]]) and name in row["file"]
    ]


def common(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose truth says in the words of all formats what its own have others for."""
    truth = {**row["truth"], "choices": [dict(choice) for choice in row["truth"]["choices"]]}
    for choice in truth["choices"]:
        # Cohere's plan is reasoning too, and its citations name documents.
        choice["reasoning"] += choice.get("tool_plan", "")
        if row["format"] == "cohere_v2":
            choice["citations"] = [
                {
                    "start_index": citation["start"],
                    "end_index": citation["end"],
                    "title": source["document"].get("title"),
                }
                for citation in choice.get("citations", ())
                for source in citation["sources"]
            ]
        if row["format"] == "ollama":
            # Calls may have no id.
            choice["tool_calls"] = [
                {**call, "id": call["id"] or f"seseragi_{call['index']}"}
                for call in choice["tool_calls"]
            ]
    if isinstance(truth["error"], str):
        # The index leaves out the `error_type` that stands beside it.
        truth["error"] = {"message": truth["error"], "type": "INVALID_TOOL_GENERATION"}
    return {**row, "truth": truth}


def absent(names: int = 1) -> Any:
    """Return one parameter of so many names that skips its test, or in CI fails the collection."""
    assert os.environ.get("CI") != "true", f"{ABSENT} in {STREAMS}"
    return pytest.param(*[None] * names, marks=pytest.mark.skip(f"{ABSENT} in {STREAMS}"))


STATED_COSTS = {
    "openrouter/text-emoji.sse": "0.000106",
    "openrouter/error-mid-stream.sse": "0",
    "openrouter/tools-parallel-comments.sse": "0.0000893",
    "openrouter/reasoning-details.sse": "0.000669",
    "perplexity/sonar-crlf.sse": "0.00501",
    "vercel-gateway/tools-parallel-encrypted.sse": "0.00637625",
}
"""What providers say in a recording of its cost, in USD, beside the counts of its truth."""


def usage_of(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the usage that a recording has, with the cost that its provider states."""
    usage: dict[str, Any] | None = row["truth"]["usage"]
    cost = STATED_COSTS.get(row["file"])
    return usage if cost is None else {**(usage or {}), "cost": cost, "cost_from": "provider"}


def body_of(row: dict[str, Any]) -> bytes:
    path: Path = STREAMS / row["file"]
    return path.read_bytes()


def play(
    pieces: Iterable[bytes],
    *,
    dialect: str = "openai_chat",
    cut: RelayError | None = None,
    choices: int = 1,
) -> list[Event]:
    """Return the events of a body that comes in pieces, and then ends or is cut."""
    spoken = UPSTREAM_FORMATS[dialect]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u", choices=choices)
    found = []
    for piece in pieces:
        for message in decoder.feed(piece):
            found += parser.feed(message)
    found += parser.cut(cut) if cut else parser.close(decoder.close())
    assert parser.ended
    return found


def specified_bodies() -> list[tuple[str, Path]]:
    """Return the dialect and the path of each specified body."""
    found = []
    for path in sorted(SPECIFIED.glob("*/*.spec.*")):
        dialect = path.parent.name
        if dialect == "bedrock":
            invoked = path.name.startswith("invoke-")
            dialect = "bedrock_anthropic" if invoked else "bedrock_converse"
        if not path.name.endswith(".events.json"):
            found.append((dialect, path))
    return found


def in_bytes(body: bytes) -> Iterator[bytes]:
    """Yield a body byte by byte."""
    return (body[at : at + 1] for at in range(len(body)))


def end_of(found: list[Event]) -> StreamEnd:
    assert isinstance(found[-1], StreamEnd)
    return found[-1]


def error_of(found: list[Event]) -> ErrorInfo:
    error = end_of(found).error
    assert error is not None
    return error


def outcome(found: list[Event]) -> tuple[str, str | None]:
    """Return how well-formed events end: the status, and the error's code or why it finished."""
    check(found)
    end = end_of(found)
    return end.status, end.error.code if end.error else end.finish_reason


def failed(code: str) -> tuple[str, str | None]:
    """Return the outcome of an answer that failed."""
    return "failed", code


def kinds(found: list[Event]) -> list[str]:
    return [events.type_of(event) for event in found]


def joined(found: list[Event], kind: type, choice: int = 0) -> str:
    """Return the text of a choice, joined from deltas of a kind."""
    return "".join(
        event.text
        for event in found
        if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta)
        and type(event) is kind
        and event.choice == choice
    )


FINISHED = ("completed", "stop")
TRUNCATED = failed("upstream_truncated")
UNAVAILABLE = failed("upstream_unavailable")
INVALID = failed("upstream_invalid_response")


def tool_calls(found: list[Event]) -> list[dict[str, Any]]:
    """Return the tool calls in the order in which they began."""
    arguments = {e.block: e.arguments for e in found if isinstance(e, ToolCallEnd)}
    return [
        {"choice": e.choice, "id": e.id, "name": e.name, "arguments": arguments[e.block]}
        for e in found
        if isinstance(e, ToolCallStart)
    ]


def check(found: list[Event]) -> None:
    """Assert the invariants that `app.events` states."""
    assert kinds(found).count("stream.end") == 1
    assert isinstance(found[-1], StreamEnd)
    usages = [event for event in found if isinstance(event, Usage)]
    assert len(usages) == (found[-1].usage is not None)
    open_blocks: dict[int, str] = {}
    used: set[int] = set()
    pieces: dict[int, str] = {}
    ended: set[int] = set()
    for event in found:
        assert events.decode(events.encode(event)) == event
        kind, _, action = events.type_of(event).partition(".")
        choice = getattr(event, "choice", None)
        assert choice not in ended, f"{event} after the end of its choice"
        block: Any = getattr(event, "block", None)
        if isinstance(event, ChoiceEnd):
            ended.add(event.choice)
        elif action == "start":
            assert block not in used
            open_blocks[block] = kind
            used.add(block)
        elif action in ("delta", "end") and block is not None:
            assert open_blocks[block] == kind
            if action == "end":
                del open_blocks[block]
        elif isinstance(event, LogProbs):
            assert event.block in open_blocks
        elif isinstance(event, Media | ProviderTool | ProviderData) and block is not None:
            used.add(block)
        if isinstance(event, TextDelta | ReasoningDelta | RefusalDelta):
            assert event.text
        if isinstance(event, ToolCallDelta):
            assert event.arguments
            pieces[event.block] = pieces.get(event.block, "") + event.arguments
        if isinstance(event, ToolCallEnd):
            assert event.arguments == pieces.get(event.block) or event.arguments in ("{}", "")
    assert not open_blocks
    assert used == set(range(len(used)))

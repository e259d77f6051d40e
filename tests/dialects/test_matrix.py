"""Every provider's stream in every client's dialect: the same text, calls, usage and end.

The frames are read here by a few lines for each protocol, written from its description and
without the code under test.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.openai_chat.client.renderer import USAGE
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import (
    Event,
    ReasoningDelta,
    RefusalDelta,
    Status,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    ToolCallEnd,
    ToolCallStart,
)
from app.framing.sse import Decoder, Message
from tests.dialects.streams import DIALECT_OF, body_of, play, recordings

pytestmark = pytest.mark.proving

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"


class Read(NamedTuple):
    """What a client of any dialect has in the end."""

    text: str
    reasoning: str
    calls: list[tuple[str, Any]]
    usage: tuple[int | None, int | None] | None
    """Input and output tokens; None where the dialect had no place to say."""
    ended_well: bool


def frames(events: Sequence[Event], client_format: str) -> list[Message]:
    """Return the frames of a stream as a client's SSE decoder gives them."""
    writer = CLIENT_FORMATS[client_format].writer(STREAM, after=0, retry_ms=2000)
    body = b"".join(writer.feed(event) for event in events)
    assert b"\r" not in body
    decoder = Decoder()
    messages = decoder.feed(body)
    assert decoder.close() is None
    return messages


def arguments(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def read_chat(messages: list[Message]) -> Read:
    text = reasoning = ""
    calls: dict[int, list[str]] = {}
    usage = None
    ended, failed = False, False
    for message in messages:
        if message.data == "[DONE]":
            continue
        chunk = json.loads(message.data)
        if "error" in chunk:
            failed = True
            continue
        if chunk.get("usage"):
            usage = (chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"])
        for choice in chunk["choices"]:
            if choice["index"]:
                continue
            # The official clients do not look for `[DONE]`.
            ended = ended or choice["finish_reason"] is not None
            delta = choice["delta"]
            text += delta.get("content") or ""
            reasoning += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls") or ():
                row = calls.setdefault(call["index"], ["", ""])
                function = call.get("function", {})
                row[0] += function.get("name") or ""
                row[1] += function.get("arguments") or ""
    found = [(name, arguments(given)) for name, given in calls.values()]
    return Read(text, reasoning, found, usage, ended and not failed)


def read_completions(messages: list[Message]) -> Read:
    text = ""
    usage = None
    ended, failed = False, False
    for message in messages:
        if message.data == "[DONE]":
            continue
        chunk = json.loads(message.data)
        if "error" in chunk:
            failed = True
            continue
        if chunk.get("usage"):
            usage = (chunk["usage"]["prompt_tokens"], chunk["usage"]["completion_tokens"])
        for choice in chunk["choices"]:
            if not choice["index"]:
                text += choice["text"]
                ended = ended or choice["finish_reason"] is not None
    return Read(text, "", [], usage, ended and not failed)


def read_responses(messages: list[Message]) -> Read:
    text = reasoning = ""
    calls: dict[int, list[str]] = {}
    usage, status = None, ""
    for number, message in enumerate(messages):
        event = json.loads(message.data)
        assert event["sequence_number"] == number
        assert event["type"] == message.event
        match event["type"]:
            case "response.output_text.delta":
                text += event["delta"]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                reasoning += event["delta"]
            case "response.output_item.added" if event["item"]["type"] == "function_call":
                calls[event["output_index"]] = [event["item"]["name"], ""]
            case "response.function_call_arguments.delta":
                calls[event["output_index"]][1] += event["delta"]
            case "response.completed" | "response.incomplete" | "response.failed":
                status = event["response"]["status"]
                if given := event["response"].get("usage"):
                    usage = (given["input_tokens"], given["output_tokens"])
            case "error":
                status = "failed"
    found = [(name, arguments(given)) for name, given in calls.values()]
    # `cancelled` is a status of its own there, whatever event it comes in.
    return Read(text, reasoning, found, usage, status in ("completed", "incomplete"))


def read_anthropic(messages: list[Message]) -> Read:
    text = reasoning = ""
    calls: list[list[str]] = []
    usage: dict[str, int] = {}
    open_index, next_index = None, 0
    ended = False
    for message in messages:
        event = json.loads(message.data)
        assert event["type"] == message.event
        match event["type"]:
            case "message_start":
                usage |= event["message"]["usage"]
            case "content_block_start":
                assert (open_index, event["index"]) == (None, next_index)
                open_index, next_index = next_index, next_index + 1
                if event["content_block"]["type"] == "tool_use":
                    calls.append([event["content_block"]["name"], ""])
            case "content_block_delta":
                assert event["index"] == open_index
                delta = event["delta"]
                text += delta.get("text", "")
                reasoning += delta.get("thinking", "")
                if delta["type"] == "input_json_delta":
                    calls[-1][1] += delta["partial_json"]
            case "content_block_stop":
                assert event["index"] == open_index
                open_index = None
            case "message_delta":
                usage |= event["usage"]
            case "message_stop":
                assert open_index is None
                ended = True
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    total = (usage.get("input_tokens") or 0) + cached + written
    found = [(name, arguments(given)) for name, given in calls]
    return Read(text, reasoning, found, (total, usage.get("output_tokens")), ended)


def read_ui(messages: list[Message]) -> Read:
    text = reasoning = ""
    calls: list[tuple[str, Any]] = []
    usage = None
    finished = failed = False
    assert messages[-1].data == "[DONE]"
    for message in messages[:-1]:
        chunk = json.loads(message.data)
        match chunk["type"]:
            case "text-delta":
                text += chunk["delta"]
            case "reasoning-delta":
                reasoning += chunk["delta"]
            case "tool-input-available" | "tool-input-error" if not chunk.get("providerExecuted"):
                calls.append((chunk["toolName"], chunk["input"]))
            case "finish":
                finished = True
                given = chunk.get("messageMetadata", {}).get("usage")
                if given:
                    usage = (given.get("inputTokens"), given.get("outputTokens"))
            case "error" | "abort":
                failed = True
    return Read(text, reasoning, calls, usage, finished and not failed)


def read_ag_ui(messages: list[Message]) -> Read:
    text = reasoning = ""
    calls: dict[str, list[str]] = {}
    usage, ended = None, False
    for message in messages:
        event = json.loads(message.data)
        assert None not in event.values()
        match event["type"]:
            case "TEXT_MESSAGE_CONTENT":
                text += event["delta"]
            case "REASONING_MESSAGE_CONTENT":
                reasoning += event["delta"]
            case "TOOL_CALL_START":
                calls[event["toolCallId"]] = [event["toolCallName"], ""]
            case "TOOL_CALL_ARGS":
                calls[event["toolCallId"]][1] += event["delta"]
            case "RUN_FINISHED":
                ended = event.get("outcome", {}).get("type", "success") == "success"
                for row in event.get("usage", ()):
                    usage = (row.get("inputTokens"), row.get("outputTokens"))
            case "RUN_ERROR":
                ended = False
    found = [(name, arguments(given)) for name, given in calls.values()]
    return Read(text, reasoning, found, usage, ended)


READERS: dict[str, Callable[[list[Message]], Read]] = {
    "openai_chat": read_chat,
    "openai_responses": read_responses,
    "openai_completions": read_completions,
    "anthropic": read_anthropic,
    "ui": read_ui,
    "ag_ui": read_ag_ui,
}


def logged(row: dict[str, Any]) -> list[Event]:
    """Return the events of a recording as the log has them."""
    labels = {USAGE: "1"}
    start = StreamStart(STREAM, "m", 1_700_000_000, labels)
    target = StreamTarget("u", "m-1", 1, "up-1")
    return [start, target, *play([body_of(row)], dialect=DIALECT_OF[row["format"]])]


REFUSES = ("openai_chat", "openai_responses")
"""The dialects that tell a refusal apart; in the others it is text."""


TEXTS = ("openai_completions",)
"""The dialects that have nothing but text."""


def expected(events: list[Event], client_format: str) -> Read:
    """What the events say, of choice 0."""
    said = TextDelta if client_format in REFUSES else TextDelta | RefusalDelta
    whole = client_format not in TEXTS
    names = {e.block: e.name for e in events if isinstance(e, ToolCallStart) and not e.choice}
    end = events[-1]
    assert isinstance(end, StreamEnd)
    return Read(
        "".join(e.text for e in events if isinstance(e, said) and not e.choice),
        "".join(e.text for e in events if whole and isinstance(e, ReasoningDelta) and not e.choice),
        [
            (names[e.block], arguments(e.arguments))
            for e in events
            if whole and isinstance(e, ToolCallEnd) and not e.choice
        ],
        (end.usage.input_tokens, end.usage.output_tokens) if end.usage else None,
        end.status == "completed",
    )


def test_every_front_is_read() -> None:
    assert set(CLIENT_FORMATS) - {"native"} == set(READERS)


@pytest.mark.parametrize("client_format", sorted(set(CLIENT_FORMATS) - {"native"}))
@pytest.mark.parametrize("row", recordings())
def test_a_stream_says_the_same_in_every_dialect(row: dict[str, Any], client_format: str) -> None:
    events = logged(row)
    found, wanted = (
        READERS[client_format](frames(events, client_format)),
        expected(events, client_format),
    )

    assert found.ended_well == wanted.ended_well
    assert found.text == wanted.text
    if wanted.ended_well:
        assert sorted(found.calls, key=repr) == sorted(wanted.calls, key=repr)
        assert found.reasoning.replace("\n\n", "") == wanted.reasoning.replace("\n\n", "")
        if wanted.usage is not None:
            assert found.usage == wanted.usage


@pytest.mark.parametrize("client_format", sorted(CLIENT_FORMATS))
@pytest.mark.parametrize("row", recordings())
def test_the_resume_law_holds_in_every_dialect(row: dict[str, Any], client_format: str) -> None:
    events, made = logged(row), CLIENT_FORMATS[client_format]
    whole = frames(events, client_format)
    for k in sorted({0, 1, 2, len(whole) // 2, len(whole) - 1, len(whole)}):
        begun = made.writer(STREAM, after=k, retry_ms=2000)
        body = b"".join(begun.feed(event) for event in events[begun.begin :])

        assert [(m.event, m.data, m.id) for m in whole[k:]] == [
            (m.event, m.data, m.id) for m in Decoder().feed(body)
        ]


@pytest.mark.parametrize("client_format", sorted(READERS))
@pytest.mark.parametrize("row", recordings())
def test_no_client_takes_a_cut_answer_for_a_whole_one(
    row: dict[str, Any], client_format: str
) -> None:
    body, dialect = body_of(row), DIALECT_OF[row["format"]]
    dice = random.Random(row["file"])
    for size in [0, *dice.sample(range(len(body)), 12), len(body) - 3]:
        events = [*logged(row)[:2], *play([body[:size]], dialect=dialect)]
        end = events[-1]
        assert isinstance(end, StreamEnd)

        found = READERS[client_format](frames(events, client_format))
        assert found.ended_well == (end.status == "completed"), f"cut at {size}"


@pytest.mark.parametrize("status", ["cancelled", "interrupted"])
@pytest.mark.parametrize("client_format", sorted(READERS))
@pytest.mark.parametrize("row", recordings())
def test_no_client_takes_a_stopped_answer_for_a_whole_one(
    row: dict[str, Any], client_format: str, status: Status
) -> None:
    dialect = UPSTREAM_FORMATS[DIALECT_OF[row["format"]]]
    parser = dialect.parser(upstream="u")
    body = body_of(row)
    events = logged(row)[:2]
    for message in dialect.decoder(max_line=2**24, max_event=2**24).feed(body[: len(body) // 2]):
        events += parser.feed(message)
    if parser.ended:
        return
    events += parser.stop(status)
    found = READERS[client_format](frames(events, client_format))

    assert not found.ended_well
    assert found.text == expected(events, client_format).text

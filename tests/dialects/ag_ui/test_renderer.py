"""Events of the relay to those of a run, by the protocol's rules."""

import json
from typing import Any

import msgspec
import pytest

from app.dialects.ag_ui.client.format import CLIENT_FORMAT, render_result
from app.dialects.ag_ui.client.renderer import Renderer
from app.dialects.ag_ui.client.request import parse_request
from app.dialects.answering.call_ids import show_call
from app.dialects.answering.public_ids import public_token
from app.dialects.client_format import NumberedWriter
from app.errors import RequestError
from app.events import (
    ChoiceEnd,
    ContentFilter,
    ErrorInfo,
    Event,
    LogProbs,
    Media,
    Notice,
    Opaque,
    ProviderTool,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    RefusalDelta,
    RefusalEnd,
    RefusalStart,
    Source,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    type_of,
)
from app.requests import AssistantMessage, OpaquePart, ReasoningPart, TextPart, ToolMessage
from tests.dialects.ag_ui.verify import read_messages, sent_of
from tests.dialects.streams import DIALECT_OF, body_of, end_of, play, recordings, tool_calls

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
TOKEN = public_token(STREAM, "ag_ui")
LABELS = {"thread_id": "t1", "run_id": "r1", "parent_run_id": "r0"}
START: list[Event] = [
    StreamStart(STREAM, "fast", 1700000000, LABELS),
    StreamTarget("up", "m-1", 1),
]
COUNTS = TokenCounts(3, 2, 5, 1, 4, 0)
DONE = StreamEnd("completed", "stop", COUNTS)
TEXT: list[Event] = [TextStart(0), TextDelta(0, "Hi 🌊"), TextEnd(0)]
RUN = {"threadId": "t1", "runId": "r1"}


def sent(events: list[Event]) -> list[dict[str, Any]]:
    renderer = Renderer(STREAM)
    return sent_of([frame for event in events for frame in renderer.feed(event)])


def between(*events: Event, end: StreamEnd = DONE) -> list[dict[str, Any]]:
    """Return what is sent but for the start and the end of every run."""
    found = sent([*START, *events, end])
    read_messages(found)
    return found[3:-1]


def custom(event: Event) -> dict[str, Any]:
    name = f"seseragi.{type_of(event)}"
    return {"type": "CUSTOM", "name": name, "value": msgspec.to_builtins(event)}


def test_answer_is_a_run_with_one_message():
    message = f"msg_{TOKEN}"
    usage = {"provider": "up", "model": "m-1", "inputTokens": 3, "outputTokens": 2, "totalTokens": 5, "cachedInputTokens": 1, "cacheWriteInputTokens": 4, "reasoningTokens": 0}  # fmt: skip

    assert [
        {"type": "RUN_STARTED", **RUN, "protocolVersion": "1.0", "parentRunId": "r0"},
        custom(START[0]),
        custom(START[1]),
        {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": "Hi 🌊"},
        {"type": "TEXT_MESSAGE_END", "messageId": message},
        {
            "type": "RUN_FINISHED",
            **RUN,
            "outcome": {"type": "success"},
            "usage": [usage],
            "metadata": {"finishReason": "stop"},
        },
    ] == sent([*START, *TEXT, ChoiceEnd("stop"), Usage(3, 2, 5), DONE])


def test_stream_that_another_dialect_asked_for_has_ids_of_its_own():
    found = sent([StreamStart(STREAM, "fast", 1), DONE])

    assert {
        "type": "RUN_STARTED",
        "threadId": f"thread_{TOKEN}",
        "runId": f"run_{TOKEN}",
        "protocolVersion": "1.0",
    } == found[0]
    assert "provider" not in found[-1]["usage"][0]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_failure_is_an_error_with_its_code(status):
    error = ErrorInfo("upstream_truncated", "it was cut", True)

    assert {
        "type": "RUN_ERROR",
        "message": "it was cut",
        "code": "upstream_truncated",
        "usage": [{"provider": "up", "model": "m-1", "inputTokens": 1}],
    } == sent([*START, *TEXT, StreamEnd(status, "error", TokenCounts(1), error)])[-1]


CALL: list[Event] = [
    ToolCallStart(1, "call_x", "weather"),
    ToolCallDelta(1, '{"city":'),
    ToolCallDelta(1, '"Ōsaka"}'),
    ToolCallEnd(1, '{"city":"Ōsaka"}'),
]


def test_cancelled_run_closes_what_is_open():
    found = sent([*START, *TEXT, *CALL, StreamEnd("cancelled", "cancelled")])
    read_messages(found)

    assert {"type": "cancelled"} == found[-1]["outcome"]


@pytest.mark.parametrize("text_first", [True, False])
def test_calls_and_text_are_one_message(text_first):
    parts = [TEXT, CALL] if text_first else [CALL, TEXT]
    found = sent([*START, *parts[0], *parts[1], DONE])
    (message,) = read_messages(found)

    assert "Hi 🌊" == message["content"]
    assert {"name": "weather", "arguments": '{"city":"Ōsaka"}'} == message["toolCalls"][0][
        "function"
    ]
    assert ["call_x"] == found[-1]["outcome"]["pendingToolCallIds"]
    assert "TOOL_CALL_END" == found[-2]["type"]


def test_call_of_an_answer_that_was_cut_is_not_ended():
    found = sent([*START, *CALL, StreamEnd("failed", "error")])

    assert "TOOL_CALL_END" not in {event["type"] for event in found}
    assert "RUN_ERROR" == found[-1]["type"]


def test_texts_are_messages_of_their_own():
    found = sent([*START, *TEXT, TextStart(2), TextDelta(2, "b"), TextEnd(2), DONE])

    assert [f"msg_{TOKEN}", f"msg_{TOKEN}_2"] == [m["id"] for m in read_messages(found)]


def test_refusal_is_a_text():
    found = sent([*START, RefusalStart(0), RefusalDelta(0, "No"), RefusalEnd(0), DONE])

    assert ["No"] == [message["content"] for message in read_messages(found)]


def test_made_up_ids_differ_from_one_run_to_the_next():
    start, *_ = between(ToolCallStart(0, "seseragi_0", "weather"), ToolCallEnd(0, "{}"))

    assert show_call(STREAM, "seseragi_0") == start["toolCallId"]


@pytest.mark.parametrize(
    "event",
    [
        Notice("retry", "again"),
        ContentFilter("prompt", {"hate": {"filtered": True}}, True),
        Source("https://a.example/", title="A"),
        Media(0, "image/png", data="eA=="),
        ProviderTool(0, "search", {"q": None}),
    ],
)
def test_what_has_no_event_is_custom(event):
    assert [custom(event)] == between(event)


def test_log_probabilities_and_other_choices_are_left_out():
    assert [] == between(LogProbs(0, [{}]), TextStart(0, 1), TextDelta(0, "b", 1), TextEnd(0, 1))


def test_result_is_the_list_of_events():
    events = [*START, *TEXT, DONE]

    assert sent(events) == render_result(STREAM, events)


def test_failure_before_the_run_says_the_same():
    status, body, media_type = CLIENT_FORMAT.render_failure(
        RequestError("invalid_request", "bad"), "r"
    )

    assert (400, "application/json") == (status, media_type)
    assert {"type": "RUN_ERROR", "message": "bad", "code": "invalid_request"} == json.loads(body)


PROVED: list[Event] = [
    ReasoningStart(0),
    ReasoningDelta(0, "Hm"),
    Opaque("f", "rr", 0),
    ReasoningEnd(0, 0, "sig", "enc", "anthropic"),
    Opaque("anthropic.redacted", "xx"),
    TextStart(1),
    TextDelta(1, "Hi"),
    Opaque("gemini.signature", "yy", 1),
    TextEnd(1),
    ToolCallStart(2, "i2", "weather"),
    ToolCallDelta(2, '{"a": 1}'),
    ToolCallEnd(2, '{"a": 1}'),
    Opaque("gemini.signature", "zz", 2),
]


def test_what_a_provider_wants_back_comes_back_by_the_client():
    messages = read_messages(sent([*START, *PROVED, DONE]))
    call = messages[-1]["toolCalls"][0]["id"]
    result = {"id": "t", "role": "tool", "toolCallId": call, "content": "blue"}
    body = {**RUN, "messages": [*messages, result]}
    answer, tool = parse_request(json.dumps(body).encode()).chat.messages

    assert isinstance(answer, AssistantMessage)
    assert [
        ReasoningPart("Hm", "sig", "enc", "anthropic"),
        OpaquePart("f", "rr"),
        OpaquePart("anthropic.redacted", "xx"),
        TextPart("Hi"),
        OpaquePart("gemini.signature", "yy"),
    ] == answer.content
    assert answer.tool_calls
    assert "i2" == answer.tool_calls[0].id
    assert answer.tool_calls[0].opaque
    assert "zz" == answer.tool_calls[0].opaque[0].data
    assert ToolMessage("blue", "i2") == tool


@pytest.mark.parametrize("row", recordings())
def test_recorded_streams_come_out_as_their_truth_says(row):
    truth = row["truth"]
    played = play(
        [body_of(row)], dialect=DIALECT_OF[row["format"]], choices=len(truth["choices"]) or 1
    )
    found = sent([*START, *played])
    messages = read_messages(found)
    if end_of(played).error is not None:
        assert "RUN_ERROR" == found[-1]["type"]
        return
    for choice in truth["choices"][:1]:
        said = {
            role: "".join(m.get("content", "") for m in messages if m["role"] == role)
            for role in ("assistant", "reasoning")
        }
        assert choice["reasoning"] == said["reasoning"]
        if not choice["refusal"]:
            assert choice["text"] == said["assistant"]
        assert [
            (call["name"], call["arguments"]) for call in tool_calls(played) if not call["choice"]
        ] == [
            (call["function"]["name"], call["function"]["arguments"] or "{}")
            for message in messages
            for call in message.get("toolCalls", ())
        ]


@pytest.mark.parametrize("row", recordings())
def test_frames_after_any_cursor_are_the_rest(row):
    events = [*START, *play([body_of(row)], dialect=DIALECT_OF[row["format"]])]

    def written(after: int) -> list[bytes]:
        writer = NumberedWriter(Renderer(STREAM), STREAM, letter="g", after=after, retry_ms=1)
        raw = b"".join(map(writer.feed, events)).removeprefix(b"retry: 1\n")
        return raw.split(b"\n\n")[:-1]

    whole = written(0)
    for after in range(0, len(whole) + 1, max(1, len(whole) // 20)):
        assert whole[after:] == written(after)

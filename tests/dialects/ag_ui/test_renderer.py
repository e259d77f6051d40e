"""Events of the relay to those of a run, by the protocol's rules."""

import json
from typing import Any

import msgspec
import pytest

from app import events as e
from app import requests as r
from app.dialects.ag_ui.client.format import CLIENT_FORMAT
from app.dialects.ag_ui.client.request import parse_request
from app.dialects.answering.ids import public_token
from app.errors import RequestError
from tests.dialects import examples as ex
from tests.dialects.ag_ui.verify import read_messages, sent_of
from tests.dialects.clients import STREAM, frames

pytestmark = pytest.mark.pure

TOKEN = public_token(STREAM, "ag_ui")
LABELS = {"thread_id": "t1", "run_id": "r1", "parent_run_id": "r0", "protocol_version": "1.0"}
START: list[e.Event] = [
    e.StreamStart(STREAM, "fast", 1700000000, LABELS),
    e.StreamTarget("up", "m-1", 1),
]
COUNTS = e.TokenCounts(3, 2, 5, 1, 4, 0)
DONE = e.StreamEnd("completed", "stop", COUNTS)
TEXT: list[e.Event] = ex.text(0, "Hi 🌊")
RUN = {"threadId": "t1", "runId": "r1"}


def sent(events: list[e.Event]) -> list[dict[str, Any]]:
    return sent_of(frames("ag_ui", events))


def between(*events: e.Event, end: e.StreamEnd = DONE) -> list[dict[str, Any]]:
    """Return what is sent but for the start and the end of every run."""
    found = sent([*START, *events, end])
    read_messages(found)
    return found[3:-1]


def custom(event: e.Event) -> dict[str, Any]:
    name = f"seseragi.{e.type_of(event)}"
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
    ] == sent([*START, *TEXT, e.ChoiceEnd("stop"), e.Usage(3, 2, 5), DONE])


def test_stream_that_another_dialect_asked_for_has_ids_of_its_own():
    found = sent([e.StreamStart(STREAM, "fast", 1), DONE])

    assert {
        "type": "RUN_STARTED",
        "threadId": f"thread_{TOKEN}",
        "runId": f"run_{TOKEN}",
        "protocolVersion": "1.0",
    } == found[0]
    assert "provider" not in found[-1]["usage"][0]


@pytest.mark.parametrize("status", ["failed", "interrupted"])
def test_failure_is_an_error_with_its_code(status):
    error = e.ErrorInfo("upstream_truncated", "it was cut", True)

    assert {
        "type": "RUN_ERROR",
        "message": "it was cut",
        "code": "upstream_truncated",
        "usage": [{"provider": "up", "model": "m-1", "inputTokens": 1}],
    } == sent([*START, *TEXT, e.StreamEnd(status, "error", e.TokenCounts(1), error)])[-1]


CALL: list[e.Event] = ex.call(1, "call_x", "weather", '{"city":', '"Ōsaka"}')


def test_cancelled_run_closes_what_is_open():
    found = sent([*START, *TEXT, *CALL, e.StreamEnd("cancelled", "cancelled")])
    read_messages(found)

    assert {"type": "cancelled"} == found[-1]["outcome"]


BEFORE_1 = e.StreamStart(STREAM, "fast", 1700000000, {"thread_id": "t1", "run_id": "r1"})


def test_client_before_1_0_gets_no_outcome_that_it_refuses():
    """The schemas of @ag-ui/client 0.0.54 to 0.0.59 are strict."""
    found = sent([BEFORE_1, *START[1:], *CALL, DONE])
    assert {"type": "success"} == found[-1]["outcome"]

    (*_, last) = sent([BEFORE_1, *START[1:], *TEXT, e.StreamEnd("cancelled", "cancelled")])
    assert ("RUN_ERROR", "cancelled") == (last["type"], last["code"])


OF_TANSTACK = e.StreamStart(STREAM, "fast", 1700000000, {**LABELS, "tool_inputs": "custom"})


@pytest.mark.parametrize(
    ("arguments", "given"),
    [('{"city":"Ōsaka"}', {"city": "Ōsaka"}), ("{}", {}), ("SELECT 1", "SELECT 1"), ("{]}", "{]}")],
)
def test_client_that_runs_calls_by_an_event_is_given_the_input(arguments, given):
    call: list[e.Event] = [
        e.ToolCallStart(1, "call_x", "weather"),
        e.ToolCallDelta(1, arguments),
        e.ToolCallEnd(1, arguments),
    ]
    value = {"toolCallId": "call_x", "toolName": "weather", "input": given}
    event = {"type": "CUSTOM", "name": "tool-input-available", "value": value}

    assert event in sent([OF_TANSTACK, *START[1:], *call, DONE])
    assert event not in sent([*START, *call, DONE])


@pytest.mark.parametrize("status", ["failed", "interrupted", "cancelled"])
def test_no_input_is_given_of_a_call_that_must_not_run(status):
    cut: list[e.Event] = [*CALL[:-1], e.ToolCallEnd(1, '{"city":', incomplete=True)]
    ends = [(CALL, e.StreamEnd(status, "error")), (cut, DONE)]
    for calls, end in ends:
        found = sent([OF_TANSTACK, *START[1:], *calls, end])

        assert "tool-input-available" not in {event.get("name") for event in found}


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


@pytest.mark.parametrize("announced", [False, True], ids=["at once", "input at its end"])
@pytest.mark.parametrize(
    ("output", "content"), [(["a"], '["a"]'), ("text", "text"), (None, ""), (False, "false")]
)
def test_tool_that_the_provider_ran_has_its_result_and_is_not_the_clients(
    output, content, announced
):
    """OpenAI's tools begin without their input."""
    tool = [e.ProviderTool(1, "search")] if announced else []
    tool += [e.ProviderTool(1, "search", {"q": "sea"})]
    if output is not None:
        tool.append(e.ProviderTool(1, "search", output=output))
    found = sent([*START, *tool, *TEXT, DONE])
    message, result = read_messages(found)

    assert {"name": "search", "arguments": '{"q":"sea"}'} == message["toolCalls"][0]["function"]
    assert (message["toolCalls"][0]["id"], content) == (result["toolCallId"], result["content"])
    body = {**RUN, "messages": [{"id": "u", "role": "user", "content": "?"}, message, result]}
    _, *answer = parse_request(json.dumps(body).encode()).chat.messages
    assert [r.AssistantMessage("Hi 🌊")] == answer


def test_call_of_an_answer_that_was_cut_is_not_ended():
    found = sent([*START, *CALL, e.StreamEnd("failed", "error")])

    assert "TOOL_CALL_END" not in {event["type"] for event in found}
    assert "RUN_ERROR" == found[-1]["type"]


def test_texts_are_messages_of_their_own():
    found = sent([*START, *TEXT, *ex.text(2, "b"), DONE])

    assert [f"msg_{TOKEN}", f"msg_{TOKEN}_2"] == [m["id"] for m in read_messages(found)]


@pytest.mark.parametrize(
    "event",
    [
        e.Notice("retry", "again"),
        e.ContentFilter("prompt", {"hate": {"filtered": True}}, True),
        e.Source("https://a.example/", title="A"),
        e.Media(0, "image/png", data="eA=="),
    ],
)
def test_what_has_no_event_is_custom(event):
    assert [custom(event)] == between(event)


def test_log_probabilities_and_other_choices_are_left_out():
    assert [] == between(e.LogProbs(0, [{}]), *ex.text(0, "b", choice=1))


def test_failure_before_the_run_says_the_same():
    status, body, media_type = CLIENT_FORMAT.render_failure(
        RequestError("invalid_request", "bad"), "r"
    )

    assert (400, "application/json") == (status, media_type)
    assert {"type": "RUN_ERROR", "message": "bad", "code": "invalid_request"} == json.loads(body)

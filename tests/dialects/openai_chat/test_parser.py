"""Chat Completions as no recording has it: bodies written by hand, and what they mean."""

import json
from typing import Any

import pytest

from app.dialects.openai_chat.upstream.parser import Parser
from app.events import (
    ChoiceEnd,
    Notice,
    StreamEnd,
    TokenCounts,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from app.framing.sse import Message
from tests.dialects.blocks import reasoning, text
from tests.dialects.openai_chat.written import DONE, STOP, TEXT, chunk, said, sse, stopped, tool
from tests.dialects.streams import (
    CUT,
    FINISHED,
    TRUNCATED,
    UNAVAILABLE,
    check,
    end_of,
    error_of,
    failed,
    kinds,
    outcome,
    play,
    tool_calls,
)

pytestmark = pytest.mark.pure
USED = {"prompt_tokens": 1}


TORN = [chunk(tool(0, "i", "f", '{"a":')), chunk({"content": "b"})]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "bored"])
def test_a_torn_call_needs_an_end_marker(reason: str) -> None:
    body = sse(*TORN, chunk({}, reason))

    assert outcome(play([body])) == TRUNCATED
    assert outcome(play([body], cut=CUT)) == failed("upstream_timeout")
    assert outcome(play([body + DONE])) == failed("upstream_tool_failed")
    assert not parser_after(*TORN, chunk({}, reason)).finished


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_torn_call_may_be_explained_by_the_finish_reason(reason: str) -> None:
    body = sse(*TORN, chunk({}, reason))

    assert outcome(play([body])) == ("completed", reason)
    assert outcome(play([body], cut=CUT)) == ("completed", reason)


def test_a_cut_call_does_not_look_like_one_without_arguments() -> None:
    found = play([sse(chunk(tool(0, "i", "f", "")))])

    assert outcome(found) == TRUNCATED
    assert tool_calls(found) == [{"choice": 0, "id": "i", "name": "f", "arguments": ""}]
    assert "choice.end" not in kinds(found)


WHOLE = {
    "id": "c-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "reasoning": "r",
                "content": "a",
                "refusal": None,
                "tool_calls": [
                    {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "y", "type": "function", "function": {"name": "f", "arguments": ""}},
                ],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}


@pytest.mark.parametrize("wire", [json.dumps(WHOLE, indent=1).encode(), sse(WHOLE)])
def test_a_whole_answer_is_the_same_events(wire: bytes) -> None:
    found = play([wire])

    check(found)
    counts = TokenCounts(1, 2, 3)
    assert found == [
        *reasoning("r"),
        *text("a", block=1),
        *(ToolCallStart(2, "x", "f"), ToolCallDelta(2, "{}"), ToolCallStart(3, "y", "f")),
        *(ToolCallEnd(2, "{}"), ToolCallEnd(3, "{}"), ChoiceEnd("tool_calls", "stop")),
        *(Usage(1, 2, 3), StreamEnd("completed", "tool_calls", counts)),
    ]


def test_a_whole_answer_needs_no_finish_reason() -> None:
    whole = {"choices": [{"message": {"content": "a"}}]}

    assert outcome(play([json.dumps(whole).encode()])) == ("completed", "unknown")


@pytest.mark.parametrize("more", [{}, {"object": "chat.completion.chunk"}, {"object": "message"}])
def test_messages_for_deltas_are_pieces_of_an_answer(more: dict[str, Any]) -> None:
    body = sse(said("", **more), said("a", **more), said("b", "stop", **more))

    assert play([body]) == stopped(text("a", "b"))
    for size in range(len(body) - 2):
        assert end_of(play([body[:size]])).status == "failed"
        assert end_of(play([body[:size]], cut=CUT)).status == "failed"


def test_a_cut_after_the_finish_is_worth_a_notice_only() -> None:
    found = play([sse(TEXT, STOP)], cut=CUT)

    assert outcome(found) == FINISHED
    notice = Notice("upstream_timeout", "after the complete answer: upstream 'u' fell silent")
    assert [event for event in found if isinstance(event, Notice)] == [notice]


@pytest.mark.parametrize("garbage", [b"data: bye\n\n", b"data: 5\n\n", b"data: [null]\n\n"])
@pytest.mark.parametrize("end", [b"", DONE])
def test_garbage_after_the_finish_is_worth_a_notice_only(garbage: bytes, end: bytes) -> None:
    found = play([sse(TEXT, STOP) + garbage + sse({"choices": [], "usage": USED}) + end])

    assert outcome(found) == FINISHED
    assert end_of(found).usage == TokenCounts(input_tokens=1)
    what = "after the complete answer: upstream 'u' sent a message that is not a JSON object"
    notices = [event for event in found if isinstance(event, Notice)]
    assert notices == [Notice("upstream_invalid_response", what)]


def test_a_cut_before_the_other_choices_were_seen_is_a_failure() -> None:
    both = [TEXT, STOP, chunk({"content": "b"}, "length", 1)]

    assert outcome(play([sse(TEXT, STOP)], cut=CUT, choices=2)) == failed("upstream_timeout")
    assert outcome(play([sse(*both)], cut=CUT, choices=2)) == FINISHED


def test_a_cut_after_a_finish_with_an_error_is_a_failure() -> None:
    found = play([sse(TEXT, chunk({}, "error"))], cut=CUT)

    assert outcome(found) == UNAVAILABLE


def parser_after(*chunks: Any, choices: int = 1) -> Parser:
    parser = Parser(upstream="u", choices=choices)
    for item in chunks:
        parser.feed(Message("message", json.dumps(item)))
    return parser


def test_a_stream_is_finished_when_every_choice_is() -> None:
    assert not parser_after().finished
    assert not parser_after(TEXT, chunk({}, index=1), STOP).finished
    parser = parser_after(TEXT, chunk({}, index=1), STOP, chunk({}, "stop", 1))
    assert parser.finished
    assert not parser.ended
    assert not parser_after(TEXT, STOP, choices=2).finished
    assert parser_after(TEXT, STOP, chunk({}, "stop", 1), choices=2).finished


def test_an_error_names_the_upstream_and_hides_its_account() -> None:
    message = "no such tool in org-AbC123 for sk-proj-123456789"
    found = play([sse({"error": {"type": "invalid_request_error", "message": message}})])

    error = error_of(found)
    assert (
        error.message == "upstream 'u' refused the request: no such tool in [removed] for [removed]"
    )

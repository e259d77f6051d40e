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
    INVALID,
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


def test_an_error_keeps_what_its_chunk_says_before_it() -> None:
    last = chunk({"content": "b"}, "error", error={"code": 502}, usage={"prompt_tokens": 3})
    found = play([sse(TEXT, last)])

    assert kinds(found)[:-1] == [
        *("text.start", "text.delta", "text.delta", "text.end", "choice.end", "usage")
    ]
    assert found[-2] == Usage(input_tokens=3)
    assert found[-3] == ChoiceEnd("error", "error")


TORN = [chunk(tool(0, "i", "f", '{"a":')), chunk({"content": "b"})]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "bored"])
def test_a_torn_call_needs_an_end_marker(reason: str) -> None:
    body = sse(*TORN, chunk({}, reason))

    assert outcome(play([body])) == TRUNCATED
    assert outcome(play([body], cut=CUT)) == failed("upstream_timeout")
    assert outcome(play([body + DONE]))[0] == "completed"
    assert not parser_after(*TORN, chunk({}, reason)).finished


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_torn_call_may_be_explained_by_the_finish_reason(reason: str) -> None:
    body = sse(*TORN, chunk({}, reason))

    assert outcome(play([body])) == ("completed", reason)
    assert outcome(play([body], cut=CUT)) == ("completed", reason)


def test_a_torn_call_that_the_provider_gave_up_on_is_its_error() -> None:
    body = sse(*TORN, chunk({}, "MALFORMED_FUNCTION_CALL"))

    assert outcome(play([body])) == failed("upstream_tool_failed")


def test_the_reason_of_one_choice_explains_no_call_of_another() -> None:
    other = chunk({}, "length", 1)

    assert outcome(play([sse(*TORN, STOP, other)])) == TRUNCATED


@pytest.mark.parametrize("arguments", [None, "", "{}", '{"a":1}'])
def test_a_whole_call_needs_no_end_marker(arguments: str | None) -> None:
    body = sse(chunk(tool(0, "i", "f", arguments)), STOP)

    assert outcome(play([body])) == ("completed", "tool_calls")
    assert outcome(play([body], cut=CUT)) == ("completed", "tool_calls")


def test_the_input_of_a_custom_tool_need_not_be_json() -> None:
    pieces = [{"custom": {"name": "f", "input": ""}}, {"custom": {"input": "x = {"}}]
    chunks = [chunk({"tool_calls": [{"index": 0, **piece}]}) for piece in pieces]

    assert outcome(play([sse(*chunks, STOP)])) == ("completed", "tool_calls")
    assert tool_calls(play([sse(*chunks, STOP)]))[0]["arguments"] == "x = {"


def test_a_call_that_was_never_begun_holds_nothing_up() -> None:
    assert outcome(play([sse(chunk(tool(0, "i", None, "{")), STOP)])) == FINISHED


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


def test_a_whole_answer_without_anything_is_a_failure() -> None:
    whole = {"choices": [{"message": {"content": ""}}]}

    assert outcome(play([json.dumps(whole).encode()])) == UNAVAILABLE


@pytest.mark.parametrize("more", [{}, {"object": "chat.completion.chunk"}, {"object": "message"}])
def test_messages_for_deltas_are_pieces_of_an_answer(more: dict[str, Any]) -> None:
    body = sse(said("", **more), said("a", **more), said("b", "stop", **more))

    assert play([body]) == stopped(text("a", "b"))
    for size in range(len(body) - 2):
        assert end_of(play([body[:size]])).status == "failed"
        assert end_of(play([body[:size]], cut=CUT)).status == "failed"


def test_a_message_after_deltas_is_not_the_end() -> None:
    # Perplexity's concise mode; the answer follows its reasoning.
    done = said("a", object="chat.reasoning.done")
    found = play([sse(TEXT, done)])

    assert outcome(found) == TRUNCATED
    assert kinds(found).count("text.delta") == 1


def test_a_whole_answer_after_its_pieces_adds_nothing() -> None:
    whole = said("ab", object="chat.completion")

    assert play([sse(said("a"), said("b"), whole)])[:4] == text("a", "b")
    assert outcome(play([sse(TEXT, whole)])) == ("completed", "unknown")


def test_a_list_of_messages_for_a_body_is_a_whole_answer() -> None:
    found = play([json.dumps([said("a"), said("b")]).encode()])

    assert found[:4] == text("a", "b")
    assert outcome(found) == ("completed", "unknown")


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


def test_garbage_before_the_last_finish_is_a_failure() -> None:
    body = sse(TEXT, STOP) + b"data: bye\n\n" + DONE

    assert outcome(play([body], choices=2)) == INVALID


def test_a_cut_before_the_other_choices_were_seen_is_a_failure() -> None:
    both = [TEXT, STOP, chunk({"content": "b"}, "length", 1)]

    assert outcome(play([sse(TEXT, STOP)], cut=CUT, choices=2)) == failed("upstream_timeout")
    assert outcome(play([sse(*both)], cut=CUT, choices=2)) == FINISHED


def test_a_host_may_give_fewer_choices_than_were_asked_for() -> None:
    assert outcome(play([sse(TEXT, STOP)], choices=2)) == FINISHED


def test_a_cut_after_a_finish_with_an_error_is_a_failure() -> None:
    found = play([sse(TEXT, chunk({}, "error"))], cut=CUT)

    assert outcome(found) == UNAVAILABLE


def parser_after(*chunks: Any, choices: int = 1) -> Parser:
    parser = Parser(upstream="u", choices=choices)
    for item in chunks:
        parser.feed(Message("message", json.dumps(item)))
    return parser


def test_a_finished_answer_that_is_stopped_keeps_its_reason() -> None:
    assert parser_after(TEXT, STOP).stop("cancelled")[-1] == StreamEnd("cancelled", "stop")
    assert parser_after(TEXT, STOP).stop("failed", CUT)[-1] == StreamEnd(
        "failed", "stop", error=CUT.info()
    )


def test_a_stream_is_finished_when_every_choice_is() -> None:
    assert not parser_after().finished
    assert not parser_after(TEXT, chunk({}, index=1), STOP).finished
    parser = parser_after(TEXT, chunk({}, index=1), STOP, chunk({}, "stop", 1))
    assert parser.finished
    assert not parser.ended
    assert not parser_after(TEXT, STOP, choices=2).finished
    assert parser_after(TEXT, STOP, chunk({}, "stop", 1), choices=2).finished


def test_the_names_come_from_the_first_chunk_that_has_them() -> None:
    first = {"id": "", "model": "", "choices": []}
    parser = parser_after(first, {"id": 5, "model": None}, {"id": "i"}, {"id": "j", "model": "m"})

    assert (parser.upstream_id, parser.model) == ("i", "m")


def test_an_error_names_the_upstream_and_hides_its_account() -> None:
    message = "no such tool in org-AbC123 for sk-proj-123456789"
    found = play([sse({"error": {"type": "invalid_request_error", "message": message}})])

    error = error_of(found)
    assert (
        error.message == "upstream 'u' refused the request: no such tool in [removed] for [removed]"
    )


def test_calls_of_one_answer_have_ids_of_their_own() -> None:
    """Clients find a call by its id, and some fail at two with the same."""
    fragments = [tool(0, "i", "f", '{"a":'), tool(1, "i", "g", '{"b":')]
    fragments += [tool(0, "i", "f", "1}"), tool(1, "i", "g", "2}")]
    found = tool_calls(play([sse(*map(chunk, fragments), STOP)]))

    assert [("i", "f", '{"a":1}'), ("seseragi_1", "g", '{"b":2}')] == [
        (call["id"], call["name"], call["arguments"]) for call in found
    ]

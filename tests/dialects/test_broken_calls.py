"""Tool calls that must not be run: cut, repeated, or announced and never sent."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from app.dialects.client_formats import CLIENT_FORMATS
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import ChoiceEnd, Event, StreamStart, StreamTarget, ToolCallDelta, ToolCallEnd
from tests.dialects.openai_chat.written import DONE, chunk, sse, tool
from tests.dialects.streams import check, end_of, failed, outcome, play
from tests.framing.frames import event

pytestmark = pytest.mark.pure

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
CUT = '{"q": "Seat'
WHOLE = '{"q": "Seattle", "unit": "F"}'
BROKEN = failed("upstream_tool_failed")
LENGTH = ("completed", "length")


def chat(*pieces: str, finish: str | None = "tool_calls", used: int = 5) -> bytes:
    chunks = [chunk(tool(0, "" if n else "i", "" if n else "f", p)) for n, p in enumerate(pieces)]
    usage = {"prompt_tokens": 9, "completion_tokens": used}
    ends = [chunk({}, finish)] if finish else []
    return sse(*chunks, *ends, {"choices": [], "usage": usage}) + DONE


def claude(*pieces: str, finish: str | None = "tool_use", used: int = 5) -> bytes:
    block = {"type": "tool_use", "id": "i", "name": "f", "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return sse(
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": finish},
            "usage": {"output_tokens": used},
        },
        {"type": "message_stop"},
    )


def responses(*pieces: str, finish: str | None = None, used: int = 5) -> bytes:
    item = {"type": "function_call", "id": "fc", "call_id": "i", "name": "f", "arguments": ""}
    place = {"item_id": "fc", "output_index": 0}
    deltas = [{"type": "response.function_call_arguments.delta", "delta": p} for p in pieces]
    done = {**item, "arguments": "".join(pieces), "status": "completed"}
    response = {"id": "r", "usage": {"input_tokens": 9, "output_tokens": used}}
    return sse(
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({**place, **delta} for delta in deltas),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response},
    )


def cohere(*pieces: str, finish: str | None = "TOOL_CALL", used: int = 5) -> bytes:
    def call(function: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"message": {"tool_calls": {"function": function, **more}}}

    deltas = [call({"arguments": piece}) for piece in pieces]
    usage = {"tokens": {"input_tokens": 9, "output_tokens": used}}
    return sse(
        {"type": "tool-call-start", "index": 0, "delta": call({"name": "f"}, id="i")},
        *({"type": "tool-call-delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": finish, "usage": usage}},
    )


def converse(*pieces: str, finish: str | None = "tool_use", used: int = 5) -> bytes:
    start = {"toolUse": {"toolUseId": "i", "name": "f"}}
    deltas = [{"toolUse": {"input": piece}} for piece in pieces]
    usage = {"inputTokens": 9, "outputTokens": used, "totalTokens": 9 + used}
    return b"".join(
        (
            event("messageStart", {"role": "assistant"}),
            event("contentBlockStart", {"contentBlockIndex": 0, "start": start}),
            *(event("contentBlockDelta", {"contentBlockIndex": 0, "delta": d}) for d in deltas),
            event("contentBlockStop", {"contentBlockIndex": 0}),
            event("messageStop", {"stopReason": finish}),
            event("metadata", {"usage": usage}),
        )
    )


BODIES = {
    "openai_chat": chat,
    "anthropic": claude,
    "openai_responses": responses,
    "cohere": cohere,
    "bedrock_converse": converse,
}


def play_limited(body: bytes, dialect: str, limit: int | None) -> list[Event]:
    spoken = UPSTREAM_FORMATS[dialect]
    decoder = spoken.decoder(max_line=2**24, max_event=2**24)
    parser = spoken.parser(upstream="u")
    parser.output_limit = limit
    return [*parser.feed(*decoder.feed(body)), *parser.close(decoder.close())]


def arguments_of(found: list[Event]) -> tuple[str, str]:
    """Return the arguments that were streamed, and those of the end."""
    (end,) = [one for one in found if isinstance(one, ToolCallEnd)]
    return "".join(o.arguments for o in found if isinstance(o, ToolCallDelta)), end.arguments


@pytest.mark.parametrize("dialect", BODIES)
def test_a_cut_call_is_never_completed(dialect: str) -> None:
    found = play([BODIES[dialect](CUT)], dialect=dialect)
    check(found)

    assert end_of(found).status == "failed"
    assert end_of(found).finish_reason == "error"
    assert not [one for one in found if isinstance(one, ChoiceEnd)]
    assert outcome(play([BODIES[dialect](WHOLE)], dialect=dialect)) == ("completed", "tool_calls")


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "bored", None])
def test_a_cut_call_is_broken_whatever_the_finish_reason(finish: str | None) -> None:
    found = play([chat(CUT, finish=finish)])

    assert outcome(found) == BROKEN
    assert arguments_of(found) == (CUT, CUT)


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "openai_responses", "cohere"])
def test_a_call_cut_at_the_limit_ends_by_length(dialect: str) -> None:
    body = BODIES[dialect](CUT, used=5)

    assert outcome(play_limited(body, dialect, 5)) == LENGTH
    assert outcome(play_limited(body, dialect, 6)) == BROKEN
    assert outcome(play_limited(body, dialect, None)) == BROKEN
    whole = play_limited(BODIES[dialect](WHOLE, used=5), dialect, 5)
    assert outcome(whole) == ("completed", "tool_calls")


def test_a_whole_body_with_a_cut_call_is_never_completed() -> None:
    call = {"id": "i", "type": "function", "function": {"name": "f", "arguments": CUT}}
    choice = {"index": 0, "message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    document = json.dumps({"object": "chat.completion", "choices": [choice]})

    assert outcome(play([document.encode()])) == BROKEN


def test_free_text_of_a_custom_tool_may_be_anything() -> None:
    call = {"index": 0, "id": "i", "type": "custom", "custom": {"name": "f", "input": "{ a"}}
    body = sse(chunk({"tool_calls": [call]}), chunk({}, "tool_calls")) + DONE

    assert outcome(play([body])) == ("completed", "tool_calls")


@pytest.mark.parametrize("name", sorted(CLIENT_FORMATS.keys() - {"openai_completions"}))
@pytest.mark.parametrize(
    ("pieces", "finish", "limit", "runs"),
    [
        ([WHOLE], "tool_calls", None, True),
        ([CUT], "tool_calls", None, False),
        ([CUT], "tool_calls", 5, False),
        ([CUT], "length", None, False),
        ([], "length", None, False),
        ([CUT], "content_filter", None, False),
    ],
)
def test_clients_see_a_cut_call_as_incomplete(
    name: str, pieces: list[str], finish: str, limit: int | None, runs: bool
) -> None:
    """The clients of no format receive what makes them run the call."""
    found = [
        StreamStart(STREAM, "m", 0),
        StreamTarget("u", "m", 1),
        *play_limited(chat(*pieces or [""], finish=finish), "openai_chat", limit),
    ]
    renderer = CLIENT_FORMATS[name].renderer(STREAM)
    frames = [frame.data for one in found for frame in renderer.feed(one)]
    payloads = [json.loads(data) for data in frames if data.startswith(b"{")]

    assert RUNS[name](payloads) == runs
    [end] = [one for one in found if isinstance(one, ToolCallEnd)]
    assert end.incomplete is not runs


def test_an_answer_as_json_marks_a_cut_call() -> None:
    found = [StreamStart(STREAM, "m", 0), *play([chat(CUT, finish="length")])]
    native = CLIENT_FORMATS["native"].render_result(STREAM, found)
    response = CLIENT_FORMATS["openai_responses"].render_result(STREAM, found)
    message = CLIENT_FORMATS["anthropic"].render_result(STREAM, found)

    assert native.blocks[0].incomplete
    assert native.message is not None
    assert native.message.tool_calls is None
    assert response["output"][0]["status"] == "incomplete"
    assert message["content"] == []


def runs_native(payloads: list[Any]) -> bool:
    return any(p["type"] == "tool_call.end" and not p.get("incomplete") for p in payloads)


def runs_chat(payloads: list[Any]) -> bool:
    choices = [choice for p in payloads for choice in p.get("choices", ())]
    return any(choice["finish_reason"] == "tool_calls" for choice in choices)


def runs_responses(payloads: list[Any]) -> bool:
    done = [p["item"] for p in payloads if p["type"] == "response.output_item.done"]
    return any(item["status"] == "completed" for item in done)


def runs_ag_ui(payloads: list[Any]) -> bool:
    """Front ends run the calls that ended without a result."""
    ended = {p["toolCallId"] for p in payloads if p["type"] == "TOOL_CALL_END"}
    return bool(ended - {p["toolCallId"] for p in payloads if p["type"] == "TOOL_CALL_RESULT"})


def has(kind: str) -> Callable[[list[Any]], bool]:
    return lambda payloads: any(p["type"] == kind for p in payloads)


RUNS = {
    "native": runs_native,
    "openai_chat": runs_chat,
    "openai_responses": runs_responses,
    "anthropic": has("content_block_stop"),
    "ui": has("tool-input-available"),
    "ag_ui": runs_ag_ui,
}

ONCE = {
    "again": [WHOLE, WHOLE],
    "again, in pieces": [WHOLE[:9], WHOLE[9:], WHOLE[:4], WHOLE[4:]],
    "twice again": [WHOLE, WHOLE, WHOLE],
    "as a string of JSON": [WHOLE[:9], WHOLE[9:], json.dumps(WHOLE)],
    "with other white space": [WHOLE, json.dumps(json.loads(WHOLE), indent=1)],
    "in one piece": [WHOLE + WHOLE],
    "over the end of a piece": [WHOLE + WHOLE[:3], WHOLE[3:]],
    "after a brace": ["{", WHOLE],
    "with braces in it": ['{"q": "}{"}', '{"q": "}{"}'],
}


@pytest.mark.parametrize("pieces", ONCE.values(), ids=ONCE)
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "cohere", "bedrock_converse"])
def test_repeated_arguments_are_sent_once(dialect: str, pieces: list[str]) -> None:
    found = play([BODIES[dialect](*pieces)], dialect=dialect)
    expected = pieces[0] if "}{" in pieces[0][:9] else WHOLE

    assert outcome(found) == ("completed", "tool_calls")
    assert arguments_of(found) == (expected, expected)


@pytest.mark.parametrize("pieces", [['{"q": 1}', '{"q": 2}'], ['{"q": 1} {"q": 2}'], ["{}", "x"]])
def test_other_arguments_after_whole_ones_break_the_call(pieces: list[str]) -> None:
    found = play([chat(*pieces)])

    assert outcome(found) == BROKEN
    assert "}{" not in arguments_of(found)[0].replace(" ", "")


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_chat", sse(chunk({"content": "a"}), chunk({}, "tool_calls")) + DONE),
        ("openai_chat", sse(chunk({}, "tool_calls")) + DONE),
        ("openai_chat", sse(chunk({}, "function_call"))),
        ("bedrock_converse", event("messageStop", {"stopReason": "tool_use"})),
        ("cohere", sse({"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}})),
        (
            "anthropic",
            sse(
                {"type": "message_start", "message": {"id": "m"}},
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
                {"type": "message_stop"},
            ),
        ),
    ],
)
def test_a_stop_for_tools_without_a_call_is_a_failure(dialect: str, body: bytes) -> None:
    assert outcome(play([body], dialect=dialect)) == BROKEN

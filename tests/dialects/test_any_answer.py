"""No parser raises, and the events are well-formed, whatever an upstream sends."""

import itertools
import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.dialects.reading.split_text import Halves, well_formed
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import TextDelta, ToolCallDelta, ToolCallEnd
from app.framing.sse import Message
from tests.dialects.anthropic import anything as anthropic
from tests.dialects.bedrock import anything as bedrock
from tests.dialects.cohere import anything as cohere
from tests.dialects.gemini import anything as gemini
from tests.dialects.gemini_interactions import anything as gemini_interactions
from tests.dialects.ollama import anything as ollama
from tests.dialects.openai_chat import anything as openai_chat
from tests.dialects.openai_responses import anything as openai_responses
from tests.dialects.strategies import sse, strings
from tests.dialects.streams import CUT, check, end_of, joined, play

pytestmark = pytest.mark.pure

ANYTHING: dict[str, ModuleType] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "bedrock_converse": bedrock,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
    "cohere": cohere,
    "ollama": ollama,
}
"""What to send in each format; Anthropic's stands for the other two that its parser reads."""
BEFORE = {
    "openai_chat": [b"data: {\n\n"],
    "openai_responses": [],
    "anthropic": [],
    "gemini": [b"[", b'data: {"candidates": ['],
    "gemini_interactions": [b"event: step.delta\ndata: "],
    "cohere": [b"event: content-delta\ndata: "],
    "ollama": [b'{"message":{"content":"a"}}\n'],
}
"""How a body of each format in text may begin that goes on with any bytes."""
ENDS = st.sampled_from(("close", "cut", "stop"))
fewer = settings(max_examples=settings().max_examples // 3)
every_format = pytest.mark.parametrize("dialect", ANYTHING)


def test_every_parser_is_sent_anything() -> None:
    parsers = {spoken.parser for spoken in UPSTREAM_FORMATS.values()}
    assert parsers == {UPSTREAM_FORMATS[dialect].parser for dialect in ANYTHING}


@every_format
@given(st.data(), ENDS, st.integers(1, 3))
def test_any_messages_end_well_formed(
    dialect: str, data: st.DataObject, end: str, choices: int
) -> None:
    anything = ANYTHING[dialect]
    sent: list[Message] = data.draw(st.lists(anything.messages, max_size=8))
    parser = UPSTREAM_FORMATS[dialect].parser(upstream="u", choices=choices)
    found = [event for message in sent for event in parser.feed(message)]
    if end == "close":
        tails = getattr(anything, "tails", anything.messages)
        found += parser.close(data.draw(st.none() | tails))
    else:
        found += parser.cut(CUT) if end == "cut" else parser.stop("cancelled")

    check(found)
    assert parser.ended
    assert (end_of(found).error is not None) == (end_of(found).status == "failed")
    pieces: dict[int, str] = {}
    for event in found:
        if isinstance(event, ToolCallDelta):
            pieces[event.block] = pieces.get(event.block, "") + event.arguments
        if isinstance(event, ToolCallEnd):
            assert event.arguments == pieces.get(event.block, event.arguments)


@every_format
@fewer
@given(st.data())
def test_only_the_marker_completes(dialect: str, data: st.DataObject) -> None:
    body = data.draw(ANYTHING[dialect].unfinished)
    found = play([body], dialect=dialect)

    check(found)
    assert end_of(found).status != "completed"


@pytest.mark.parametrize("dialect", BEFORE)
@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(dialect: str, head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect=dialect))
    for before in BEFORE[dialect]:
        check(play([before[: len(head)], head, b"\n\n", tail], dialect=dialect))


@given(st.lists(strings, max_size=6))
def test_halves_join_however_the_text_is_cut(pieces: list[str]) -> None:
    halves = Halves()
    text = "".join(halves.feed(piece) for piece in pieces) + halves.close()

    assert text == well_formed("".join(pieces))
    assert text.encode().decode() == text


@fewer
@given(st.lists(openai_chat.chunks, min_size=1, max_size=6))
def test_no_chunk_of_chat_completions_is_an_invalid_response(sent: list[dict[str, Any]]) -> None:
    found = play([sse(*sent) + b"data: [DONE]\n\n"])

    check(found)
    error = end_of(found).error
    assert error is None or error.code != "upstream_invalid_response"


@fewer
@given(st.lists(anthropic.payloads, max_size=8))
def test_events_of_messages_are_an_answer_once_they_stop(sent: list[dict[str, Any]]) -> None:
    start = {"type": "message_start", "message": {"id": "i"}}
    end = end_of(play([sse(start, *sent, {"type": "message_stop"})], dialect="anthropic"))

    assert end.error is None or end.error.code in ("upstream_unavailable", "upstream_tool_failed")
    if end.error is not None and end.error.code == "upstream_tool_failed":
        assert "tool_use" in json.dumps(sent)  # it stopped for calls, and sent none that is whole


@fewer
@given(anthropic.whole)
def test_a_whole_message_is_an_answer_or_empty(message: dict[str, Any]) -> None:
    found = play([json.dumps(message).encode()], dialect="anthropic")

    check(found)
    error = end_of(found).error
    if error is not None and error.code == "upstream_tool_failed":
        assert message["stop_reason"] == "tool_use"
        return
    assert error is None or error.code == (
        "upstream_unavailable" if "content" in message else "upstream_truncated"
    )


@fewer
@given(st.lists(cohere.payloads, max_size=6))
def test_events_of_cohere_are_an_answer_once_they_end(sent: list[dict[str, Any]]) -> None:
    events = [payload for payload in sent if payload["type"] != "message"]
    end = {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}
    found = play([sse(*events, end)], dialect="cohere")

    check(found)
    assert end_of(found).status == "completed"


@fewer
@given(st.lists(gemini_interactions.payloads, max_size=6))
def test_steps_of_an_interaction_are_an_answer_once_it_ends(sent: list[dict[str, Any]]) -> None:
    end = {"event_type": "interaction.completed", "interaction": {"status": "completed"}}
    found = play([sse(*sent, end)], dialect="gemini_interactions")

    check(found)
    assert end_of(found).status == "completed"


@fewer
@given(st.lists(ollama.lines, min_size=1, max_size=6))
def test_no_line_of_ollama_is_an_invalid_response(sent: list[dict[str, Any]]) -> None:
    body = b"".join(json.dumps({"done": False, **line}).encode() + b"\n" for line in sent)
    found = play([body + b'{"message":{"content":"a"},"done":true}\n'], dialect="ollama")

    check(found)
    error = end_of(found).error
    torn = error is not None and error.code == "upstream_tool_failed"
    assert not torn or b'"arguments": "' in body
    assert error is None or torn or "loaded the model" in error.message


@fewer
@given(st.lists(gemini.chunks, min_size=1, max_size=5), st.lists(st.integers(0, 2000), max_size=8))
def test_events_and_an_array_of_gemini_say_the_same(
    sent: list[dict[str, Any]], cuts: list[int]
) -> None:
    as_array = json.dumps(sent, indent=1).encode()
    at = sorted(cut for cut in cuts if cut <= len(as_array))
    pieces = [as_array[a:b] for a, b in zip([0, *at], [*at, len(as_array)], strict=True)]
    found = play([sse(*sent).replace(b"\n\n", b"\r\n\r\n")], dialect="gemini")

    check(found)
    assert play(pieces, dialect="gemini") == found


@fewer
@given(bedrock.unfinished, st.integers(0, 400))
def test_any_frames_end_well_formed(body: bytes, size: int) -> None:
    for dialect in ("bedrock_converse", "bedrock_anthropic"):
        check(play([body[:size]], dialect=dialect, cut=CUT))


whole_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(whole_text, st.lists(st.integers(0, 24), max_size=4), st.integers(0, 24), st.booleans())
def test_deltas_and_the_whole_make_the_text_once(
    text: str, cuts: list[int], seen: int, item: bool
) -> None:
    """However the text is cut, in characters or their halves, and wherever the deltas stop."""
    units = text.encode("utf-16-le")
    bounds = sorted({0, *(2 * cut for cut in cuts if cut <= seen), 2 * seen})
    pieces = [units[a:b] for a, b in itertools.pairwise(bounds)]
    content = [{"type": "output_text", "text": text}]
    sent: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "delta": p.decode("utf-16-le", "surrogatepass")}
        for p in pieces
    ]
    if item:
        sent.append(
            {"type": "response.output_item.done", "item": {"type": "message", "content": content}}
        )
    output = [{"type": "message", "content": content}]
    sent.append({"type": "response.completed", "response": {"output": output}})
    found = play([sse(*sent)], dialect="openai_responses")

    check(found)
    assert joined(found, TextDelta) == text

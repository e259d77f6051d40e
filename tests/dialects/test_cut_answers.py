"""An answer that is cut anywhere looks complete only if its end was there."""

from pathlib import Path

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from tests.dialects.judges import JUDGES, cuts
from tests.dialects.streams import CUT, check, end_of, play, specified_bodies
from tests.framing.frames import event

pytestmark = pytest.mark.pure

SPECS = [pytest.param(dialect, path, id=path.name) for dialect, path in specified_bodies()]


@pytest.mark.parametrize(("dialect", "path"), SPECS)
def test_a_cut_answer_never_looks_complete(dialect: str, path: Path) -> None:
    body = path.read_bytes()
    for size, ended, complete in cuts(body, dialect, most=100, last=50):
        found = play([body[:size]], dialect=dialect, cut=None if ended else CUT)
        check(found)
        status = end_of(found).status
        assert complete == (status == "completed"), f"cut at {size}: {found[-1]}"


def test_every_place_of_a_short_answer_keeps_the_invariants() -> None:
    body = b"".join(
        b'data: {"choices":[{"index":%d,"delta":{"content":"\\ud83d\\ude00","tool_calls":'
        b'[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},'
        b'"finish_reason":"stop"}]}\n\n' % choice
        for choice in (0, 1)
    )
    for size in range(len(body) + 1):
        check(play([body[:size]]))
        check(play([body[:size]], cut=CUT))


def sse(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


FINISHED = {
    "openai_chat": sse(b'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'),
    "openai_responses": sse(b'{"type":"response.completed"}'),
    "anthropic": sse(b'{"type":"message_delta"}', b'{"type":"message_stop"  }  '),
    "vertex_anthropic": sse(b'{"type":"message_stop"}'),
    "bedrock_anthropic": event("chunk", {"bytes": "eyJ0eXBlIjoibWVzc2FnZV9zdG9wIn0="}),
    "bedrock_converse": event("messageStop", {"stopReason": "end_turn"}),
    "gemini": sse(b'{"candidates":[{"finishReason":"STOP"}]}'),
    "gemini_interactions": sse(b'{"event_type":"interaction.completed"}'),
    "cohere": sse(b'{"type":"message-end","delta":{}}'),
    "ollama": b'{"done":true}\n',
}
ERRORS = {
    "openai_chat": sse(b'{"error":{}}') + FINISHED["openai_chat"],
    "openai_responses": sse(b'{"type":"error"}') + FINISHED["openai_responses"],
    "anthropic": sse(b'{"type":"error"}') + FINISHED["anthropic"],
    "bedrock_anthropic": event("xException", {}) + FINISHED["bedrock_anthropic"],
    "bedrock_converse": FINISHED["bedrock_converse"] + event("exception", {}),
    "gemini": FINISHED["gemini"] + sse(b'{"error":{}}'),
    "gemini_interactions": sse(b'{"event_type":"error"}') + FINISHED["gemini_interactions"],
    "cohere": sse(b'{"type":"message-end","delta":{"error":"x"}}'),
    "ollama": b'{"error":"x"}\n' + FINISHED["ollama"],
}


def test_every_format_has_its_judge() -> None:
    assert UPSTREAM_FORMATS.keys() == JUDGES.keys() == FINISHED.keys()


@pytest.mark.parametrize("dialect", FINISHED)
def test_a_judge_of_cuts_is_right(dialect: str) -> None:
    judge, body = JUDGES[dialect], FINISHED[dialect]
    unterminated = body.rstrip(b"\n")
    framed = dialect.startswith("bedrock")

    assert judge(body, True)
    assert judge(body, False)
    if not framed:
        assert judge(unterminated, True)
        assert not judge(unterminated, False)
    for size in range(len(unterminated.rstrip(b" ")) - 1):
        assert not judge(body[:size], True)
        assert not judge(body[:size], False)
    if dialect in ERRORS:
        assert not judge(ERRORS[dialect], True)


def test_a_judge_knows_what_else_its_format_may_hold() -> None:
    chat, claude, gemini = (FINISHED[name] for name in ("openai_chat", "anthropic", "gemini"))
    whole, more = gemini[6:-2], sse(b'{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}')

    assert not JUDGES["openai_chat"](chat.replace(b'"stop"', b"null"), True)
    assert JUDGES["openai_chat"](sse(b"[DONE]"), False)
    assert JUDGES["anthropic"](claude.replace(b"\n", b"\r\n"), False)
    assert not JUDGES["anthropic"](claude.replace(b"_stop", b"_delta"), True)
    assert JUDGES["gemini"](b"[%b]" % whole, False)
    assert not JUDGES["gemini"](b"[%b" % whole, True)
    assert not JUDGES["gemini"](gemini + gemini[:-3], True)
    assert not JUDGES["gemini"](gemini + more, True)
    assert not JUDGES["bedrock_converse"](FINISHED["bedrock_converse"] + b"\0\0", True)
    assert JUDGES["bedrock_converse"](FINISHED["bedrock_converse"] + b"\0\0", False)
    assert JUDGES["ollama"](b'{\n"done": true\n}', True)

"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.ollama.upstream.parser import Parser
from app.errors import UpstreamError
from app.framing.sse import Message
from tests.dialects.openai_chat.test_properties import junk, scalars, some, strings
from tests.dialects.streams import check, end_of, play

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")

functions = some(
    name=st.sampled_from(("", "f", "g")),
    arguments=st.dictionaries(strings, scalars, max_size=2) | st.just("{"),
    index=st.integers(0, 2),
)
calls = some(id=st.sampled_from(("", "a", "b")), function=functions)
messages = some(
    content=strings,
    thinking=strings,
    tool_calls=st.lists(calls, max_size=3),
    images=st.lists(st.sampled_from(("iVBORw0KGgo", "x", "")), max_size=2),
)
lines = some(
    model=strings,
    message=messages,
    response=strings,
    thinking=strings,
    image=strings,
    logprobs=st.lists(some(token=strings), max_size=2),
    prompt_eval_count=st.integers(),
    eval_count=st.integers(),
    done_reason=st.sampled_from(("stop", "length", "load", "x")),
    done=st.booleans(),
)
errors = st.fixed_dictionaries({"error": junk})
sent = (lines | lines | lines | errors | junk).map(json.dumps) | strings


@given(
    st.lists(sent, max_size=8),
    st.none() | sent,
    st.sampled_from(("close", "cut", "stop")),
)
def test_any_messages_end_well_formed(texts: list[str], tail: str | None, end: str) -> None:
    parser = Parser(upstream="u")
    found = [event for text in texts for event in parser.feed(Message("message", text))]
    found += {
        "close": lambda: parser.close(None if tail is None else Message("message", tail)),
        "cut": lambda: parser.cut(CUT),
        "stop": lambda: parser.stop("cancelled"),
    }[end]()

    check(found)
    assert parser.ended
    assert (end_of(found).error is not None) == (end_of(found).status == "failed")


def is_marker(text: str) -> bool:
    try:
        line = json.loads(text)
    except ValueError:
        return False
    return isinstance(line, dict) and line.get("done") is True


@given(st.lists(sent, max_size=6))
def test_only_the_marker_completes(texts: list[str]) -> None:
    parser = Parser(upstream="u")
    found = [event for text in texts for event in parser.feed(Message("message", text))]
    found += parser.close(None)

    if end_of(found).status == "completed":
        assert any(is_marker(text) for text in texts)


@given(st.lists(lines, min_size=1, max_size=6))
def test_lines_are_never_a_failure_of_the_response(sent: list[dict[str, Any]]) -> None:
    body = b"".join(json.dumps({"done": False, **line}).encode() + b"\n" for line in sent)
    found = play([body + b'{"message":{"content":"a"},"done":true}\n'], dialect="ollama")

    check(found)
    error = end_of(found).error
    assert error is None or "loaded the model" in error.message


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect="ollama"))
    check(play([b'{"message":{"content":"a"}}\n', head, b"\n", tail], dialect="ollama"))

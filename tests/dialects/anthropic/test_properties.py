"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.anthropic.upstream.parser import Parser
from app.errors import UpstreamError
from app.framing.sse import Message
from tests.dialects.anthropic.streams import STOP, sse
from tests.dialects.streams import check, end_of, play

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")
KINDS = (
    *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
    *("mcp_tool_result", "web_search_tool_result", "compaction", "fallback", "hologram"),
)
DELTAS = (
    *("text_delta", "thinking_delta", "signature_delta", "citations_delta", "input_json_delta"),
    *("compaction_delta", "hologram_delta"),
)

# Surrogate halves are wanted: JSON can carry them.
strings = st.text(st.characters(), max_size=4) | st.sampled_from(("\ud83d", "\ude00", "a"))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | strings
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)


def some(kinds: tuple[str, ...] = (), **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object of one of the kinds with some of the fields, each as it should be or as junk."""
    optional = {name: value | junk for name, value in fields.items()}
    return st.fixed_dictionaries(
        {"type": st.sampled_from(kinds)} if kinds else {}, optional=optional
    )


indices = st.integers(0, 2)
ids = st.sampled_from(("", "a", "b"))
citations = some(
    url=strings, title=strings, cited_text=strings, source=strings, document_index=indices
)
blocks = some(
    KINDS,
    text=strings,
    thinking=strings,
    signature=strings,
    data=strings,
    id=ids,
    name=st.sampled_from(("", "f", "g")),
    input=st.dictionaries(strings, scalars, max_size=2),
    tool_use_id=ids,
    content=junk,
    citations=st.lists(citations, max_size=2),
)
deltas = some(
    DELTAS,
    text=strings,
    thinking=strings,
    signature=strings,
    citation=citations,
    partial_json=st.sampled_from(("", "{", "}", "{}")),
)
usages = some(input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
ends = some(
    stop_reason=st.sampled_from(("end_turn", "tool_use", "max_tokens", "refusal", "x")),
    stop_sequence=strings,
    stop_details=some(category=strings, explanation=strings),
)
heads = some(id=st.just("i"), model=strings, usage=usages, content=st.lists(blocks, max_size=2))
payloads = st.one_of(
    some(("content_block_start",), index=indices, content_block=blocks),
    some(("content_block_delta",), index=indices, delta=deltas),
    some(("content_block_delta",), index=indices, delta=deltas),
    some(("content_block_stop",), index=indices),
    some(("message_delta",), delta=ends, usage=usages),
    some(("ping", "hologram")),
)
whole = some(
    ("message",),
    content=st.lists(blocks, max_size=3),
    stop_reason=st.sampled_from(("end_turn", "tool_use")),
    usage=usages,
)
others = st.one_of(
    some(("message_start",), message=heads),
    some(("error",), error=junk),
    st.just(STOP),
    whole,
    junk,
)
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "ping", "message_stop")),
    (payloads | payloads | payloads | others).map(json.dumps) | strings | st.just("[DONE]"),
)


@given(
    st.lists(messages, max_size=10),
    st.none() | messages,
    st.sampled_from(("close", "cut", "stop")),
)
def test_any_messages_end_well_formed(sent: list[Message], tail: Message | None, end: str) -> None:
    parser = Parser(upstream="u")
    found = [event for message in sent for event in parser.feed(message)]
    found += {
        "close": lambda: parser.close(tail),
        "cut": lambda: parser.cut(CUT),
        "stop": lambda: parser.stop("cancelled"),
    }[end]()

    check(found)
    assert parser.ended
    assert (end_of(found).error is not None) == (end_of(found).status == "failed")


@given(st.lists(payloads, max_size=8), st.booleans())
def test_only_a_stop_completes(sent: list[dict[str, Any]], stopped: bool) -> None:
    body = sse({"type": "message_start", "message": {"id": "i"}}, *sent, *([STOP] * stopped))
    end = end_of(play([body], dialect="anthropic"))

    if stopped:
        assert end.error is None or end.error.code == "upstream_unavailable"
    else:
        assert end.error is not None
        assert end.error.code == "upstream_truncated"


@given(whole)
def test_a_whole_message_is_an_answer_or_empty(message: dict[str, Any]) -> None:
    found = play([json.dumps(message).encode()], dialect="anthropic")

    check(found)
    error = end_of(found).error
    assert error is None or error.code == (
        "upstream_unavailable" if "content" in message else "upstream_truncated"
    )


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect="anthropic"))

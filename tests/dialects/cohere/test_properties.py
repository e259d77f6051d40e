"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.cohere.upstream.parser import Parser
from app.errors import UpstreamError
from app.framing.sse import Message
from tests.dialects.openai_chat.test_properties import junk, some, strings
from tests.dialects.streams import check, end_of, play

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")
KINDS = (
    *("message-start", "content-start", "content-delta", "content-end", "tool-plan-delta"),
    *("tool-call-start", "tool-call-delta", "tool-call-end", "citation-start", "citation-end"),
    *("debug", "hologram", "message"),
)

indices = st.integers(0, 2)
functions = some(name=st.sampled_from(("", "f", "g")), arguments=st.sampled_from(("{", "}", "{}")))
calls = some(id=st.sampled_from(("", "a", "b")), function=functions)
documents = some(id=strings, url=strings, title=strings)
sources = some(id=strings, document=documents, tool_output=documents)
citations = some(
    start=st.integers(),
    end=st.integers(),
    sources=st.lists(sources, max_size=2),
    content_index=indices,
    type=st.sampled_from(("TEXT_CONTENT", "PLAN")),
)
pieces = some(text=strings, thinking=strings)
messages = some(content=pieces, tool_plan=strings, tool_calls=calls, citations=citations)
reasons = st.sampled_from(("COMPLETE", "TOOL_CALL", "MAX_TOKENS", "ERROR", "TIMEOUT", "x"))
usages = some(tokens=some(input_tokens=st.floats(), output_tokens=st.integers()))
payloads = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "id": strings | junk,
        "index": indices | junk,
        "delta": some(message=messages),
        "logprobs": some(text=strings) | junk,
    },
)
ends = st.fixed_dictionaries(
    {"type": st.just("message-end"), "delta": some(finish_reason=reasons, usage=usages)}
)
wholes = some(
    id=strings,
    finish_reason=reasons,
    usage=usages,
    logprobs=st.lists(junk, max_size=2),
    message=some(
        content=st.lists(pieces, max_size=2),
        tool_plan=strings,
        tool_calls=st.lists(calls, max_size=2),
        citations=st.lists(citations, max_size=2),
    ),
)
errors = st.fixed_dictionaries({"error": junk}) | st.fixed_dictionaries({"message": junk})
sent = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "content-delta", "message-end")),
    (payloads | payloads | payloads | ends | wholes | errors | junk).map(json.dumps)
    | strings
    | st.just("[DONE]"),
)


@given(st.lists(sent, max_size=8), st.none() | sent, st.sampled_from(("close", "cut", "stop")))
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


@given(st.lists(payloads, max_size=8))
def test_only_the_marker_completes(sent: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in sent)

    assert end_of(play([body + b"data: [DONE]\n\n"], dialect="cohere")).status == "failed"


@given(st.lists(payloads, max_size=6))
def test_events_are_never_a_failure_of_the_response(sent: list[dict[str, Any]]) -> None:
    sent = [payload for payload in sent if payload["type"] != "message"]
    body = b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in sent)
    end = b'data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}\n\n'
    found = play([body + end], dialect="cohere")

    check(found)
    assert end_of(found).status == "completed"


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect="cohere"))
    check(play([b"event: content-delta\ndata: ", head, b"\n\n", tail], dialect="cohere"))

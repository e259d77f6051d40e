"""Whatever Bedrock sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.bedrock.upstream.parser import Parser
from app.errors import UpstreamError
from app.framing.eventstream import TRUNCATED
from app.framing.sse import Message
from tests.dialects.openai_chat.test_properties import junk, some, strings
from tests.dialects.streams import check, end_of, play
from tests.framing.frames import event

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")

indices = st.integers(0, 2)
ids = st.sampled_from(("", "a", "b"))
uses = some(toolUseId=ids, name=ids, type=st.sampled_from(("tool_use", "server_tool_use")))
results = some(toolUseId=ids, type=strings, status=st.sampled_from(("success", "error")))
starts = some(toolUse=uses, toolResult=results, image=some(format=st.just("png")))
locations = some(web=some(url=strings), documentChar=some(documentIndex=indices))
citations = some(
    title=strings,
    source=strings | st.just("https://a.b"),
    sourceContent=st.lists(some(text=strings), max_size=2),
    location=locations,
)
sources = some(bytes=strings | st.just("YWI="), s3Location=some(uri=strings))
deltas = some(
    text=strings,
    toolUse=some(input=strings | st.sampled_from(("{", "}", "{}"))),
    reasoningContent=some(
        text=strings, signature=strings, redactedContent=strings | st.just("WVdJPQ==")
    ),
    citation=citations,
    toolResult=st.lists(some(text=strings, json=junk), max_size=2),
    image=some(source=sources, error=some(message=strings)),
)
findings = some(type=strings, match=strings, action=st.sampled_from(("NONE", "BLOCKED")))
assessments = st.dictionaries(
    st.sampled_from(("topicPolicy", "wordPolicy", "other")),
    st.dictionaries(strings, st.lists(findings, max_size=2), max_size=2),
    max_size=2,
)
guardrails = some(
    inputAssessment=st.dictionaries(strings, assessments | junk, max_size=2),
    outputAssessments=st.dictionaries(strings, st.lists(assessments, max_size=2), max_size=2),
)
usages = some(inputTokens=st.integers(), outputTokens=st.integers(), cacheReadInputTokens=indices)
reasons = st.sampled_from(("end_turn", "tool_use", "max_tokens", "malformed_tool_use", "x"))
bodies = {
    "messageStart": some(role=strings),
    "contentBlockStart": some(contentBlockIndex=indices, start=starts),
    "contentBlockDelta": some(contentBlockIndex=indices, delta=deltas),
    "contentBlockStop": some(contentBlockIndex=indices),
    "messageStop": some(stopReason=reasons),
    "metadata": some(
        usage=usages, trace=some(guardrail=guardrails, promptRouter=some(invokedModelId=strings))
    ),
    "novelty": junk,
}
known = st.sampled_from(sorted(bodies)).flatmap(lambda name: bodies[name].map(lambda b: (name, b)))
wholes = some(
    output=some(message=some(content=st.lists(deltas | starts, max_size=3))),
    stopReason=reasons,
    usage=usages,
    message=strings,
    error=junk,
)
messages = st.one_of(
    *[known.map(lambda pair: Message(f"event:{pair[0]}", json.dumps(pair[1])))] * 6,
    st.builds(
        Message,
        st.sampled_from(
            ("exception:throttlingException", "error:", "event:metadata", ":", "", "x")
        ),
        junk.map(json.dumps) | strings,
    ),
    wholes.map(lambda body: Message("message", json.dumps(body))),
)


@given(
    st.lists(messages, max_size=10),
    st.none() | messages | st.just(Message(TRUNCATED, "")),
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


@given(st.lists(known, max_size=8), st.integers(0, 400))
def test_any_frames_end_well_formed(sent: list[tuple[str, Any]], size: int) -> None:
    body = b"".join(event(name, document) for name, document in sent)
    check(play([body], dialect="bedrock_converse"))
    check(play([body[:size]], dialect="bedrock_converse", cut=CUT))
    check(play([body[:size]], dialect="bedrock_anthropic"))

"""Frames of Converse as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.eventstream import TRUNCATED
from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, some, strings
from tests.framing.frames import event

uses = some(toolUseId=ids, name=ids, type=st.sampled_from(("tool_use", "server_tool_use")))
results = some(toolUseId=ids, type=strings, status=st.sampled_from(("success", "error")))
starts = some(toolUse=uses, toolResult=results, image=some(format=st.just("png")))
locations = some(web=some(url=strings), documentChar=some(documentIndex=indices))
citations = some(
    title=strings,
    source=strings | st.just("https://a.b"),
    sourceContent=many(some(text=strings)),
    location=locations,
)
deltas = some(
    text=strings,
    toolUse=some(input=strings | st.sampled_from(("{", "}", "{}"))),
    reasoningContent=some(
        text=strings, signature=strings, redactedContent=strings | st.just("WVdJPQ==")
    ),
    citation=citations,
    toolResult=many(some(text=strings, json=junk)),
)
findings = some(type=strings, match=strings, action=st.sampled_from(("NONE", "BLOCKED")))
assessments = st.dictionaries(
    st.sampled_from(("topicPolicy", "wordPolicy", "other")),
    st.dictionaries(strings, many(findings), max_size=2),
    max_size=2,
)
guardrails = some(
    inputAssessment=st.dictionaries(strings, assessments | junk, max_size=2),
    outputAssessments=st.dictionaries(strings, many(assessments), max_size=2),
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
tails = messages | st.just(Message(TRUNCATED, ""))
unfinished = st.lists(known.filter(lambda pair: pair[0] != "messageStop"), max_size=8).map(
    lambda sent: b"".join(event(name, document) for name, document in sent)
)

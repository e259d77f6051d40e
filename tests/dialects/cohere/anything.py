"""Events of Cohere as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, names, some, sse, strings

KINDS = (
    *("message-start", "content-start", "content-delta", "content-end", "tool-plan-delta"),
    *("tool-call-start", "tool-call-delta", "tool-call-end", "citation-start", "citation-end"),
    *("debug", "hologram", "message"),
)

functions = some(name=names, arguments=st.sampled_from(("{", "}", "{}")))
calls = some(id=ids, function=functions)
documents = some(id=strings, url=strings, title=strings)
sources = some(id=strings, document=documents, tool_output=documents)
citations = some(
    start=st.integers(),
    end=st.integers(),
    sources=many(sources),
    content_index=indices,
    type=st.sampled_from(("TEXT_CONTENT", "PLAN")),
)
pieces = some(text=strings, thinking=strings)
said = some(content=pieces, tool_plan=strings, tool_calls=calls, citations=citations)
reasons = st.sampled_from(("COMPLETE", "TOOL_CALL", "MAX_TOKENS", "ERROR", "TIMEOUT", "x"))
usages = some(tokens=some(input_tokens=st.floats(), output_tokens=st.integers()))
payloads = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "id": strings | junk,
        "index": indices | junk,
        "delta": some(message=said),
        "logprobs": some(text=strings) | junk,
    },
)
ends = st.fixed_dictionaries(
    {"type": st.just("message-end"), "delta": some(finish_reason=reasons, usage=usages)}
)
errors = st.fixed_dictionaries({"error": junk}) | st.fixed_dictionaries({"message": junk})
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "content-delta", "message-end")),
    (payloads | payloads | payloads | ends | errors | junk).map(json.dumps)
    | strings
    | st.just("[DONE]"),
)
unfinished = st.lists(payloads, max_size=8).map(lambda sent: sse(*sent) + b"data: [DONE]\n\n")

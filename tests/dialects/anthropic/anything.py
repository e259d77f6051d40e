"""Events of Anthropic Messages as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, names, scalars, some, sse, strings

KINDS = (
    *("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"),
    *("mcp_tool_result", "web_search_tool_result", "compaction", "fallback", "hologram"),
)
DELTAS = (
    *("text_delta", "thinking_delta", "signature_delta", "citations_delta", "input_json_delta"),
    *("compaction_delta", "hologram_delta"),
)

citations = some(
    url=strings, title=strings, cited_text=strings, source=strings, document_index=indices
)
blocks = some(
    *KINDS,
    text=strings,
    thinking=strings,
    signature=strings,
    data=strings,
    id=ids,
    name=names,
    input=st.dictionaries(strings, scalars, max_size=2),
    tool_use_id=ids,
    content=junk,
    citations=many(citations),
)
deltas = some(
    *DELTAS,
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
heads = some(id=st.just("i"), model=strings, usage=usages, content=many(blocks))
payloads = st.one_of(
    some("content_block_start", index=indices, content_block=blocks),
    some("content_block_delta", index=indices, delta=deltas),
    some("content_block_delta", index=indices, delta=deltas),
    some("content_block_stop", index=indices),
    some("message_delta", delta=ends, usage=usages),
    some("ping", "hologram"),
)
whole = some(
    "message",
    content=many(blocks),
    stop_reason=st.sampled_from(("end_turn", "tool_use")),
    usage=usages,
)
others = st.one_of(
    some("message_start", message=heads),
    some("error", error=junk),
    st.just({"type": "message_stop"}),
    whole,
    junk,
)
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "ping", "message_stop")),
    (payloads | payloads | payloads | others).map(json.dumps) | strings | st.just("[DONE]"),
)
unfinished = st.lists(payloads, max_size=8).map(
    lambda sent: sse({"type": "message_start", "message": {"id": "i"}}, *sent)
)

"""Events of Responses as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import indices, junk, many, some, sse, strings

TEXTS = ("output_text", "refusal", "reasoning_text", "reasoning_summary_text")
INPUTS = (
    *("function_call_arguments", "custom_tool_call_input"),
    *("code_interpreter_call_code", "mcp_call_arguments"),
)
ITEMS = (
    *("message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "mcp_call"),
    *("image_generation_call", "code_interpreter_call", "compaction", "mcp_list_tools", "hologram"),
)

annotations = some(
    type=st.sampled_from(("url_citation", "file_citation")),
    url=strings,
    filename=strings,
    title=strings,
    start_index=st.integers(),
    index=st.integers(),
)
logprobs = many(some(token=strings))
parts = some(
    type=st.sampled_from(("output_text", "refusal", "summary_text", "reasoning_text")),
    text=strings,
    refusal=strings,
    annotations=many(annotations),
    logprobs=logprobs,
)
items = some(
    type=st.sampled_from(ITEMS),
    name=st.sampled_from(("f", "g", "x_keyword_search", "")),
    call_id=st.sampled_from(("", "c", "d")),
    arguments=st.sampled_from(("", "{", "{}")),
    input=strings,
    content=many(parts),
    summary=many(parts),
    encrypted_content=strings,
    phase=strings,
    action=junk,
    result=strings,
    output=junk,
    tools=junk,
)
usages = some(input_tokens=st.integers(), output_tokens_details=some(reasoning_tokens=indices))
responses = some(
    id=strings,
    model=strings,
    object=st.just("response"),
    status=st.sampled_from(("completed", "incomplete", "failed", "cancelled", "queued")),
    output=many(items),
    usage=usages,
    error=some(code=strings, message=strings),
    incomplete_details=some(reason=st.sampled_from(("max_output_tokens", "content_filter", "x"))),
    content_filters=many(some(source_type=strings, content_filter_results=junk)),
)
kinds = st.sampled_from(
    (
        *(
            f"response.{kind}.{action}"
            for kind in (*TEXTS, *INPUTS)
            for action in ("delta", "done")
        ),
        *("response.output_item.added", "response.output_item.done") * 3,
        *("response.content_part.done", "response.output_text.annotation.added", "keepalive"),
        *("response.audio.delta", "response.audio.transcript.delta", "response.created"),
        *("response.web_search_call.searching", "response.novel", "novel.completed"),
        *("response.completed", "response.incomplete", "response.failed", "response.done"),
    )
)
payloads = some(
    type=kinds,
    output_index=indices,
    content_index=indices,
    summary_index=indices,
    delta=strings,
    text=strings,
    refusal=strings,
    arguments=strings,
    input=strings,
    item=items,
    part=parts,
    annotation=annotations,
    logprobs=logprobs,
    response=responses,
)
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "ping", "response.output_text.delta")),
    (payloads | payloads | payloads | responses | junk).map(json.dumps) | strings,
)
ENDS = ("response.completed", "response.incomplete", "response.done")
unfinished = st.lists(payloads, max_size=8).map(
    lambda sent: sse(
        *(one for one in sent if isinstance(one.get("type"), str) and one["type"] not in ENDS)
    )
)

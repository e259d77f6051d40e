"""Chunks of Chat Completions as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, names, scalars, some, sse, strings

functions = some(name=names, arguments=st.sampled_from(("{", "}", "{}")))
tool_calls = some(index=indices, id=ids, function=functions)
details = some(text=strings, summary=strings, signature=strings, data=strings, format=strings)
places = some(url=strings, title=strings, start_index=st.integers(), end_index=st.integers())
images = some(type=st.just("image_url"), image_url=some(url=st.just("data:,x") | strings))
parts = some(
    type=st.sampled_from(("text", "thinking", "reference", "image_url", "refusal")),
    text=strings,
    thinking=strings | many(some(text=strings)),
    reference_ids=many(scalars),
)
deltas = some(
    content=strings | many(parts),
    reasoning=strings,
    reasoning_content=strings,
    reasoning_details=many(details),
    refusal=strings,
    tool_calls=many(tool_calls),
    audio=some(data=strings, transcript=strings),
    images=many(images),
    annotations=many(some(type=strings, url_citation=places)),
)
usages = some(prompt_tokens=st.integers(), completion_tokens=st.integers())
choices = some(
    index=indices,
    delta=deltas,
    message=deltas,
    finish_reason=st.sampled_from(("stop", "length", "tool_calls", "error", "x")),
    stop_reason=strings,
    logprobs=some(content=many(some(token=strings))),
    content_filter_results=st.dictionaries(strings, some(filtered=st.booleans()), max_size=2),
)
chunks = some(
    id=strings,
    model=strings,
    object=st.sampled_from(("chat.completion.chunk", "chat.completion")),
    choices=many(choices),
    usage=usages,
    x_groq=some(usage=usages),
    citations=many(strings),
    search_results=many(places),
    prompt_filter_results=many(some(content_filter_results=junk)),
)
errors = st.fixed_dictionaries({"error": junk})
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "ping")),
    (chunks | chunks | chunks | errors | junk).map(json.dumps) | strings | st.just("[DONE]"),
)
unfinished = st.lists(some(index=indices, delta=deltas), max_size=8).map(
    lambda sent: sse(*({"choices": [choice]} for choice in sent))
)

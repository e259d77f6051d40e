"""Events of the Interactions API as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, names, some, sse, strings

TOOLS = ("google_search", "code_execution", "url_context", "google_maps", "mcp_server_tool")
STEPS = (
    *("model_output", "thought", "function_call") * 3,
    *("user_input", "hologram", "file_search_call"),
    *(f"{tool}_{side}" for tool in TOOLS for side in ("call", "result")),
)
DELTAS = (
    *("text", "thought_summary", "thought_signature", "arguments_delta", "text_annotation_delta"),
    *("image", "audio", "video", "frames"),
    *(f"{tool}_{side}" for tool in TOOLS for side in ("call", "result")),
)

annotations = some(
    "url_citation",
    "file_citation",
    "word_info",
    url=strings,
    title=strings,
    file_name=strings,
    document_uri=strings,
    start_index=st.integers(),
    end_index=st.integers(0, 8),
)
results = many(some(url=strings, status=strings, places=many(some(url=strings, name=strings))))
contents = some("text", "image", "audio", text=strings, data=strings, annotations=many(annotations))
steps = some(
    *STEPS,
    id=ids,
    call_id=ids,
    name=names,
    arguments=some(a=strings),
    result=results | strings,
    is_error=st.booleans(),
    signature=strings,
    summary=many(contents),
    content=many(contents),
    error=some(message=strings),
)
deltas = some(
    *DELTAS,
    text=strings,
    content=contents,
    signature=strings,
    arguments=st.sampled_from(("{", "}", "{}")) | some(queries=many(strings)),
    annotations=many(annotations),
    result=results | strings,
    is_error=st.booleans(),
    data=strings,
    uri=strings,
    mime_type=st.sampled_from(("image/png", "audio/l16")),
    sample_rate=st.integers(),
)
usages = some(total_input_tokens=st.floats(), total_output_tokens=st.integers(), total_tokens=junk)
statuses = st.sampled_from(("completed", "requires_action", "incomplete", "failed", "cancelled"))
interactions = some(
    id=strings, model=strings, status=statuses, usage=usages, steps=many(steps), errors=many(junk)
)
kinds = st.sampled_from(
    (
        *("step.start", "step.delta", "step.stop") * 4,
        *("interaction.created", "interaction.status_update", "interaction.hologram"),
    )
)
payloads = st.fixed_dictionaries(
    {"event_type": kinds},
    optional={
        "index": indices | junk,
        "step": steps | junk,
        "delta": deltas | junk,
        "usage": usages | junk,
        "metadata": some(total_usage=usages),
        "interaction": interactions | junk,
        "event_id": strings,
    },
)
ends = st.fixed_dictionaries(
    {"event_type": st.just("interaction.completed"), "interaction": interactions | junk}
)
errors = st.fixed_dictionaries({"error": junk}) | st.fixed_dictionaries({"object": strings})
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "step.delta", "done")),
    (payloads | payloads | payloads | ends | errors | junk).map(json.dumps)
    | strings
    | st.just("[DONE]"),
)
unfinished = st.lists(payloads, max_size=8).map(
    lambda sent: sse(*sent) + b"event: done\ndata: [DONE]\n\n"
)

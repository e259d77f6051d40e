"""Lines of Ollama as nobody should send them."""

import json

from hypothesis import strategies as st

from app.framing.sse import Message
from tests.dialects.strategies import ids, indices, junk, many, names, scalars, some, strings

functions = some(
    name=names,
    arguments=st.dictionaries(strings, scalars, max_size=2) | st.just("{"),
    index=indices,
)
calls = some(id=ids, function=functions)
said = some(
    content=strings,
    thinking=strings,
    tool_calls=many(calls),
    images=many(st.sampled_from(("iVBORw0KGgo", "x", ""))),
)
lines = some(
    model=strings,
    message=said,
    response=strings,
    thinking=strings,
    image=strings,
    logprobs=many(some(token=strings)),
    prompt_eval_count=st.integers(),
    eval_count=st.integers(),
    done_reason=st.sampled_from(("stop", "length", "load", "x")),
    done=st.booleans(),
)
errors = st.fixed_dictionaries({"error": junk})
messages = ((lines | lines | lines | errors | junk).map(json.dumps) | strings).map(
    lambda text: Message("message", text)
)
unfinished = st.lists(lines, max_size=6).map(
    lambda sent: b"".join(json.dumps({**line, "done": False}).encode() + b"\n" for line in sent)
)

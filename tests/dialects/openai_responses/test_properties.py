"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_responses.upstream.parser import Parser
from app.errors import UpstreamError
from app.events import TextDelta
from app.framing.sse import Message
from tests.dialects.streams import check, end_of, joined, play

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")
TEXTS = ("output_text", "refusal", "reasoning_text", "reasoning_summary_text")
INPUTS = (
    "function_call_arguments",
    "custom_tool_call_input",
    "code_interpreter_call_code",
    "mcp_call_arguments",
)
ITEMS = (
    *("message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "mcp_call"),
    *("image_generation_call", "code_interpreter_call", "compaction", "mcp_list_tools", "hologram"),
)

# Surrogate halves are wanted: JSON can carry them.
strings = st.text(st.characters(), max_size=4) | st.sampled_from(("\ud83d", "\ude00", "a", "ab"))
scalars = st.none() | st.booleans() | st.integers() | st.floats() | strings
junk: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=4,
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object with some of the fields, each as it should be or as junk."""
    optional = {name: value | junk for name, value in fields.items()}
    return st.fixed_dictionaries({}, optional=optional)


indices = st.integers(0, 2)
annotations = some(
    type=st.sampled_from(("url_citation", "file_citation")),
    url=strings,
    filename=strings,
    title=strings,
    start_index=st.integers(),
    index=st.integers(),
)
logprobs = st.lists(some(token=strings), max_size=2)
parts = some(
    type=st.sampled_from(("output_text", "refusal", "summary_text", "reasoning_text")),
    text=strings,
    refusal=strings,
    annotations=st.lists(annotations, max_size=2),
    logprobs=logprobs,
)
items = some(
    type=st.sampled_from(ITEMS),
    name=st.sampled_from(("f", "g", "x_keyword_search", "")),
    call_id=st.sampled_from(("", "c", "d")),
    arguments=st.sampled_from(("", "{", "{}")),
    input=strings,
    content=st.lists(parts, max_size=2),
    summary=st.lists(parts, max_size=2),
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
    output=st.lists(items, max_size=3),
    usage=usages,
    error=some(code=strings, message=strings),
    incomplete_details=some(reason=st.sampled_from(("max_output_tokens", "content_filter", "x"))),
    content_filters=st.lists(some(source_type=strings, content_filter_results=junk), max_size=2),
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
        "stop": lambda: parser.stop("interrupted"),
    }[end]()

    check(found)
    assert parser.ended
    assert (end_of(found).error is not None) == (end_of(found).status == "failed")


@given(st.lists(payloads, max_size=8))
def test_only_an_end_completes(sent: list[dict[str, Any]]) -> None:
    ends = ("response.completed", "response.incomplete", "response.done")
    body = b"".join(
        b"data: %b\n\n" % json.dumps(payload).encode()
        for payload in sent
        if payload.get("type") not in ends and isinstance(payload.get("type"), str)
    )

    assert end_of(play([body], dialect="openai_responses")).status != "completed"


whole_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(whole_text, st.lists(st.integers(0, 24), max_size=4), st.integers(0, 24), st.booleans())
def test_deltas_and_the_whole_make_the_text_once(
    text: str, cuts: list[int], told: int, item: bool
) -> None:
    """However the text is cut, in characters or their halves, and wherever the deltas stop."""
    units = text.encode("utf-16-le")
    bounds = sorted({0, *(2 * cut for cut in cuts if cut <= told), 2 * told})
    pieces = [units[a:b] for a, b in itertools.pairwise(bounds)]
    content = [{"type": "output_text", "text": text}]
    sent: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "delta": p.decode("utf-16-le", "surrogatepass")}
        for p in pieces
    ]
    if item:
        sent.append(
            {"type": "response.output_item.done", "item": {"type": "message", "content": content}}
        )
    output = [{"type": "message", "content": content}]
    sent.append({"type": "response.completed", "response": {"output": output}})
    parser = Parser(upstream="u")
    found = [e for p in sent for e in parser.feed(Message("message", json.dumps(p)))]

    check(found)
    assert joined(found, TextDelta) == text


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect="openai_responses"))

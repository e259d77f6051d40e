"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_chat.upstream.parser import Parser
from app.dialects.reading.surrogates import Halves, well_formed
from app.errors import UpstreamError
from app.framing.lenient import LenientDecoder
from app.framing.sse import Message
from tests.dialects.streams import check, end_of, play

pytestmark = pytest.mark.pure

CUT = UpstreamError("upstream_timeout", "upstream 'u' fell silent")

# Surrogate halves are wanted: JSON can carry them.
strings = st.text(st.characters(), max_size=4) | st.sampled_from(("\ud83d", "\ude00", "a"))
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
functions = some(name=st.sampled_from(("", "f", "g")), arguments=st.sampled_from(("{", "}", "{}")))
tool_calls = some(index=indices, id=st.sampled_from(("", "a", "b")), function=functions)
details = some(text=strings, summary=strings, signature=strings, data=strings, format=strings)
places = some(url=strings, title=strings, start_index=st.integers(), end_index=st.integers())
images = some(type=st.just("image_url"), image_url=some(url=st.just("data:,x") | strings))
parts = some(
    type=st.sampled_from(("text", "thinking", "reference", "image_url", "refusal")),
    text=strings,
    thinking=strings | st.lists(some(text=strings), max_size=2),
    reference_ids=st.lists(scalars, max_size=2),
)
deltas = some(
    content=strings | st.lists(parts, max_size=2),
    reasoning=strings,
    reasoning_content=strings,
    reasoning_details=st.lists(details, max_size=2),
    refusal=strings,
    tool_calls=st.lists(tool_calls, max_size=3),
    function_call=functions,
    audio=some(data=strings, transcript=strings),
    images=st.lists(images, max_size=2),
    annotations=st.lists(some(type=strings, url_citation=places), max_size=2),
    executed_tools=st.lists(some(index=indices, arguments=strings, output=junk), max_size=2),
)
usages = some(prompt_tokens=st.integers(), completion_tokens=st.integers())
choices = some(
    index=indices,
    delta=deltas,
    message=deltas,
    finish_reason=st.sampled_from(("stop", "length", "tool_calls", "error", "x")),
    stop_reason=strings,
    logprobs=some(content=st.lists(some(token=strings), max_size=2)),
    content_filter_results=st.dictionaries(strings, some(filtered=st.booleans()), max_size=2),
)
chunks = some(
    id=strings,
    model=strings,
    object=st.sampled_from(("chat.completion.chunk", "chat.completion")),
    choices=st.lists(choices, max_size=3),
    usage=usages,
    x_groq=some(usage=usages),
    citations=st.lists(strings, max_size=2),
    search_results=st.lists(places, max_size=2),
    prompt_filter_results=st.lists(some(content_filter_results=junk), max_size=2),
)
errors = st.fixed_dictionaries({"error": junk})
messages = st.builds(
    Message,
    st.sampled_from(("message",) * 8 + ("error", "ping")),
    (chunks | chunks | chunks | errors | junk).map(json.dumps) | strings | st.just("[DONE]"),
)


@given(
    st.lists(messages, max_size=8),
    st.none() | messages,
    st.sampled_from(("close", "cut", "stop")),
    st.integers(1, 3),
)
def test_any_messages_end_well_formed(
    sent: list[Message], tail: Message | None, end: str, choices: int
) -> None:
    parser = Parser(upstream="u", choices=choices)
    found = [event for message in sent for event in parser.feed(message)]
    found += {
        "close": lambda: parser.close(tail),
        "cut": lambda: parser.cut(CUT),
        "stop": lambda: parser.stop("cancelled"),
    }[end]()

    check(found)
    assert parser.ended
    assert (end_of(found).error is not None) == (end_of(found).status == "failed")


@given(st.lists(chunks, min_size=1, max_size=6))
def test_chunks_are_never_a_failure_of_the_response(sent: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in sent)
    found = play([body + b"data: [DONE]\n\n"])

    check(found)
    error = end_of(found).error
    assert error is None or error.code != "upstream_invalid_response"


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail]))
    check(play([b"data: {\n\n"[: len(head)], head, b"\n", tail]))
    decoder = LenientDecoder()
    assert decoder.feed(head) + decoder.feed(tail) == LenientDecoder().feed(head + tail)


@given(st.lists(strings, max_size=6))
def test_halves_join_however_the_text_is_cut(pieces: list[str]) -> None:
    halves = Halves()
    text = "".join(halves.feed(piece) for piece in pieces) + halves.close()

    assert text == well_formed("".join(pieces))
    assert text.encode().decode() == text

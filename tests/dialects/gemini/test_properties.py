"""Whatever an upstream sends, the parser does not raise and the events are well-formed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.gemini.upstream.parser import Parser
from app.errors import UpstreamError
from app.events import ToolCallDelta, ToolCallEnd
from app.framing.json_array import ELEMENT, END
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


def a_list(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(of, max_size=3)


numbers = st.integers(-1, 5)
ids = st.sampled_from(("", "a", "b"))
partials = some(
    jsonPath=st.sampled_from(("$.a", "$.b", "$.c.d", "$.c.e", "$.f[0]", "$.f[1].g")),
    stringValue=strings,
    numberValue=st.integers(),
    willContinue=st.booleans(),
)
calls = some(
    id=ids,
    name=st.sampled_from(("", "f", "g")),
    args=st.dictionaries(strings, junk, max_size=2),
    partialArgs=a_list(partials),
    willContinue=st.booleans(),
)
tools = some(id=ids, toolType=strings, args=junk, response=junk, code=strings, output=strings)
medias = some(mimeType=st.sampled_from(("audio/x", "image/x")), data=strings, fileUri=strings)
parts = some(
    text=strings,
    thought=st.just(True),
    thoughtSignature=strings,
    functionCall=calls,
    inlineData=medias,
    fileData=medias,
) | some(executableCode=tools, codeExecutionResult=tools, toolCall=tools, toolResponse=tools)
segments = some(startIndex=numbers, endIndex=numbers, text=strings, partIndex=numbers)
pages = some(uri=strings, title=strings, text=strings, documentName=strings)
candidates = some(
    index=numbers,
    content=some(parts=a_list(parts)),
    finishReason=st.sampled_from(("STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_RESPONSE", "x")),
    finishMessage=strings,
    safetyRatings=a_list(some(category=strings, blocked=st.booleans())),
    groundingMetadata=some(
        groundingChunks=a_list(some(web=pages, retrievedContext=pages, image=pages)),
        groundingSupports=a_list(some(segment=segments, groundingChunkIndices=a_list(numbers))),
    ),
    citationMetadata=some(citations=a_list(segments), citationSources=a_list(pages)),
    urlContextMetadata=some(urlMetadata=a_list(some(retrievedUrl=strings))),
    logprobsResult=some(
        chosenCandidates=a_list(some(token=strings, logProbability=st.floats())),
        topCandidates=a_list(some(candidates=a_list(some(token=strings)))),
    ),
)
chunks = some(
    candidates=a_list(candidates),
    usageMetadata=some(
        promptTokenCount=numbers,
        candidatesTokenCount=numbers,
        thoughtsTokenCount=numbers,
        toolUsePromptTokenCount=numbers,
        totalTokenCount=numbers,
    ),
    modelVersion=strings,
    responseId=strings,
)
ends = st.fixed_dictionaries({"error": junk}) | st.fixed_dictionaries(
    {"promptFeedback": some(blockReason=strings, blockReasonMessage=strings, safetyRatings=junk)}
)
messages = st.builds(
    Message,
    st.sampled_from((*("message", ELEMENT) * 4, END, "error", "ping")),
    (chunks | chunks | chunks | chunks | ends | junk).map(json.dumps) | strings,
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
    pieces: dict[int, str] = {}
    for event in found:
        if isinstance(event, ToolCallDelta):
            pieces[event.block] = pieces.get(event.block, "") + event.arguments
        if isinstance(event, ToolCallEnd):
            assert event.arguments == pieces.get(event.block, event.arguments)


@given(st.lists(chunks, min_size=1, max_size=5), st.lists(st.integers(0, 2000), max_size=8))
def test_events_and_an_array_say_the_same(sent: list[dict[str, Any]], cuts: list[int]) -> None:
    as_events = b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in sent)
    as_array = json.dumps(sent, indent=1).encode()
    at = sorted(cut for cut in cuts if cut <= len(as_array))
    pieces = [as_array[a:b] for a, b in zip([0, *at], [*at, len(as_array)], strict=True)]
    found = play([as_events], dialect="gemini")

    check(found)
    assert play(pieces, dialect="gemini") == found


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_end_well_formed(head: bytes, tail: bytes) -> None:
    check(play([head, tail], dialect="gemini"))
    check(play([b"[" + head, tail], dialect="gemini"))
    check(play([b'data: {"candidates": [', head, b"\n\n", tail], dialect="gemini"))

"""The short way of a chunk of text says what the long one says, whatever comes."""

import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dialects.openai_chat.upstream import text_chunk
from app.dialects.openai_chat.upstream.parser import Parser
from app.events import Event
from app.framing.lenient import LenientDecoder
from app.framing.sse import Message
from tests.dialects.openai_chat.anything import chunks
from tests.dialects.strategies import scalars
from tests.dialects.streams import body_of, recordings

pytestmark = pytest.mark.pure

FIRST = {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
PLAIN = {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"content": "x"}}]}


def parse(messages: list[Message]) -> list[list[Event]]:
    """Return the events of each message, without and with those for the same dialect."""
    found = []
    for own in (False, True):
        parser = Parser(upstream="u")
        if own:
            parser.keep_provider_data()
        found += [*map(parser.feed, messages), parser.close(None)]
    return found


def parse_in_full(messages: list[Message]) -> list[list[Event]]:
    with mock.patch.object(text_chunk, "parse", return_value=None):
        return parse(messages)


def message(document: Any, event: str = "message") -> Message:
    return Message(event, json.dumps(document))


@pytest.mark.parametrize("row", recordings("openai_chat"))
def test_recordings_mean_the_same(row: dict[str, Any]) -> None:
    decoder = LenientDecoder()
    messages = decoder.feed(body_of(row))

    assert parse_in_full(messages) == parse(messages)


@given(st.lists(chunks, max_size=4), st.sampled_from(("message", "error", "ping")))
def test_any_chunks_mean_the_same(found: list[Any], event: str) -> None:
    messages = [message(FIRST), message(PLAIN), *(message(chunk, event) for chunk in found)]

    assert parse_in_full(messages) == parse(messages)


places = st.sampled_from(
    [
        *((name,) for name in text_chunk.SameDialectChunk.__struct_fields__),
        *(("choices", name) for name in text_chunk.SameDialectChoice.__struct_fields__),
        *(("choices", "delta", name) for name in text_chunk.SameDialectDelta.__struct_fields__),
    ]
)


@given(places, scalars | st.just({"a": 1}) | st.just([{"a": 1}]))
def test_any_value_in_any_place_means_the_same(path: tuple[str, ...], value: Any) -> None:
    odd = json.loads(json.dumps(PLAIN))
    at = odd
    for name in path[:-1]:
        at = at["choices"][0] if name == "choices" else at[name]
    at[path[-1]] = value
    messages = [message(FIRST), message(odd), message(PLAIN)]

    assert parse_in_full(messages) == parse(messages)


@pytest.mark.parametrize("name", sorted(set(text_chunk.ChunkDelta.__struct_fields__) - {"content"}))
def test_a_chunk_that_says_more_is_not_a_text_chunk(name: str) -> None:
    delta = {"content": "x", name: {"a": 1}}
    chunk = {**PLAIN, "choices": [{"index": 0, "delta": delta}]}

    assert text_chunk.parse(json.dumps(chunk), text_chunk.decode_any) is None
    assert text_chunk.parse(json.dumps(PLAIN), text_chunk.decode_any) is not None

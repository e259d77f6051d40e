"""Chunks that are recognised by the one before: they mean what they mean without it."""

from typing import Any

import pytest

from app.dialects.openai_chat.upstream.parser import Parser
from app.dialects.openai_chat.upstream.repeated_chunk import TRIES, RepeatedChunk
from app.dialects.openai_chat.upstream.text_chunk import decode_any
from app.events import Event
from app.framing.sse import Message

pytestmark = pytest.mark.pure

CHUNK = (
    '{"id":"c","model":"m","created":1,"choices":[{"index":0,"delta":{"content":"%s"},'
    '"finish_reason":null}]}'
)
SPACED = '{"id": "c", "model": "m", "choices": [{"index": 1, "delta": {"content": "%s"}}]}'
REASONED = CHUNK.replace('{"content"', '{"reasoning":"why","content"')
FAR = CHUNK.replace('"index":0', '"index":200')
NEXT = [
    *[CHUNK % text for text in ("b", "a", "", " ", "é", "\N{GRINNING FACE}", "a\u2028b", "{}")],
    *[CHUNK % text for text in (r"\n", r"\"", r"\ud83d", "\n", "\x7f", '"', '","x":"', '"}')],
    *[SPACED % "b", REASONED % "b", FAR % "b"],
    CHUNK.replace("null", '"stop"') % "b",
    CHUNK.replace('"created":1', '"created":2') % "b",
    CHUNK.replace('"created":1', '"system_fingerprint":"f"') % "b",
    CHUNK.replace('"created":1', '"usage":{"prompt_tokens":1}') % "b",
    CHUNK.replace('"index":0', '"index":1') % "b",
    CHUNK.replace('{"content":"%s"}', "{}"),
    (CHUNK % "b")[:-1],
    (CHUNK % "")[: CHUNK.index("%")] + '},"finish_reason":null}]}',
    "[DONE]",
]


def read(*texts: str, event: str = "message", tries: int = TRIES, own: bool = False) -> list[Any]:
    parser = Parser(upstream="up")
    if own:
        parser.keep_provider_data()
    parser._tries = tries
    found: list[list[Event]] = [parser.feed(Message("message", text)) for text in texts[:-1]]
    return [*found, parser.feed(Message(event, texts[-1])), parser.close(None)]


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "pattern", [CHUNK % "a", SPACED % "a", REASONED % "a", FAR % "a", CHUNK % ""]
)
def test_next_chunk_means_the_same_beside_any_other(pattern: str, own: bool) -> None:
    for text in NEXT:
        for more in ([], [text], [CHUNK % "x"]):
            texts = (pattern, pattern, text, *more)
            assert read(*texts, tries=0, own=own) == read(*texts, own=own)
    assert read(*[CHUNK % "a"] * 3, event="error", tries=0) == read(
        *[CHUNK % "a"] * 3, event="error"
    )


@pytest.mark.parametrize("form", [CHUNK, SPACED])
def test_chunk_that_repeats_all_but_its_text_is_recognised(form: str) -> None:
    repeated = RepeatedChunk.of(form % "a", decode_any(form % "a"))

    assert repeated is not None
    messages = [Message("message", form % text) for text in ("b c", "", '"', "d")]
    assert ["b c", ""] == repeated.match(messages)
    assert decode_any(form % "a").choices[0].index == repeated.choice


def test_chunks_that_never_repeat_are_soon_compared_no_more() -> None:
    parser = Parser(upstream="up")
    for number in range(TRIES + 1):
        text = CHUNK.replace('"created":1', f'"created":{number}') % "a"
        parser.feed(Message("message", text))
        assert (number < TRIES) == (parser._last is not None)

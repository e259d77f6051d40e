"""Answers as no recording has them are understood, however they come and wherever they end."""

import json
from types import ModuleType
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import Event, StreamEnd, TextEnd
from app.framing.sse import Message
from tests.dialects.anthropic import written as anthropic
from tests.dialects.bedrock import written as bedrock
from tests.dialects.blocks import text
from tests.dialects.cohere import written as cohere
from tests.dialects.gemini import written as gemini
from tests.dialects.gemini_interactions import written as gemini_interactions
from tests.dialects.ollama import written as ollama
from tests.dialects.openai_chat import written as openai_chat
from tests.dialects.openai_responses import written as openai_responses
from tests.dialects.streams import CUT, check, in_bytes, outcome, play

pytestmark = pytest.mark.pure

WRITTEN: dict[str, ModuleType] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "bedrock_converse": bedrock,
    "gemini": gemini,
    "gemini_interactions": gemini_interactions,
    "cohere": cohere,
    "ollama": ollama,
}
"""The answers of each format; Anthropic's stand for the other two that its parser reads.

Each has MEANINGS (what is sent, and the events), `answer` to write what is sent, ENDS (a body, and
how it ends), and BEGUN (a body that has said "a" and no more).
"""
every_format = pytest.mark.parametrize("dialect", WRITTEN)


def cases(table: str) -> list[Any]:
    return [
        pytest.param(dialect, *case, id=f"{dialect}-{name}")
        for dialect, module in WRITTEN.items()
        for name, case in getattr(module, table, {}).items()
    ]


@pytest.mark.parametrize(("dialect", "sent", "expected"), cases("MEANINGS"))
def test_what_a_stream_means(dialect: str, sent: list[Any], expected: list[Event]) -> None:
    body = WRITTEN[dialect].answer(*sent)
    found = play([body], dialect=dialect)

    check(found)
    assert expected == found


@pytest.mark.parametrize(("dialect", "body", "expected"), cases("ENDS"))
def test_how_a_stream_ends(dialect: str, body: bytes, expected: tuple[str, str]) -> None:
    found = play([body], dialect=dialect)

    assert expected == outcome(found)
    assert found == play(in_bytes(body), dialect=dialect)


@every_format
def test_a_lost_connection_is_never_an_end(dialect: str) -> None:
    lost = StreamEnd("failed", "error", None, CUT.info())

    assert [*text("a"), lost] == play([WRITTEN[dialect].BEGUN], dialect=dialect, cut=CUT)
    assert [lost] == play([], dialect=dialect, cut=CUT)


def begun(dialect: str) -> Any:
    """Return a parser that has read the beginning of an answer."""
    spoken = UPSTREAM_FORMATS[dialect]
    parser = spoken.parser(upstream="u")
    for message in spoken.decoder(max_line=1000, max_event=1000).feed(WRITTEN[dialect].BEGUN):
        parser.feed(message)
    assert (parser.ended, parser.finished) == (False, False)
    return parser


@every_format
def test_a_stream_that_is_stopped_ends_as_asked(dialect: str) -> None:
    cancelled = StreamEnd("cancelled", "cancelled")
    assert [TextEnd(0), cancelled] == begun(dialect).stop("cancelled")
    interrupted = StreamEnd("interrupted", "error", error=CUT.info())
    assert [TextEnd(0), interrupted] == begun(dialect).stop("interrupted", CUT)


@every_format
def test_nothing_follows_the_end(dialect: str) -> None:
    parser = begun(dialect)
    parser.stop("cancelled")
    message = Message("message", json.dumps({"done": True}))

    assert parser.ended
    assert [] == parser.feed(message) == parser.close(message)
    assert [] == parser.cut(CUT) == parser.stop("cancelled")

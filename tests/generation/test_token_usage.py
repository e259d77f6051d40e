"""What recorded answers have used, whole and cut anywhere."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.token_estimate import estimate_output
from app.events import Event, StreamEnd, TokenCounts
from app.generation.token_usage import count_usage
from app.ledger.accounts import ReservationRequest
from tests.dialects.streams import DIALECT_OF, body_of, recordings

pytestmark = pytest.mark.pure

REQUEST = ReservationRequest((), 0, input_tokens=50)
CUT = (
    *("gemini/thinking-text.sse", "perplexity/sonar-crlf.sse", "anthropic/text-then-tool.sse"),
    *("openai-chat/nonascii-degree.sse", "bedrock/converse-cache-read.eventstream"),
    *("openai-responses/web-search-annotations.sse", "ollama/chat-thinking.ndjson"),
    *("cohere/citations-thinking.sse", "bedrock/invoke-claude-tool.eventstream"),
)


def play(row: dict[str, Any], messages: int | None = None) -> Sequence[Event]:
    """Read an answer whole, or stop it after so many messages."""
    dialect = UPSTREAM_FORMATS[DIALECT_OF[row["format"]]]
    decoder = dialect.decoder(max_line=2**24, max_event=2**24)
    parser = dialect.parser(upstream="u")
    found = decoder.feed(body_of(row))
    events = [event for message in found[:messages] for event in parser.feed(message)]
    if messages is not None:
        events += parser.stop("cancelled")
    elif not parser.ended:
        events += parser.close(decoder.close(), strange=decoder.strange)
    return events


def used(events: Sequence[Event]) -> TokenCounts:
    end = events[-1]
    assert isinstance(end, StreamEnd)
    return count_usage(
        end.usage,
        request=REQUEST,
        count_output=partial(estimate_output, events),
        complete=end.status == "completed",
    )


@pytest.mark.parametrize("row", recordings())
def test_a_recorded_answer_is_counted_by_its_provider_else_estimated(row):
    events = play(row)
    counts, told = used(events), row["truth"]["usage"] or {}
    if told.get("input_tokens") and told.get("output_tokens"):
        assert not counts.estimated
        for name, count in told.items():
            assert count in (None, getattr(counts, name))
    else:
        assert counts.estimated
        assert counts.input_tokens in (told.get("input_tokens"), REQUEST.input_tokens)
        assert counts.output_tokens in (told.get("output_tokens"), estimate_output(events))


def whole_and_cut() -> list[Any]:
    return [one for one in recordings() if one.id in CUT] or recordings()


@pytest.mark.parametrize("row", whole_and_cut())
def test_a_recorded_answer_that_is_cut_costs_about_what_came(row):
    whole = used(play(row)).output_tokens or 0
    dialect = UPSTREAM_FORMATS[DIALECT_OF[row["format"]]]
    messages = len(dialect.decoder(max_line=2**24, max_event=2**24).feed(body_of(row)))
    before = 0
    for count in range(messages):
        events = play(row, count)
        counts = used(events)
        made = counts.output_tokens or 0
        assert made <= 1.5 * whole + 10
        written = estimate_output(events)
        if counts.estimated:
            assert made == written
        else:  # thought that is not shown is counted too
            assert 3 * made >= written
        assert made >= 0.6 * before - 5, count
        before = max(before, made)
    assert messages


def recorded(name: str) -> list[Any]:
    """Parameters: the recording of a name, or one that skips the test."""
    return [one for one in recordings() if one.id in (name, None)]


@pytest.mark.parametrize("row", recorded("anthropic/text-max-tokens.sse"))
def test_a_placeholder_is_no_count(row):
    told = play(row, 2)[-1]
    assert isinstance(told, StreamEnd)
    assert told.usage is not None
    assert (27, None) == (told.usage.input_tokens, told.usage.output_tokens)


@pytest.mark.parametrize("row", recorded("gemini/thinking-text.sse"))
def test_counts_on_every_chunk_hold_at_a_cut(row):
    early = [used(play(row, count)) for count in range(4, 7)]
    assert not any(counts.estimated for counts in early)

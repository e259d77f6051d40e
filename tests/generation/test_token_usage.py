"""What recorded answers have used, whole and cut anywhere."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.dialects.writing.token_estimate import estimate_output
from app.events import Event, Source, StreamEnd, TextDelta, TokenCounts
from app.generation.token_usage import bound_usage, count_usage
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
        events += parser.close(decoder.close(), malformed=decoder.malformed)
    return events


def used(events: Sequence[Event]) -> TokenCounts:
    end = events[-1]
    assert isinstance(end, StreamEnd)
    return count_usage(
        end.usage,
        request=REQUEST,
        answer=events,
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


SOURCE = Source(url="https://a.example/")
SAID = [TextDelta(0, "word " * 8)]


@pytest.mark.parametrize(
    ("fields", "context", "events", "told", "bounded"),
    [
        ({}, None, SAID, (190_000, 150_000), None),
        ({}, None, SAID, (10_000_000, 10), (200_200, 10)),
        ({}, None, SAID, (50, 1_000_000), (50, 200_040)),
        ({}, 32_000, SAID, (10_000_000, 1_000_000), (32_200, 32_040)),
        ({}, 1_000_000, SAID, (10_000_000, 1_000_000), (200_200, 1_000_000)),
        ({"input_tokens": 250_000}, 200_000, SAID, (999_000, 10), None),  # a byte a token
        ({"choices": 3}, None, SAID, (600_000, 600_000), None),
        ({"unsized": True}, None, SAID, (1_900_000, 10), None),  # a film by its URL
        ({"unsized": True, "input_tokens": 16_000}, 128_000, SAID, (480_000, 10), None),
        ({"unsized": True}, 128_000, SAID, (10_000_000, 10), (130_000, 10)),
        ({}, 128_000, [SOURCE] * 5, (700_000, 10), None),  # what a search has read
        ({"limited": True}, None, SAID, (50, 1_200), None),
        ({"limited": True}, None, SAID, (50, 100_000), (50, 1_240)),
        ({"limited": True}, None, [TextDelta(0, "a" * 9_000)], (50, 9_000), None),
        ({"limited": True}, None, [SOURCE], (50, 2_300), None),
        ({"limited": True}, None, SAID, (50, 30_000, 29_500), None),  # Qwen's
        ({"limited": True}, None, SAID, (50, 900_000, 899_500), (50, 200_040)),
    ],
)
def test_no_count_is_more_than_a_call_can_have_taken(fields, context, events, told, bounded):
    given, made, *thought = told
    counts = TokenCounts(given, made, reasoning_tokens=thought[0] if thought else None)
    request = ReservationRequest((), 0, **{"input_tokens": 50, "output_tokens": 100, **fields})
    found = bound_usage(counts, request=request, context=context, written=events)

    if bounded is None:
        assert found is counts
    else:
        assert (*bounded, sum(bounded), True) == (
            *(found.input_tokens, found.output_tokens, found.total_tokens),
            found.estimated,
        )


@pytest.mark.parametrize("row", recordings())
def test_no_count_of_a_recording_is_lowered(row):
    events = play(row)
    end = events[-1]
    assert isinstance(end, StreamEnd)
    for limited in (False, True):
        request = ReservationRequest((), 0, 3_000, output_tokens=1_000, limited=limited)
        if end.usage is not None:
            assert end.usage is bound_usage(
                end.usage, request=request, context=None, written=events
            )


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("hidden", [0, 50, 5_000])
@pytest.mark.parametrize(("reported", "most"), [(None, 200), (10, 200), (250, 250)])
def test_an_estimate_has_at_most_the_tokens_that_were_asked_of_the_provider(
    complete, hidden, reported, most
):
    request = ReservationRequest((), 0, 50, output_tokens=100, choices=2, limited=True)
    answer = [TextDelta(0, "\U0001f9ff" * 842)]
    assert 800 < estimate_output(answer)
    counts = None if reported is None else TokenCounts(50, reported)
    used = count_usage(counts, request=request, answer=answer, complete=complete, hidden=hidden)
    assert (reported if complete and reported else most) == used.output_tokens
    free = msgspec.structs.replace(request, limited=False)
    if reported is None:
        used = count_usage(None, request=free, answer=answer, complete=complete, hidden=hidden)
        assert estimate_output(answer) <= (used.output_tokens or 0)

"""Recorded answers of providers are understood, in every dialect and under every kind of cut."""

import random
from typing import Any

import pytest

from app.dialects.reading.provider_errors import parse_error
from app.dialects.upstream_formats import UPSTREAM_FORMATS
from app.events import (
    ChoiceEnd,
    ReasoningDelta,
    RefusalDelta,
    Source,
    TextDelta,
    TokenCounts,
    Usage,
)
from tests.dialects.judges import cuts
from tests.dialects.streams import (
    CUT,
    DIALECT_OF,
    body_of,
    check,
    end_of,
    in_bytes,
    joined,
    play,
    recordings,
    tool_calls,
    usage_of,
)

pytestmark = pytest.mark.proving

ALL = pytest.mark.parametrize("row", recordings())


@ALL
def test_the_events_say_what_the_provider_said(row: dict[str, Any]) -> None:
    found = play([body_of(row)], dialect=DIALECT_OF[row["format"]])

    check(found)
    truth = row["truth"]
    ends = {event.choice: event for event in found if isinstance(event, ChoiceEnd)}
    for choice in truth["choices"]:
        number = choice["index"]
        assert joined(found, TextDelta, number) == choice["text"]
        assert joined(found, ReasoningDelta, number) == choice["reasoning"]
        assert joined(found, RefusalDelta, number) == choice["refusal"]
        calls = [call for call in tool_calls(found) if call["choice"] == number]
        assert calls == [
            {"choice": number, **{key: call[key] for key in ("id", "name", "arguments")}}
            for call in choice["tool_calls"]
        ]
        if choice["finish_reason"] == "error":
            assert number not in ends  # the error stands in stream.end
        else:
            assert ends[number].finish_reason == choice["finish_reason"]
            assert ends[number].finish_reason_raw == choice["finish_reason_raw"]
    usage = usage_of(row)
    end = end_of(found)
    assert end.usage == (usage and TokenCounts(**usage))
    assert [e for e in found if isinstance(e, Usage)] == ([Usage(**usage)] if usage else [])
    assert end.status == ("failed" if truth["error"] else "completed")
    assert end.finish_reason == truth["choices"][0]["finish_reason"]
    if truth["error"]:
        error = parse_error({"error": truth["error"]}, upstream="u")
        assert end.error == error.info()
        # What a provider says of the relay's own account is not for callers.
        shown = truth["error"]["message"] in error.message
        assert shown == (error.code in ("upstream_invalid_request", "upstream_tool_failed"))
    if any("has_grounding" in choice for choice in truth["choices"]):
        return  # the index does not say which sources; the dialect's own tests do
    # The index has citations under the answer as URLs, or under the choice with their places.
    cited = [
        c
        for choice in truth["choices"]
        for c in choice.get("annotations", choice.get("citations", ()))
    ]
    sources = [e for e in found if isinstance(e, Source)]
    assert [e.url for e in sources] == truth.get("citations", [c.get("url") for c in cited])
    for source, citation in zip(sources, cited, strict=False):
        place = (citation.get("start_index"), citation.get("end_index"), citation.get("title"))
        assert (source.start, source.end, source.title) == place
        assert source.cited_text == citation.get("cited_text")


@ALL
def test_the_cuts_of_the_network_change_nothing(row: dict[str, Any]) -> None:
    body, dialect = body_of(row), DIALECT_OF[row["format"]]
    whole = play([body], dialect=dialect)
    randomly = random.Random(row["file"])

    assert play(in_bytes(body), dialect=dialect) == whole
    for _ in range(10):
        cuts = sorted(randomly.sample(range(len(body)), min(20, len(body))))
        pieces = (body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True))
        assert play(pieces, dialect=dialect) == whole


@ALL
def test_a_cut_recording_never_looks_complete(row: dict[str, Any]) -> None:
    body, dialect = body_of(row), DIALECT_OF[row["format"]]
    for size, ended, complete in cuts(body, dialect, most=50, last=100):
        found = play([body[:size]], dialect=dialect, cut=None if ended else CUT)
        check(found)
        status = end_of(found).status
        assert (status == "completed") == complete, f"cut at {size}: {found[-1]}"


@ALL
def test_the_names_of_the_answer_are_known(row: dict[str, Any]) -> None:
    dialect = UPSTREAM_FORMATS[DIALECT_OF[row["format"]]]
    parser = dialect.parser(upstream="u")
    for message in dialect.decoder(max_line=2**24, max_event=2**24).feed(body_of(row)):
        parser.feed(message)

    assert (parser.upstream_id, parser.model) == (row["truth"]["id"], row["truth"]["model"])

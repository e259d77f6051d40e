"""The laws of `test_clients.py` for every stream that was recorded from a provider."""

from typing import Any

import pytest

from app import events as e
from tests.dialects import clients
from tests.dialects.streams import DIALECT_OF, body_of, play, recordings
from tests.fuzz.streams_corpus import Body

EVERY_ROW = pytest.mark.parametrize("row", recordings())


def body(row: dict[str, Any]) -> Body:
    return Body(DIALECT_OF[row["format"]], row["file"], body_of(row))


@EVERY_ROW
def test_a_stream_says_the_same_in_every_format(row: dict[str, Any]) -> None:
    events = clients.logged(body(row), choices=len(row["truth"]["choices"]) or 1)

    clients.check_answer(events)
    clients.check_results(events)
    clients.check_cursors(events)


@pytest.mark.proving
@EVERY_ROW
def test_no_client_takes_a_cut_or_stopped_answer_for_a_whole_one(row: dict[str, Any]) -> None:
    clients.check_cuts(body(row), cuts=12)


@pytest.mark.parametrize("row", recordings("anthropic"))
def test_anthropics_own_answers_are_told_in_its_own_events(row: dict[str, Any]) -> None:
    """What is rendered parses to the same events again."""
    events = clients.logged(body(row))
    if not isinstance(events[-1], e.StreamEnd) or events[-1].status != "completed":
        return
    again = play([clients.written("anthropic", events)], dialect="anthropic")

    lossy = e.Notice | e.Source | e.ProviderTool | e.Usage | e.StreamEnd | e.ChoiceEnd
    assert [event for event in again if not isinstance(event, lossy)] == [
        event for event in events[2:] if not isinstance(event, lossy)
    ]

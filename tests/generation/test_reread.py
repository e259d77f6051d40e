"""The second reading of a stored answer: whatever its pieces are, only what the log lacks goes on."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import UpstreamError
from app.events import (
    ErrorInfo,
    Event,
    Notice,
    StreamEnd,
    StreamStart,
    StreamTarget,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallStart,
    Usage,
)
from app.generation.stages.reread import Reread

pytestmark = pytest.mark.pure

TEXT = "せせらぎ is a stream"
START: list[Event] = [StreamStart("st_1", "r", created=1), StreamTarget("u", "m", attempt=1)]
END = StreamEnd("completed", "stop", usage=None)


class Following:
    """What follows: it keeps what it is given."""

    def __init__(self) -> None:
        self.taken: list[Event] = []

    def push(self, events: Sequence[Event]) -> bool:
        self.taken += events
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        self.taken += events
        return True

    async def tell(self, notice: Notice) -> None:
        self.taken.append(notice)


class Attempts(SimpleNamespace):
    went_on = 0

    def go_on(self) -> None:
        self.went_on += 1


def reread(logged: Sequence[Event]) -> tuple[Any, Following, Attempts]:
    following, attempts = Following(), Attempts()
    stage = Reread([*START, *logged], attempts, following)  # type: ignore[arg-type]
    return stage, following, attempts


def pieces(text: str, cuts: Sequence[int]) -> list[Event]:
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [TextDelta(0, text[at:to]) for at, to in pairwise(places) if at < to]


def texts(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@given(
    known=st.integers(0, len(TEXT)),
    before=st.lists(st.integers(0, 100), max_size=6),
    again=st.lists(st.integers(0, 100), max_size=6),
    batch=st.integers(1, 5),
)
async def test_only_what_the_log_lacks_goes_on_in_whatever_pieces(known, before, again, batch):
    logged = [TextStart(0), *pieces(TEXT[:known], before)]
    answer: list[Event] = [
        TextStart(0),
        *pieces(TEXT, again),
        TextEnd(0),
        Usage(3, 4, 7),
        END,
    ]
    stage, following, attempts = reread(logged)
    for at in range(0, len(answer), batch):
        events = answer[at : at + batch]
        assert stage.push(events) or await stage.take(events)

    assert TEXT[known:] == texts(following.taken)
    assert [TextEnd(0), Usage(3, 4, 7), END] == following.taken[-3:]
    assert 1 == attempts.went_on


CALL = ToolCallStart(1, "c1", "f")


@pytest.mark.parametrize(
    "other",
    [
        [TextStart(0), TextDelta(0, "another")],
        [TextStart(0), TextDelta(1, TEXT)],
        [TextStart(1)],
        [CALL],
        [TextStart(0), TextDelta(0, TEXT[:4]), TextEnd(0)],
        [TextStart(0), TextDelta(0, TEXT[:4]), END],
    ],
)
async def test_another_answer_ends_the_stream_as_failed(other):
    stage, following, _ = reread([TextStart(0), TextDelta(0, TEXT[:8])])
    with pytest.raises(UpstreamError, match="has stored another"):
        await stage.take(other)

    assert [] == following.taken


async def test_arguments_go_on_in_the_middle_of_a_value():
    stage, following, _ = reread([CALL, ToolCallDelta(1, '{"city": "Ky')])
    await stage.take([CALL, ToolCallDelta(1, '{"city": '), ToolCallDelta(1, '"Kyoto"}')])

    assert [ToolCallDelta(1, 'oto"}')] == following.taken


async def test_an_answer_that_fails_before_it_comes_so_far_ends_by_the_log():
    stage, following, _ = reread([TextStart(0), TextDelta(0, TEXT)])
    failed = StreamEnd(
        "failed", "error", usage=None, error=ErrorInfo("upstream_timeout", "late", True)
    )
    await stage.take([TextStart(0), TextDelta(0, TEXT[:3]), TextEnd(0), failed])

    assert [TextEnd(0), failed] == following.taken


async def test_notices_of_the_second_reading_are_its_own():
    stage, following, _ = reread([TextStart(0), Notice("dropped", "x"), TextDelta(0, "a")])
    await stage.take([Notice("dropped", "x"), TextStart(0), TextDelta(0, "a"), TextDelta(0, "b")])

    assert [TextDelta(0, "b")] == following.taken

"""What streams have cost so far, and how fast they are: found by looks, in slices."""

from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from app.admin.sampling import WEIGHED, Sampler
from app.admin.snapshot import LiveStream
from app.eventlog.stream_info import StreamInfo
from app.events import Event, TextDelta, TokenCounts
from app.generation.settlement import Settlements
from app.ledger.config import PriceConfig
from app.ledger.prices import PriceBook
from app.telemetry.activity import Progress

pytestmark = pytest.mark.pure

PRICE = PriceConfig(target="u/*", input=1, output=2)


class Stream:
    """One that runs, and notes how often its events were asked for."""

    def __init__(self, target: str = "u/m") -> None:
        self.events: list[Event] = []
        self.asked = 0
        self.target = target
        self.usage: TokenCounts | None = None
        self.spent: int | None = 0

    def written(self) -> Sequence[Event]:
        self.asked += 1
        return self.events

    def progress(self) -> Progress:
        return Progress(
            info=StreamInfo("st_1"),
            target=self.target,
            attempt=1,
            age_s=11.0,
            first_event_s=1.0 if self.events else None,
            events=len(self.events),
            silent_s=0.5,
            longest_gap_s=0.25,
            usage=self.usage,
            spent_nano_usd=self.spent,
            written=self.written,
        )


def look(sampler: Sampler, *streams: Stream) -> tuple[list[LiveStream], int]:
    """Look at streams; return what is found, and how often others had their turn meanwhile."""
    looking: Coroutine[Any, Any, list[LiveStream]] = sampler.look(s.progress() for s in streams)
    turns = 0
    while True:
        try:
            looking.send(None)
        except StopIteration as done:
            return done.value, turns
        turns += 1


@pytest.fixture
def sampler() -> Sampler:
    return Sampler(Settlements(PriceBook((PRICE,), None, free=())))


def test_each_event_is_weighed_once(sampler):
    stream = Stream()
    stream.events = [TextDelta(0, "four")] * 1000
    (live,), _ = look(sampler, stream)
    assert (1000, "0.002") == (live.output_tokens, live.cost)
    assert (1, 1) == (len(look(sampler, stream)[0]), stream.asked)

    stream.events = [*stream.events, TextDelta(0, "four")]
    (live,), _ = look(sampler, stream)
    assert (1001, 2) == (live.output_tokens, stream.asked)


def test_many_streams_are_weighed_in_slices(sampler):
    streams = [Stream() for _ in range(20)]
    for stream in streams:
        stream.events = [TextDelta(0, "four")] * WEIGHED
    _, turns = look(sampler, *streams)

    assert 4 <= turns


def test_very_long_answer_is_judged_by_its_beginning(sampler):
    stream = Stream()
    stream.events = [TextDelta(0, "four")] * (20 * WEIGHED)
    (live,), _ = look(sampler, stream)
    look(sampler, stream)

    assert (20 * WEIGHED, 1) == (live.output_tokens, stream.asked)


def test_cost_is_unknown_before_the_first_event_and_without_a_price(sampler):
    silent, unpriced, fallen = Stream(), Stream("other/m"), Stream()
    unpriced.events = fallen.events = [TextDelta(0, "four" * 5)]
    fallen.spent = None  # what an attempt before it has cost
    found, _ = look(sampler, silent, unpriced, fallen)

    assert [None, 5, 5] == [live.output_tokens for live in found]
    assert [None, None, None] == [live.cost for live in found]
    assert [None, 0.25, 0.25] != [live.longest_gap_s for live in found]


def test_count_of_the_provider_goes_before_the_estimate(sampler):
    stream = Stream()
    stream.events = [TextDelta(0, "four" * 5)]
    stream.usage, stream.spent = TokenCounts(input_tokens=1000, output_tokens=7), 50
    (live,), _ = look(sampler, stream)

    assert (7, "0.00101405") == (live.output_tokens, live.cost)


def test_rate_is_that_between_looks_at_least_a_second_apart():
    now = 100.0
    settlements = Settlements(PriceBook((PRICE,), None, free=()))
    sampler = Sampler(settlements, clock=lambda: now)
    stream = Stream()
    rates = []
    for later, count in ((0, 20), (0.5, 30), (0.6, 40), (1.9, 60), (0.1, 60)):
        now += later
        stream.events = [TextDelta(0, "a")] * count
        (live,), _ = look(sampler, stream)
        rates.append(live.events_per_s)

    # At first the mean of its ten seconds; then from look to look.
    assert [2.0, 3.0, 18.2, 10.5, 10.5] == rates

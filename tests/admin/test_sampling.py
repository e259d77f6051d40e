"""What streams have cost so far, and how fast they are: found by looks, in slices."""

from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from app.admin.process_snapshot import Live
from app.admin.sampling import WEIGHED_AT_ONCE, Sampler
from app.eventlog.stream_info import StreamInfo
from app.events import Event, TextDelta, TokenCounts
from app.generation.accounting import Accounting
from app.generation.token_usage import SAMPLED
from app.ledger.config import LedgerConfig, PriceConfig
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


def look(sampler: Sampler, *streams: Stream) -> tuple[list[Live], int]:
    """Look at streams; return what is found, and how often others had their turn meanwhile."""
    looking: Coroutine[Any, Any, list[Live]] = sampler.look(s.progress() for s in streams)
    turns = 0
    while True:
        try:
            looking.send(None)
        except StopIteration as done:
            return done.value, turns
        turns += 1


@pytest.fixture
def sampler() -> Sampler:
    return Sampler(Accounting(LedgerConfig(), PriceBook((PRICE,), None, free=())))


def test_each_event_is_weighed_once_and_in_slices(sampler):
    stream = Stream()
    count = 10 * WEIGHED_AT_ONCE
    stream.events = [TextDelta(0, "four")] * count
    (live,), turns = look(sampler, stream)
    assert (count, count * 2000) == (live.output_tokens, live.nano_usd)
    assert 9 <= turns
    assert (1, 1) == (len(look(sampler, stream)[0]), stream.asked)

    stream.events = [*stream.events, TextDelta(0, "four")]
    (live,), _ = look(sampler, stream)
    assert (count + 1, 2) == (live.output_tokens, stream.asked)


def test_very_long_answer_is_judged_by_its_beginning(sampler):
    stream = Stream()
    stream.events = [TextDelta(0, "four")] * (2 * SAMPLED)
    (live,), _ = look(sampler, stream)
    look(sampler, stream)

    assert (2 * SAMPLED, 1) == (live.output_tokens, stream.asked)


def test_cost_is_unknown_before_the_first_event_and_without_a_price(sampler):
    silent, unpriced, fallen = Stream(), Stream("other/m"), Stream()
    unpriced.events = fallen.events = [TextDelta(0, "four" * 5)]
    fallen.spent = None  # what an attempt before it has cost
    found, _ = look(sampler, silent, unpriced, fallen)

    assert [None, 5, 5] == [live.output_tokens for live in found]
    assert [None, None, None] == [live.nano_usd for live in found]
    assert [None, 0.25, 0.25] != [live.longest_gap_s for live in found]


def test_count_of_the_provider_goes_before_the_estimate(sampler):
    stream = Stream()
    stream.events = [TextDelta(0, "four" * 5)]
    stream.usage, stream.spent = TokenCounts(input_tokens=1000, output_tokens=7), 50
    (live,), _ = look(sampler, stream)

    assert (7, 1000 * 1000 + 7 * 2000 + 50) == (live.output_tokens, live.nano_usd)


def test_rate_is_that_since_a_look_at_least_a_second_ago():
    now = 100.0
    accounting = Accounting(LedgerConfig(), PriceBook((PRICE,), None, free=()))
    sampler = Sampler(accounting, clock=lambda: now)
    stream = Stream()
    rates = []
    for later, count in ((0, 20), (0.5, 30), (0.6, 40), (1.9, 60), (0.1, 60)):
        now += later
        stream.events = [TextDelta(0, "a")] * count
        (live,), _ = look(sampler, stream)
        rates.append(live.events_per_s)

    # At first the mean of its ten seconds; then from look to look.
    assert [2.0, 3.0, 18.2, 10.5, 10.0] == rates

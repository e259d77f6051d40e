"""How much a provider generates unseen: measured by answers that it counted, in bounded memory."""

import pytest

from app.eventlog.stream_ended import Charge
from app.events import TokenCounts
from app.generation.settlement import Settlements
from app.ledger.accounts import ReservationRequest
from app.ledger.hidden_output import DEFAULT_RATE, MAX_RATE, MAX_TARGETS, HiddenRates
from app.ledger.prices import PriceBook
from app.policies.deadlines import Silence

pytestmark = pytest.mark.pure

SECOND = Silence(1, 1)
PLAIN = TokenCounts(output_tokens=1100, reasoning_tokens=0)


def measured(
    counts: TokenCounts, silence: Silence, *, times: int = 1, rates: HiddenRates | None = None
) -> HiddenRates:
    """Return what is known after so many such answers, of which 100 tokens are shown."""
    rates = rates or HiddenRates()
    for _ in range(times):
        rates.measure("a", counts, shown=100, silence=silence)
    return rates


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        (TokenCounts(output_tokens=600), 50),
        (PLAIN, 0),
        (TokenCounts(output_tokens=1100, reasoning_tokens=400), 40),
        (TokenCounts(output_tokens=90), 0),
        # A mistake of the estimate of what was shown, or thought that was shown.
        (TokenCounts(output_tokens=230), 0),
        (TokenCounts(output_tokens=200, reasoning_tokens=170), 0),
        # What the estimate of the text lacks was written at the pace of the text.
        (TokenCounts(output_tokens=2200), 200),
        (TokenCounts(output_tokens=60_000), MAX_RATE),
    ],
)
def test_the_rate_is_that_of_what_was_counted_and_not_shown(counts, rate):
    known = measured(counts, Silence(10, 11), times=1000)
    assert rate == pytest.approx(known.estimate("a", SECOND), abs=1)
    assert DEFAULT_RATE == known.estimate("b", SECOND)


@pytest.mark.parametrize(
    ("counts", "silence"),
    [
        (PLAIN, Silence(1.1, 1.2)),
        (PLAIN, Silence(300, 301)),  # a long prompt, or a queue
        (TokenCounts(output_tokens=60_000, reasoning_tokens=59_000), Silence(1.05, 1.06)),
        (TokenCounts(output_tokens=60_000), Silence(1.05, 1.06)),
    ],
)
def test_a_single_answer_moves_a_rate_little(counts, silence):
    assert 0.8 * DEFAULT_RATE < measured(counts, silence).estimate("a", SECOND) < 1.2 * DEFAULT_RATE


def test_answers_without_thought_say_nothing_of_a_target_that_has_thought():
    thought = TokenCounts(output_tokens=2_100, reasoning_tokens=2_000)
    rates = measured(PLAIN, Silence(10, 11), times=1000)
    assert 0 == rates.estimate("a", SECOND)
    measured(thought, Silence(10, 11), rates=rates)
    rate = rates.estimate("a", SECOND)
    assert DEFAULT_RATE < rate < 200
    measured(PLAIN, Silence(10, 11), times=1000, rates=rates)
    assert rate == rates.estimate("a", SECOND)


def test_what_was_measured_last_counts_most():
    rates = HiddenRates()
    for tokens in [500] * 1000 + [5_000] * 100:
        rates.measure("a", TokenCounts(output_tokens=tokens), shown=0, silence=Silence(100, 100))
    assert 48 <= rates.estimate("a", SECOND) <= 50


def test_the_target_that_was_measured_last_is_kept():
    rates = HiddenRates()
    for number in range(MAX_TARGETS + 1):
        rates.measure(f"{number}", PLAIN, shown=0, silence=SECOND)
    known = [n for n in range(MAX_TARGETS + 1) if rates.estimate(f"{n}", SECOND) < DEFAULT_RATE]
    assert list(range(1, MAX_TARGETS + 1)) == known


def test_measured_rates_outlive_reloaded_settings():
    before = Settlements(PriceBook(()))
    whole = TokenCounts(output_tokens=20_000, reasoning_tokens=20_000)
    request = ReservationRequest((), 0, input_tokens=1, output_tokens=10_000)

    def cut(settlements: Settlements) -> Charge:
        return settlements.charge("a", None, request=request, silence=SECOND)

    first = cut(before)
    before.charge("a", whole, request=None, complete=True, silence=Silence(100, 100))

    assert first != cut(before) == cut(before.with_prices(PriceBook(())))

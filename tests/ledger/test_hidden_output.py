"""How much a provider generates unseen: measured by answers that it counted, in bounded memory."""

import pytest

from app.deadlines import Quiet
from app.events import TokenCounts
from app.ledger.hidden_output import DEFAULT_RATE, MAX_TARGETS, HiddenRates

pytestmark = pytest.mark.pure

SECOND = Quiet(1, 1)


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        (TokenCounts(output_tokens=1100), 100),
        (TokenCounts(output_tokens=1100, reasoning_tokens=0), 0),
        (TokenCounts(output_tokens=1100, reasoning_tokens=400), 40),
        (TokenCounts(output_tokens=90), 0),
        # What the estimate of the text lacks was written at the pace of the text.
        (TokenCounts(output_tokens=2200), 200),
    ],
)
def test_the_rate_is_that_of_what_was_counted_and_not_shown(counts, rate):
    rates = HiddenRates()
    assert DEFAULT_RATE == rates.estimate("a", SECOND)
    rates.measure("a", counts, shown=100, quiet=Quiet(10, 11))
    assert rate == rates.estimate("a", SECOND)
    assert DEFAULT_RATE == rates.estimate("b", SECOND)


def test_what_was_measured_last_counts_most():
    rates = HiddenRates()
    for tokens in [0] * 1000 + [5_000] * 100:
        rates.measure("a", TokenCounts(output_tokens=tokens), shown=0, quiet=Quiet(100, 100))
    assert 48 <= rates.estimate("a", SECOND) <= 50


def test_the_target_that_was_measured_last_is_kept():
    rates = HiddenRates()
    for number in range(MAX_TARGETS + 1):
        rates.measure(f"{number}", TokenCounts(output_tokens=7), shown=0, quiet=SECOND)
    kept = [n for n in range(MAX_TARGETS + 1) if rates.estimate(f"{n}", SECOND) == 7]
    assert list(range(1, MAX_TARGETS + 1)) == kept

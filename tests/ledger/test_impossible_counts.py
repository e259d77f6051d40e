"""Parts of a count that are more than the whole are not billed."""

from typing import Any

import pytest

from app.events import TokenCounts
from app.ledger.rates import rates

pytestmark = pytest.mark.pure

RATES = rates(0.001, 0.1, cached_input=0.01, cache_write=1, reasoning=10)


@pytest.mark.parametrize(
    ("counts", "billed"),
    [
        # billed: cached, written and plain input; reasoning and other output
        ({"output_tokens": 3, "reasoning_tokens": 3007}, (0, 0, 0, 3, 0)),
        ({"output_tokens": 3, "reasoning_tokens": 3007, "total_tokens": 3}, (0, 0, 0, 3, 0)),
        ({"output_tokens": 9, "reasoning_tokens": 7}, (0, 0, 0, 7, 2)),
        ({"input_tokens": 7, "cached_input_tokens": 161, "total_tokens": 7}, (7, 0, 0, 0, 0)),
        ({"input_tokens": 7, "cached_input_tokens": 161}, (7, 0, 0, 0, 0)),
        ({"input_tokens": 7, "cached_input_tokens": 2, "cache_write_tokens": 4}, (2, 4, 1, 0, 0)),
        ({"input_tokens": 7, "cached_input_tokens": 5, "cache_write_tokens": 4}, (5, 2, 0, 0, 0)),
    ],
)
def test_no_more_is_billed_than_the_whole_has(counts: dict[str, Any], billed: tuple[int, ...]):
    cached, written, plain, thought, said = billed
    expected = (
        RATES.cached_input * cached
        + RATES.cache_write * written
        + RATES.input * plain
        + RATES.reasoning * thought
        + RATES.output * said
    )

    assert expected == RATES.weigh(TokenCounts(**counts))

"""What prices say of any counts: by whole numbers, and never more than their ceiling."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import TokenCounts
from app.ledger.config import PriceConfig, PriceTier
from app.ledger.prices import OwnPrice, PriceBook
from app.ledger.rates import to_nano

pytestmark = pytest.mark.pure

usd = st.one_of(
    st.sampled_from([0.0, 0.05, 0.1, 0.3, 1.25, 15.0, 0.0375, 1e-9]),
    st.integers(0, 10**9).map(lambda n: n / 10**7),
)
maybe = st.none() | usd


@st.composite
def configs(draw) -> PriceConfig:
    def kinds() -> dict:
        return {
            "input": draw(usd),
            "output": draw(usd),
            **{
                name: draw(maybe)
                for name in (
                    *("cached_input", "cache_write", "cache_write_1h", "audio_input"),
                    *("reasoning", "audio_output"),
                )
            },
        }

    lengths = draw(st.lists(st.integers(1, 10**6), max_size=3, unique=True))
    return PriceConfig(
        target="a/b",
        request=draw(st.sampled_from([0.0, 0.005])),
        tiers=tuple(PriceTier(above=above, **kinds()) for above in lengths),
        **kinds(),
    )


@st.composite
def splits(draw, most: int = 2 * 10**6) -> TokenCounts:
    """Any split of an input and an output into kinds."""
    whole, said = draw(st.integers(0, most)), draw(st.integers(0, most))
    cached = draw(st.integers(0, whole))
    written = draw(st.integers(0, whole - cached))
    return TokenCounts(
        whole,
        said,
        cached_input_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=draw(st.integers(0, written)),
        audio_input_tokens=draw(st.integers(0, whole)),
        reasoning_tokens=draw(st.integers(0, said)),
        audio_output_tokens=draw(st.integers(0, said)),
    )


def times(counts: TokenCounts, n: int) -> TokenCounts:
    fields: dict[str, Any] = {
        name: number * n
        for name in TokenCounts.__struct_fields__
        if isinstance(number := getattr(counts, name), int)
    }
    return TokenCounts(**fields)


@given(configs(), splits(), st.integers(0, 10**6))
def test_no_split_costs_more_than_the_ceiling(config, counts, longer):
    price = OwnPrice(config)

    ceiling = price.ceiling(counts.input_tokens + longer)

    assert price.cost(counts) <= ceiling.input + ceiling.output * counts.output_tokens


@given(configs(), splits(1000), st.integers(1, 1000))
def test_a_cost_is_linear(config, counts, n):
    """But for what is less than a nano-dollar, and for the steps of a long input."""
    price = OwnPrice(PriceConfig(**{**_fields(config), "tiers": (), "request": 0}))

    once, often = price.cost(times(counts, 1_000_000)), price.cost(times(counts, 1_000_000 * n))
    few = price.cost(counts)

    assert once * n == often
    assert Fraction(once, 1_000_000) <= few < Fraction(once, 1_000_000) + 1


def _fields(config: PriceConfig) -> dict:
    return {name: getattr(config, name) for name in config.__struct_fields__}


def test_sums_are_exact_where_floats_are_not():
    price = OwnPrice(PriceConfig(target="a/b", input=0.1, output=0.2, cached_input=0.3))

    assert 600_000_000 == price.cost(
        TokenCounts(2_000_000, 1_000_000, cached_input_tokens=1_000_000)
    )
    assert to_nano("0.1") * 10**6 == price.cost(TokenCounts(10**12))
    assert 1 == OwnPrice(PriceConfig(target="a/b", input=0.0001, output=0)).cost(TokenCounts(1))


@pytest.mark.parametrize(
    ("counts", "nano_usd"),
    [
        # Details are parts of the totals.
        (
            TokenCounts(1000, 100, cached_input_tokens=600, reasoning_tokens=40),
            400 * 1000 + 600 * 100 + 60 * 3000 + 40 * 12_000,
        ),
        (
            TokenCounts(1000, cache_write_tokens=300, cache_write_1h_tokens=100),
            700 * 1000 + 200 * 1250 + 100 * 2000,
        ),
        (
            TokenCounts(1000, 100, audio_input_tokens=200, audio_output_tokens=90),
            800 * 1000 + 200 * 5000 + 10 * 3000 + 90 * 20_000,
        ),
        # Parts that are more than the whole are impossible.
        (TokenCounts(1000, 100, cached_input_tokens=3000), 1000 * 100 + 100 * 3000),
        (TokenCounts(0, 100, reasoning_tokens=300), 100 * 12_000),
        (TokenCounts(), 0),
    ],
)
def test_what_is_counted_where(counts, nano_usd):
    price = OwnPrice(
        PriceConfig(
            target="a/b",
            input=1,
            output=3,
            cached_input=0.1,
            cache_write=1.25,
            cache_write_1h=2,
            audio_input=5,
            reasoning=12,
            audio_output=20,
        )
    )

    assert nano_usd == price.cost(counts)


def test_globs_are_those_of_names():
    book = PriceBook(
        [
            PriceConfig(target="a/x-*", input=1, output=1, version="first"),
            PriceConfig(target="*/x-[12]", input=1, output=1, version="second"),
            PriceConfig(target="a/*", input=1, output=1, version="third"),
        ]
    )

    found = {
        name: price.version if (price := book.price_of(name)) else None
        for name in ("a/x-1", "b/x-1", "b/x-3", "a/y/z", "A/y", "aa/x")
    }

    assert {
        "a/x-1": "first",
        "b/x-1": "second",
        "b/x-3": None,
        "a/y/z": "third",
        "A/y": None,
        "aa/x": None,
    } == found


def test_a_count_that_is_nonsense_has_an_end():
    """It is to fit where logs keep sums, in 63 bits, with many others."""
    price = OwnPrice(PriceConfig(target="a/b", input=10**6, output=10**6))

    assert 10**18 == price.cost(TokenCounts(2**53, 2**53)) == price.ceiling(2**53).input

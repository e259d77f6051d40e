"""`[[price]]` tables: what they mean."""

import pytest

from app.composition import build_price_book
from app.events import TokenCounts
from app.settings import Settings, SettingsError, load_settings

pytestmark = pytest.mark.pure


@pytest.fixture
def load(tmp_path):
    def load(text: str) -> Settings:
        config = tmp_path / "x.toml"
        config.write_text(text)
        return load_settings({"SESERAGI_CONFIG": str(config)})

    return load


TABLES = """
[upstream.openai]
base_url = "https://api.openai.com/v1"
auth = "none"

[upstream.ollama]

[[price]]
target = "ollama/*"
input = 0
output = 0

[[price]]
target = "openai/gpt-5"
input = 1
output = 7.5
version = "contract 2026"

[[price]]
target = "openai/long"
input = 1.25
output = 10
cached_input = 0.125
request = 0.01
[[price.tiers]]
above = 200_000
input = 2.5
output = 15
"""


def test_the_first_table_that_matches_counts_before_the_catalog(load):
    pytest.importorskip("genai_prices")
    book = build_price_book(load(TABLES))
    million = TokenCounts(1_000_000, 1_000_000)

    found = {
        target: (price.cost(million), price.version.split()[0])
        for target in ("ollama/llama4", "openai/gpt-5", "openai/gpt-5-mini")
        if (price := book.price_of(target)) is not None
    }

    assert {
        "ollama/llama4": (0, "own"),
        "openai/gpt-5": (8_500_000_000, "contract"),
        "openai/gpt-5-mini": (2_250_000_000, "genai-prices"),
    } == found


def test_a_long_input_has_prices_of_its_own(load):
    price = build_price_book(load(TABLES)).price_of("openai/long")
    assert price is not None

    at, above = TokenCounts(200_000, 10), TokenCounts(200_001, 10, cached_input_tokens=1)
    assert 250_000_000 + 100_000 + 10_000_000 == price.cost(at)
    assert 500_002_500 + 150_000 + 10_000_000 == price.cost(above)


def test_the_version_changes_with_the_table(load):
    table = '[[price]]\ntarget = "a/b"\ninput = 1\noutput = {}\n'
    one, same, other = (
        build_price_book(load(table.format(output))).price_of("a/b") for output in (2, 2.0, 3)
    )
    assert one
    assert same
    assert other

    assert one.version.startswith("own ")
    assert one.version == same.version != other.version


def test_models_of_this_process_cost_nothing_unless_a_table_says_so(load):
    million = TokenCounts(1_000_000, 1_000_000)
    free = build_price_book(load("")).price_of("demo/demo")
    priced = build_price_book(
        load('[[price]]\ntarget = "demo/*"\ninput = 1\noutput = 2\n')
    ).price_of("demo/demo")
    assert free
    assert priced

    assert (0, "built-in") == (free.cost(million), free.version)
    assert 3_000_000_000 == priced.cost(million)


def test_unknown_is_not_nothing(load):
    book = build_price_book(load(TABLES))

    assert book.price_of("openai/made-up") is None
    assert book.price_of("nobody/gpt-5") is None


def test_there_is_an_end_to_the_tables(load):
    with pytest.raises(
        SettingsError, match=r"x\.toml: price: has 1001 tables; the maximum is 1000"
    ):
        load('[[price]]\ntarget = "a/b"\ninput = 1\noutput = 1\n' * 1001)

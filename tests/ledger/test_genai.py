"""The catalog of prices: found by the host, and the same as the catalog itself says."""

import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from app.events import TokenCounts
from app.ledger.genai import GenaiCatalog, GenaiPrice, open_catalog
from app.ledger.prices import MAX_FOUND, PriceBook
from app.ledger.rates import to_nano
from app.upstreams.presets import PRESETS

genai_prices = pytest.importorskip("genai_prices")
snapshot = pytest.importorskip("genai_prices.data_snapshot").get_snapshot()

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def catalog(**base_urls: str) -> GenaiCatalog:
    found = open_catalog(base_urls, now=lambda: NOON)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("base_url", "model", "usd_input", "usd_output"),
    [
        ("https://api.openai.com/v1", "gpt-5", "1.25", "10"),
        ("https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "0.15", "0.6"),
        ("https://router.huggingface.co/v1", "openai/gpt-oss-120b:groq", "0.15", "0.75"),
        ("https://openrouter.ai/api/v1", "deepseek/deepseek-r1:free", "0", "0"),
        ("https://me.openai.azure.com/openai/v1", "gpt-4o", "2.5", "10"),
        ("https://me.services.ai.azure.com/anthropic", "claude-haiku-4-5", "1", "5"),
        ("https://api.together.ai/v1", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "0.88", "0.88"),
        ("https://generativelanguage.googleapis.com/v1beta", "models/gemini-2.5-pro", "1.25", "10"),
        (
            "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"
            "/publishers/anthropic/models",
            "claude-haiku-4-5@20251001",
            "1",
            "5",
        ),
        # Amazon takes a tenth more for an answer of one region than for one of any.
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com",
            "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "3",
            "15",
        ),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com",
            "arn:aws:bedrock:us-east-1:1:inference-profile/"
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "3.3",
            "16.5",
        ),
    ],
)
def test_the_host_says_whose_price_it_is(base_url, model, usd_input, usd_output):
    price = catalog(upstream=base_url).find("upstream", model)

    assert price is not None
    # Below the length at which some cost more, so a thousandth of a million.
    assert to_nano(usd_input) // 1000 == price.cost(TokenCounts(1000))
    assert to_nano(usd_output) // 1000 == price.cost(TokenCounts(0, 1000))


@pytest.mark.parametrize(
    ("base_url", "model"),
    [
        ("http://127.0.0.1:8000/v1", "gpt-5"),  # one's own vLLM
        ("https://api.openai.com.example/v1", "gpt-5"),
        ("https://eu.api.openai.com/v1", "gpt-5"),  # dearer
        ("https://api.openai.com/v1", "no-such-model"),
        ("https://api.openai.com/v1", "gpt-5" + "x" * 2000),
        ("https://api.openai.com/v1", "omni-moderation-latest"),  # no price is not 0
        ("https://me.openai.azure.com/openai/v1", "my-deployment"),
        ("https://openrouter.ai/api/v1", "openrouter/auto"),
        ("https://openrouter.ai/api/v1", "openai/gpt-4o:nitro"),
        ("https://router.huggingface.co/v1", "openai/gpt-oss-120b"),
        (
            "https://bedrock-runtime.us-east-1.amazonaws.com",
            "arn:aws:bedrock:us-east-1:1:application-inference-profile/x",
        ),
        ("https://api.anthropic.com", ""),
    ],
)
def test_what_the_host_does_not_say_is_unknown(base_url, model):
    assert catalog(upstream=base_url).find("upstream", model) is None


def test_every_model_is_found_as_the_catalog_finds_it():
    checked = 0
    for provider in snapshot.providers:
        urls = {"here": "https://api.openai.com/v1"}
        found = GenaiCatalog(snapshot.providers, urls, version="", now=lambda: NOON)
        found._by_upstream["here"] = provider.id
        for model in provider.models[::3]:
            for name in (model.id, f"{model.id}-20251211"):
                theirs = provider.find_model(name, all_providers=snapshot.providers)
                ours = found.find("here", name)
                if theirs is None:
                    assert ours is None, (provider.id, name)
                elif ours is not None:
                    assert theirs.id == ours.model, (provider.id, name)
                checked += 1

    assert checked > 1000


COUNTS = (
    TokenCounts(1000, 100),
    TokenCounts(123_456, 7890, cached_input_tokens=100_003, reasoning_tokens=5000),
    TokenCounts(300_001, 12_345, cached_input_tokens=7, cache_write_tokens=20_011),
    TokenCounts(
        600_000, 1, cached_input_tokens=1, cache_write_tokens=90_000, cache_write_1h_tokens=30_000
    ),
)
SAME = {"input", "output", "cache_read", "cache_write", "cache_write_1h", "output_reasoning"}
SAME |= {"input_audio", "output_audio", "cache_audio_read"}


def test_costs_are_those_of_the_catalog_to_a_nano_dollar():
    """For each model whose prices are of tokens, over every length at which prices change."""
    checked = 0
    for provider in snapshot.providers:
        for model in provider.models:
            prices = model.get_prices(NOON)
            kinds = {key.removesuffix("_mtok") for key, v in vars(prices).items() if v is not None}
            tokens = {kind for kind in kinds if not kind.endswith(("count", "pages"))}
            if "input" not in tokens or not tokens <= SAME:
                continue
            ours = GenaiPrice(model, version="", now=lambda: NOON)
            for counts in COUNTS:
                usage = genai_prices.Usage(
                    input_tokens=counts.input_tokens,
                    output_tokens=counts.output_tokens,
                    cache_read_tokens=counts.cached_input_tokens,
                    cache_write_tokens=counts.cache_write_tokens,
                    output_reasoning_tokens=counts.reasoning_tokens,
                )
                if counts.cache_write_1h_tokens:
                    usage = genai_prices.Usage(
                        **vars(usage), cache_write_1h_tokens=counts.cache_write_1h_tokens
                    )
                theirs = model.calc_price(usage, provider, genai_request_timestamp=NOON)
                exact = theirs.total_price * 10**9
                assert exact <= ours.cost(counts) < exact + Decimal("1.1"), (provider.id, model.id)
                checked += 1

    assert checked > 5000


def test_a_price_changes_with_the_day_and_the_hour():
    at = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    found = open_catalog({"g": "https://generativelanguage.googleapis.com/v1beta"}, now=lambda: at)
    deepseek = open_catalog({"d": "https://api.deepseek.com"}, now=lambda: at)
    assert found is not None
    assert deepseek is not None
    price = found.find("g", "gemini-3.8-flash")
    night = deepseek.find("d", "deepseek-flash")
    assert price is not None
    assert night is not None
    counts = TokenCounts(1_000_000, 1_000_000)

    cheap, at = price.cost(counts), datetime(2027, 1, 1, 3, tzinfo=UTC)
    assert (to_nano("4.5"), to_nano("9")) == (cheap, price.cost(counts))
    assert to_nano("1.5") == night.cost(counts)  # between 01:00 and 04:00
    at = datetime(2027, 1, 1, 5, tzinfo=UTC)
    assert to_nano("0.75") == night.cost(counts)
    # What may follow within a day is within the ceiling.
    assert to_nano("0.3") == night.ceiling(1_000_000).input


def test_a_service_tier_has_its_own_price():
    price = catalog(openai="https://api.openai.com/v1").find("openai", "gpt-4.1")
    assert price is not None

    assert to_nano("2") == price.cost(TokenCounts(1_000_000))
    assert to_nano("3.5") == price.cost(TokenCounts(1_000_000, service_tier="priority"))
    assert to_nano("2") == price.cost(TokenCounts(1_000_000, service_tier="made up"))
    assert to_nano("3.5") == price.ceiling(1_000_000, service_tier="priority").input
    assert to_nano("2") == price.ceiling(1_000_000).input


def test_on_azure_the_tiers_of_openai_say_nothing():
    price = catalog(azure="https://me.openai.azure.com/openai/v1").find("azure", "gpt-4.1")
    assert price is not None

    assert to_nano("2") == price.cost(TokenCounts(1_000_000, service_tier="priority"))


def test_without_the_package_there_is_no_catalog(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    assert open_catalog({"openai": "https://api.openai.com/v1"}) is None


def test_nothing_fetches(monkeypatch):
    update = pytest.importorskip("genai_prices.update_prices")
    monkeypatch.setattr(update.UpdatePrices, "start", lambda *_, **__: pytest.fail("it fetches"))

    price = catalog(openai="https://api.openai.com/v1").find("openai", "gpt-5")

    assert price is not None
    assert f"genai-prices {genai_prices.__version__}" == price.version


def test_names_that_clients_make_up_are_forgotten():
    prices = catalog(openai="https://api.openai.com/v1")
    book = PriceBook((), prices)

    for n in range(MAX_FOUND + 100):
        assert book.price_of(f"openai/made-up-{n}") is None

    assert MAX_FOUND == book._found.cache_info().currsize
    assert {} == prices._prices


def test_the_hosts_of_the_presets_that_the_catalog_has():
    base_urls = {
        name: preset.base_url.format(
            resource="me",
            region="us-east-1",
            location_host="aiplatform.googleapis.com",
            project="p",
            location="global",
            model="m",
            account="a",
        )
        for name, preset in PRESETS.items()
        if preset.base_url
    }
    found = {name for name, at in catalog(**base_urls)._by_upstream.items() if at}

    assert found >= {
        *("openai", "openai-responses", "azure", "azure-anthropic", "anthropic", "gemini"),
        *("vertex", "vertex-anthropic", "bedrock", "bedrock-anthropic", "mistral", "cohere"),
        *("deepseek", "openrouter", "groq", "xai", "together", "fireworks", "perplexity"),
        *("cerebras", "zai", "moonshot", "huggingface", "azure-responses", "azure-deployments"),
    }
    assert not found & {"ollama", "vllm", "llamacpp", "lmstudio", "litellm"}

"""What providers' pages say that answers cost, of the edition of genai-prices 0.2.3.

Each row has the prices that count, in USD a million tokens, as read on the page: the sum is
made here.
"""

from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal

import pytest

from app.events import TokenCounts
from app.ledger.genai import open_catalog

pytestmark = pytest.mark.pure

pytest.importorskip("genai_prices")

NIGHT = datetime(2026, 11, 22, 23, tzinfo=UTC)  # when DeepSeek takes its lower prices

UPSTREAMS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "bedrock": "https://bedrock-runtime.eu-central-1.amazonaws.com",
    "mistral": "https://api.mistral.ai/v1",
    "xai": "https://api.x.ai/v1",
    "deepseek": "https://api.deepseek.com",
    "groq": "https://api.groq.com/openai/v1",
    "cohere": "https://api.cohere.com",
    "perplexity": "https://api.perplexity.ai",
    "openrouter": "https://openrouter.ai/api/v1",
}

SMALL = TokenCounts(1000, 200)
CACHED = TokenCounts(50_000, 700, cached_input_tokens=40_000)
THOUGHT = TokenCounts(2000, 9000, reasoning_tokens=8500)
WRITTEN = TokenCounts(30_000, 500, cached_input_tokens=10_000, cache_write_tokens=15_000)
KEPT = TokenCounts(
    30_000, 500, cached_input_tokens=10_000, cache_write_tokens=15_000, cache_write_1h_tokens=5000
)
AT_200K = TokenCounts(200_000, 1000)
OVER_200K = TokenCounts(200_001, 1000, cached_input_tokens=150_000)
AT_272K = TokenCounts(272_000, 1000)
OVER_272K = TokenCounts(272_001, 1000, cached_input_tokens=200_000, reasoning_tokens=900)
HEARD = TokenCounts(10_000, 100, audio_input_tokens=9000)

PUBLISHED = [
    # Target, counts, and what is paid: (tokens, USD a million) of each kind.
    ("openai/gpt-5", SMALL, [(1000, "1.25"), (200, "10")]),
    ("openai/gpt-5", CACHED, [(10_000, "1.25"), (40_000, "0.125"), (700, "10")]),
    ("openai/gpt-5", THOUGHT, [(2000, "1.25"), (9000, "10")]),
    ("openai/gpt-5-mini", THOUGHT, [(2000, "0.25"), (9000, "2")]),
    ("openai/gpt-4.1", CACHED, [(10_000, "2"), (40_000, "0.5"), (700, "8")]),
    ("openai/gpt-4o-mini", CACHED, [(10_000, "0.15"), (40_000, "0.075"), (700, "0.6")]),
    ("openai/o3", THOUGHT, [(2000, "2"), (9000, "8")]),
    ("openai/gpt-6-luna", WRITTEN, [(5000, "0.1"), (10_000, "0.01"), (15_000, "0.125"), (500, "0.5")]),
    ("openai/gpt-6-luna", AT_272K, [(272_000, "0.1"), (1000, "0.5")]),
    ("openai/gpt-6-luna", OVER_272K, [(72_001, "0.2"), (200_000, "0.02"), (1000, "0.75")]),
    ("openai/gpt-6-sol", OVER_272K, [(72_001, "4"), (200_000, "0.4"), (1000, "15")]),
    ("openai/gpt-audio", HEARD, [(1000, "2.5"), (9000, "32"), (100, "10")]),
    ("openai/text-embedding-3-small", TokenCounts(8191), [(8191, "0.02")]),
    ("anthropic/claude-haiku-4-5", KEPT, [(5000, "1"), (10_000, "0.1"), (10_000, "1.25"), (5000, "2"), (500, "5")]),
    ("anthropic/claude-sonnet-4-5", WRITTEN, [(5000, "3"), (10_000, "0.3"), (15_000, "3.75"), (500, "15")]),
    ("anthropic/claude-sonnet-4-5", AT_200K, [(200_000, "3"), (1000, "15")]),
    ("anthropic/claude-sonnet-4-5", OVER_200K, [(50_001, "6"), (150_000, "0.6"), (1000, "22.5")]),
    ("anthropic/claude-opus-4-5", SMALL, [(1000, "5"), (200, "25")]),
    ("gemini/gemini-2.5-pro", THOUGHT, [(2000, "1.25"), (9000, "10")]),
    ("gemini/gemini-2.5-pro", AT_200K, [(200_000, "1.25"), (1000, "10")]),
    ("gemini/gemini-2.5-pro", OVER_200K, [(50_001, "2.5"), (150_000, "0.25"), (1000, "15")]),
    ("gemini/gemini-2.5-flash", CACHED, [(10_000, "0.3"), (40_000, "0.03"), (700, "2.5")]),
    ("gemini/gemini-2.5-flash", HEARD, [(1000, "0.3"), (9000, "1"), (100, "2.5")]),
    ("gemini/gemini-2.5-flash-lite", SMALL, [(1000, "0.1"), (200, "0.4")]),
    ("gemini/gemini-3.8-flash", SMALL, [(1000, "0.75"), (200, "3.75")]),
    ("gemini/gemini-embedding-001", TokenCounts(2048), [(2048, "0.15")]),
    ("bedrock/amazon.nova-pro-v1:0", CACHED, [(10_000, "0.8"), (40_000, "0.2"), (700, "3.2")]),
    ("bedrock/eu.anthropic.claude-haiku-4-5-20251001-v1:0", WRITTEN, [(5000, "1.1"), (10_000, "0.11"), (15_000, "1.375"), (500, "5.5")]),
    ("mistral/mistral-large-latest", SMALL, [(1000, "2"), (200, "6")]),
    ("mistral/codestral-latest", SMALL, [(1000, "0.3"), (200, "0.9")]),
    ("xai/grok-4", CACHED, [(10_000, "3"), (40_000, "0.75"), (700, "15")]),
    ("xai/grok-4.7", TokenCounts(199_999, 10), [(199_999, "2"), (10, "6")]),
    ("xai/grok-4.7", TokenCounts(200_000, 10), [(200_000, "4"), (10, "12")]),
    ("deepseek/deepseek-flash", CACHED, [(10_000, "0.15"), (40_000, "0.003"), (700, "0.6")]),
    ("groq/openai/gpt-oss-120b", CACHED, [(10_000, "0.15"), (40_000, "0.075"), (700, "0.6")]),
    ("groq/llama-3.3-70b-versatile", SMALL, [(1000, "0.59"), (200, "0.79")]),
    ("cohere/command-a-03-2025", SMALL, [(1000, "2.5"), (200, "10")]),
    ("cohere/command-r-08-2024", SMALL, [(1000, "0.15"), (200, "0.6")]),
    # 12 USD for a thousand requests.
    ("perplexity/sonar", SMALL, [(1000, "1"), (200, "1"), (1, "12000")]),
    ("openrouter/openai/gpt-4o", CACHED, [(10_000, "2.5"), (40_000, "1.25"), (700, "10")]),
    ("openrouter/anthropic/claude-sonnet-4.5", OVER_200K, [(50_001, "6"), (150_000, "0.6"), (1000, "22.5")]),
]  # fmt: skip


@pytest.mark.parametrize(("target", "counts", "paid"), PUBLISHED)
def test_an_answer_costs_what_its_provider_says(target, counts, paid):
    catalog = open_catalog(UPSTREAMS, now=lambda: NIGHT)
    assert catalog is not None
    upstream, _, model = target.partition("/")

    price = catalog.find(upstream, model)

    assert price is not None
    usd = sum((Decimal(tokens) * Decimal(each) for tokens, each in paid), Decimal(0)) / 10**6
    assert int((usd * 10**9).to_integral_value(ROUND_CEILING)) == price.cost(counts)


def test_the_list_is_of_many():
    targets = {target for target, _, _ in PUBLISHED}

    assert len(targets) >= 25
    assert len({target.partition("/")[0] for target in targets}) >= 8

"""What each provider counts, as its prices are to be applied to it."""

import pytest

from app.dialects.anthropic.upstream.parser import parse_usage as anthropic
from app.dialects.bedrock.upstream.parser import parse_usage as bedrock
from app.dialects.cohere.upstream.parser import parse_usage as cohere
from app.dialects.gemini.upstream.interactions.parser import parse_usage as interactions
from app.dialects.gemini.upstream.parser import parse_usage as gemini
from app.dialects.ollama.upstream.parser import parse_usage as ollama
from app.dialects.openai_chat.upstream.parser import parse_usage as chat
from app.dialects.openai_responses.upstream.parser import parse_usage as responses
from app.ledger.config import PriceConfig
from app.ledger.prices import OwnPrice

pytestmark = pytest.mark.pure

PRICE = OwnPrice(
    PriceConfig(
        target="a/b",
        input=1000,
        output=10_000,
        cached_input=100,
        cache_write=1250,
        cache_write_1h=2000,
        audio_input=7000,
        audio_output=50_000,
    )
)
"""In USD a million, so a token of input is a million nano-dollars."""


@pytest.mark.parametrize(
    ("parse", "usage", "cost"),
    [
        pytest.param(
            chat,
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10, "audio_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 8, "audio_tokens": 2},
            },
            25 * 1.0 + 60 * 0.1 + 10 * 1.25 + 5 * 7 + 18 * 10 + 2 * 50,
            id="openai_chat",
        ),
        pytest.param(
            chat,
            {"prompt_tokens": 432, "completion_tokens": 68, "total_tokens": 636, "completion_tokens_details": {"reasoning_tokens": 136}},
            432 * 1.0 + 204 * 10,
            id="xai, reasoning beside the answer",
        ),
        pytest.param(
            chat,
            {"prompt_tokens": 432, "completion_tokens": 68, "completion_tokens_details": {"reasoning_tokens": 136}},
            432 * 1.0 + 204 * 10,
            id="xai without a total",
        ),
        pytest.param(
            chat,
            {"prompt_tokens": 26, "completion_tokens": 11_395, "total_tokens": 11_421, "reasoning_tokens": 19_001, "num_search_queries": 30},
            26 * 1.0 + (11_395 + 19_001) * 10,
            id="perplexity, reasoning beside the answer and not in the total",
        ),
        pytest.param(chat, {"prompt_tokens": 100, "completion_tokens": 2, "prompt_cache_hit_tokens": 90}, 10 * 1.0 + 90 * 0.1 + 2 * 10, id="deepseek"),
        pytest.param(
            responses,
            {
                "input_tokens": 100,
                "output_tokens": 20,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
                "output_tokens_details": {"reasoning_tokens": 8},
            },
            30 * 1.0 + 60 * 0.1 + 10 * 1.25 + 20 * 10,
            id="openai_responses",
        ),
        pytest.param(
            anthropic,
            {
                "input_tokens": 30,
                "cache_read_input_tokens": 60,
                "cache_creation_input_tokens": 10,
                "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
                "output_tokens": 20,
            },
            30 * 1.0 + 60 * 0.1 + 6 * 1.25 + 4 * 2 + 20 * 10,
            id="anthropic, whose input excludes what the cache gave and took",
        ),
        pytest.param(
            gemini,
            {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 60,
                "candidatesTokenCount": 12,
                "thoughtsTokenCount": 8,
                "toolUsePromptTokenCount": 7,
                "totalTokenCount": 127,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 95}, {"modality": "AUDIO", "tokenCount": 5}],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 2}],
            },
            42 * 1.0 + 60 * 0.1 + 5 * 7 + 18 * 10 + 2 * 50,
            id="gemini, whose output excludes what it thought",
        ),
        pytest.param(
            interactions,
            {
                "total_input_tokens": 100,
                "total_cached_tokens": 60,
                "total_output_tokens": 12,
                "total_thought_tokens": 8,
                "total_tool_use_tokens": 7,
                "total_tokens": 127,
                "input_tokens_by_modality": [{"modality": "text", "tokens": 95}, {"modality": "audio", "tokens": 5}],
                "output_tokens_by_modality": [{"modality": "audio", "tokens": 2}],
            },
            42 * 1.0 + 60 * 0.1 + 5 * 7 + 18 * 10 + 2 * 50,
            id="gemini_interactions, whose output excludes what it thought",
        ),
        pytest.param(
            bedrock,
            {
                "inputTokens": 30,
                "cacheReadInputTokens": 60,
                "cacheWriteInputTokens": 10,
                "outputTokens": 20,
                "totalTokens": 120,
                "cacheDetails": [{"ttl": "5m", "inputTokens": 6}, {"ttl": "1h", "inputTokens": 4}],
            },
            30 * 1.0 + 60 * 0.1 + 6 * 1.25 + 4 * 2 + 20 * 10,
            id="bedrock_converse, whose input excludes what the cache gave and took",
        ),
        pytest.param(
            cohere,
            {"tokens": {"input_tokens": 968, "output_tokens": 83}, "billed_units": {"input_tokens": 62, "output_tokens": 28}},
            968 * 1.0 + 83 * 10,
            id="cohere, which bills less than was used",
        ),
        pytest.param(ollama, {"prompt_eval_count": 100, "eval_count": 20}, 100 * 1.0 + 20 * 10, id="ollama"),
    ],
)  # fmt: skip
def test_what_an_answer_costs(parse, usage, cost):
    assert round(cost * 10**6) == PRICE.cost(parse(usage))


@pytest.mark.parametrize(
    ("counts", "tier"),
    [
        (chat({"prompt_tokens": 1}, "priority"), "priority"),
        (chat({"prompt_tokens": 1}, "default"), None),
        (chat({"prompt_tokens": 1}, "on_demand"), None),
        (chat({"prompt_tokens": 1}, {}), None),
        (chat({"prompt_tokens": 1}, "x" * 1000), "x" * 40),
        (responses({"input_tokens": 1}, "flex"), "flex"),
        (responses({"input_tokens": 1}, "auto"), None),
        (anthropic({"input_tokens": 1, "service_tier": "priority"}), "priority"),
        (anthropic({"input_tokens": 1, "service_tier": "standard", "speed": "fast"}), "fast"),
        (anthropic({"input_tokens": 1, "service_tier": "standard"}), None),
        (gemini({"promptTokenCount": 1, "serviceTier": "flex"}), "flex"),
        (gemini({"promptTokenCount": 1, "serviceTier": "standard"}), None),
    ],
)
def test_by_whose_prices_it_is_billed(counts, tier):
    assert tier == counts.service_tier

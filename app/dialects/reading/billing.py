"""Billing of a call as the provider itself reports it: the cost in USD, and the service tier."""

from decimal import Decimal
from typing import Any, Final

from ...ledger.rates import NANO, to_usd
from .json_values import mapping, short

MOST_USD: Final = 100
"""The maximum plausible cost: a larger number is in another unit. Below it a double is exact to
less than a nano-USD, so that its shortest decimal form is the number that was sent."""

_DEFAULT_TIERS: Final = frozenset(("", "auto", "default", "standard", "on_demand"))
"""The default tiers of OpenAI, Anthropic, Google and Groq."""


def parse_cost(usage: dict[str, Any]) -> str | None:
    """Return the cost in a usage object; None if there is none, or it is implausible.

    `cost` is a number at OpenRouter [openrouter/text-emoji] and Vercel's gateway, an object with
    a `total_cost` at Perplexity [perplexity/sonar-crlf]. With the caller's own key (`is_byok`)
    OpenRouter's `cost` is its fee alone, and the provider bills `upstream_inference_cost` on top
    (OpenRouter's docs, "Usage Accounting").
    """
    cost = usage.get("cost")
    nano = _nano(mapping(cost).get("total_cost") if isinstance(cost, dict) else cost)
    if nano is not None and usage.get("is_byok") is True:
        billed = _nano(mapping(usage.get("cost_details")).get("upstream_inference_cost"))
        nano = None if billed is None else nano + billed
    return None if nano is None else to_usd(nano)


def _nano(usd: object) -> int | None:
    if not isinstance(usd, int | float) or isinstance(usd, bool):
        return None
    if not 0 <= usd <= MOST_USD:  # NaN fails both comparisons
        return None
    return round(Decimal(str(usd)) * NANO)


def parse_service_tier(value: object) -> str | None:
    """Return the service tier; None for the default one."""
    tier = short(value)
    return None if tier is None or tier.lower() in _DEFAULT_TIERS else tier[:40].lower()

"""The service tier that an answer was billed at."""

from typing import Final

from .json_values import short

USUAL: Final = frozenset(("", "auto", "default", "standard", "on_demand"))
"""The default tiers of OpenAI, Anthropic, Google and Groq."""


def parse_service_tier(said: object) -> str | None:
    """Return the service tier; None for the default one."""
    tier = short(said)
    return None if tier is None or tier.lower() in USUAL else tier[:40].lower()

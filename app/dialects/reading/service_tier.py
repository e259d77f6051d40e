"""By whose prices a provider bills, where it says so."""

from typing import Final

from .json_values import short

USUAL: Final = frozenset(("", "auto", "default", "standard", "on_demand"))
"""What is said where nothing else was asked for: OpenAI's words, Anthropic's, Google's, Groq's."""


def parse_service_tier(said: object) -> str | None:
    """Return a service tier that is not the usual one."""
    tier = short(said)
    return None if tier is None or tier.lower() in USUAL else tier[:40].lower()

"""What genai-prices knows of models, if it is installed: how many tokens they take.

It is asked for what it was shipped with, and never for news, which it would fetch.
"""

from functools import lru_cache

from ..dialects.model_facts import NOTHING, About


@lru_cache(4096)
def look_up(model: str, base_url: str) -> About:
    """Return what is known about a model at a base URL; the first call may take long."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return NOTHING
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return NOTHING
    return About(name=found.name, context_length=found.context_window)

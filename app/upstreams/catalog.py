"""Model names and context lengths from genai-prices, if it is installed.

Only its bundled snapshot is used; it is never updated over the network.
"""

from functools import lru_cache

from ..dialects.model_facts import NOTHING, About


@lru_cache(4096)
def look_up(model: str, base_url: str) -> About:
    """Return the known properties of a model at a base URL; the first call may be slow."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return NOTHING
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return NOTHING
    return About(name=found.name, context_length=found.context_window)

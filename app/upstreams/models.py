"""Facts about upstreams' models: their cached lists, and genai-prices, if it is installed.

Only the bundled snapshot of genai-prices is used; it is never updated over the network.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache

from ..dialects.model_facts import NOTHING, ModelFacts, parse_list
from ..dialects.upstream_format import MODEL
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..errors import RelayError
from .endpoints import Upstream
from .http import FAILURES, HttpClient, fetch
from .targets import build

LIST_S = 300.0
"""Seconds for which a model list is cached."""

LIST_AGAIN_S = 10.0
"""Seconds after a failure before the list is requested again."""

LIST_TIMEOUT_S = 3.0
LIST_BYTES = 4 * 2**20


class ModelLists:
    """The cached model lists of all upstreams."""

    def __init__(self) -> None:
        self._cache: dict[str, tuple[float, Mapping[str, ModelFacts]]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, client: HttpClient, upstream: Upstream) -> Mapping[str, ModelFacts]:
        """Return an upstream's models, from the cache while it is fresh.

        After a failure, return the last list, or an empty one.
        """
        async with self._locks[upstream.name]:  # concurrent callers share one request
            return await self._refresh(client, upstream)

    async def _refresh(self, client: HttpClient, upstream: Upstream) -> Mapping[str, ModelFacts]:
        fresh_until, models = self._cache.get(upstream.name, (0.0, {}))
        now = asyncio.get_running_loop().time()
        lists = upstream.lists_models and UPSTREAM_FORMATS[upstream.dialect].models_path is not None
        if now < fresh_until or MODEL in upstream.base_url or not lists:
            return models
        cache_s = LIST_S
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                models = await _fetch(client, upstream)
        except (*FAILURES, TimeoutError, ValueError, RelayError):
            cache_s = LIST_AGAIN_S
        self._cache[upstream.name] = (now + cache_s, models)
        return models


async def _fetch(client: HttpClient, upstream: Upstream) -> dict[str, ModelFacts]:
    """Fetch an upstream's model list, in OpenAI's format or Google's.

    Raises:
        ValueError: the response is not a model list.
        UpstreamError: it was refused, or too large.
    """
    url = f"{upstream.base_url}/{UPSTREAM_FORMATS[upstream.dialect].models_path}"
    call = await build(upstream, "GET", url)
    return parse_list(await fetch(client, call, upstream=upstream.name, max_bytes=LIST_BYTES))


@lru_cache(4096)
def look_up(model: str, base_url: str) -> ModelFacts:
    """Return the known properties of a model at a base URL; the first call may be slow."""
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return NOTHING
    try:
        _, found = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return NOTHING
    return ModelFacts(name=found.name, context_length=found.context_window)

"""Cache of the model lists of upstreams."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from ..dialects.model_facts import About, parse_list
from ..dialects.upstream_format import MODEL
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..errors import RelayError
from .client import Client
from .endpoints import Upstream
from .http import FAILURES
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
        self._cache: dict[str, tuple[float, Mapping[str, About]]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def get(self, client: Client, upstream: Upstream) -> Mapping[str, About]:
        """Return an upstream's models, from the cache while it is fresh.

        After a failure, return the last list, or an empty one.
        """
        async with self._locks[upstream.name]:  # concurrent callers share one request
            return await self._refresh(client, upstream)

    async def _refresh(self, client: Client, upstream: Upstream) -> Mapping[str, About]:
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


async def _fetch(client: Client, upstream: Upstream) -> dict[str, About]:
    """Fetch an upstream's model list, in OpenAI's format or Google's.

    Raises:
        ValueError: the response is not a model list, or too large.
    """
    url = f"{upstream.base_url}/{UPSTREAM_FORMATS[upstream.dialect].models_path}"
    call = await build(upstream, "GET", url)
    reply = await client.open(call)
    try:
        if reply.status != 200:
            raise ValueError("the list of models was refused")
        if reply.coding != "identity":
            raise ValueError("the list of models is encoded")
        body = bytearray()
        async for piece in reply.body:
            body += piece
            if len(body) > LIST_BYTES:
                raise ValueError("the list of models is too long")
    finally:
        await reply.body.aclose()
    return parse_list(bytes(body))

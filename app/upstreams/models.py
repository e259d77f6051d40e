"""The models that an upstream lists."""

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
"""How long an upstream's list of models is believed."""

LIST_AGAIN_S = 10.0
"""How long after it could not be had it is not asked for again."""

LIST_TIMEOUT_S = 3.0
LIST_BYTES = 4 * 2**20


class ModelLists:
    """The lists of models that upstreams have answered with."""

    def __init__(self) -> None:
        self._asked: dict[str, tuple[float, Mapping[str, About]]] = {}
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ask(self, client: Client, upstream: Upstream) -> Mapping[str, About]:
        """Ask an upstream for its models, unless its last answer is still believed.

        One that does not answer has those of its last answer, or none.
        """
        async with self._asking[upstream.name]:  # who waits has the answer too
            return await self._ask(client, upstream)

    async def _ask(self, client: Client, upstream: Upstream) -> Mapping[str, About]:
        believed_until, models = self._asked.get(upstream.name, (0.0, {}))
        now = asyncio.get_running_loop().time()
        lists = upstream.lists_models and UPSTREAM_FORMATS[upstream.dialect].models_path is not None
        if now < believed_until or MODEL in upstream.base_url or not lists:
            return models
        keep_s = LIST_S
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                models = await _fetch(client, upstream)
        except (*FAILURES, TimeoutError, ValueError, RelayError):
            keep_s = LIST_AGAIN_S
        self._asked[upstream.name] = (now + keep_s, models)
        return models


async def _fetch(client: Client, upstream: Upstream) -> dict[str, About]:
    """Fetch an upstream's list of models, in OpenAI's form or Google's.

    Raises:
        ValueError: the answer is no list, or too large.
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

"""Which target answers for a model name.

A name is one that an upstream lists, `upstream/model`, or, where just one upstream takes any
model, any name of that upstream's own.
"""

import asyncio
from collections.abc import Sequence
from urllib.parse import quote

import httpx2
import msgspec

from app.dialects.table import DIALECTS, MODEL, Dialect
from app.errors import RelayError, RequestError
from app.requests import ChatRequest
from app.upstreams.endpoints import Upstream
from app.upstreams.http import FAILURES

LIST_S = 300.0
"""How long an upstream's list of models is believed."""

LIST_AGAIN_S = 10.0
"""How long after it could not be had it is not asked for again."""

LIST_TIMEOUT_S = 3.0
LIST_BYTES = 4 * 2**20


class Target(msgspec.Struct, frozen=True):
    """An upstream and one of its models."""

    upstream: Upstream
    model: str

    @property
    def dialect(self) -> Dialect:
        return DIALECTS[self.upstream.dialect]

    async def build_request(self, client: httpx2.AsyncClient, chat: ChatRequest) -> httpx2.Request:
        """Build the streaming call that answers a chat request.

        Raises:
            RequestError: the dialect cannot say what the request does.
            UpstreamError: `upstream_auth`, there are no credentials to be had.
        """
        upstream = self.upstream
        body = self.dialect.render_request(chat, model=self.model, quirks=upstream.quirks)
        url = f"{upstream.base_url}/{self.dialect.path}".replace(MODEL, _as_segment(self.model))
        return await _build(client, upstream, "POST", url, content=msgspec.json.encode(body))


async def _build(
    client: httpx2.AsyncClient, upstream: Upstream, method: str, url: str, *, content: bytes = b""
) -> httpx2.Request:
    dialect = DIALECTS[upstream.dialect]
    request = client.build_request(
        method,
        url,
        params={**dialect.query, **upstream.query} or None,
        content=content,
        headers={
            "accept": "text/event-stream, application/json",
            # Several providers compress event streams when allowed to, which delays tokens.
            "accept-encoding": "identity",
            "user-agent": "seseragi",
            **({"content-type": "application/json"} if content else {}),
            **dialect.headers,
            **upstream.headers,
        },
    )
    signed = await upstream.credentials.headers(method, str(request.url), content)
    request.headers.update(signed)
    return request


def _as_segment(model: str) -> str:
    """Quote a model's name so that it is one segment of a path, whoever wrote it."""
    if model in (".", ".."):
        raise RequestError("model_not_found", f"unknown model {model!r}")
    return quote(model, safe="")


async def _fetch_models(client: httpx2.AsyncClient, upstream: Upstream) -> tuple[str, ...]:
    """Fetch an upstream's list of models, in OpenAI's form or Google's.

    Raises:
        ValueError: the answer is none, or too large.
    """
    url = f"{upstream.base_url}/{DIALECTS[upstream.dialect].models_path}"
    request = await _build(client, upstream, "GET", url)
    response = await client.send(request, stream=True)
    try:
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > LIST_BYTES:
                raise ValueError("the list of models is too long")
    finally:
        await response.aclose()
    found = msgspec.json.decode(body, type=_ModelList)
    names = (model.id or model.name.removeprefix("models/") for model in found.data + found.models)
    return tuple(sorted(filter(None, names)))


class _Model(msgspec.Struct):
    id: str = ""
    name: str = ""


class _ModelList(msgspec.Struct):
    data: list[_Model] = []
    models: list[_Model] = []


class Upstreams:
    """All configured upstreams, by the names of their models."""

    def __init__(self, upstreams: Sequence[Upstream], *, default_model: str | None = None) -> None:
        self.all = tuple(upstreams)
        self._by_name = {upstream.name: upstream for upstream in upstreams}
        self._listed = {
            upstream.public_name(model): Target(upstream, model)
            for upstream in upstreams
            for model in upstream.models
        }
        self.default_model = default_model or self._first_default()
        self._asked: dict[str, tuple[float, tuple[str, ...]]] = {}

    def resolve(self, model: str | None) -> tuple[str, Target]:
        """Find the target of a model name; None asks for the default.

        Returns the name that stands for it, and the target.

        Raises:
            RequestError: `model_not_found`, with the names there are.
        """
        name = model or self.default_model
        if name is None:
            raise RequestError("invalid_request", f"model: name one of {self._known()}")
        listed = self._listed.get(name)
        if listed is not None:
            return name, listed
        prefix, _, rest = name.partition("/")
        upstream = self._by_name.get(prefix)
        if upstream is not None and rest and upstream.prefixed:
            return name, Target(upstream, rest)
        open_ended = [upstream for upstream in self.all if upstream.prefixed]
        if len(open_ended) == 1:
            return name, Target(open_ended[0], name)
        raise RequestError(
            "model_not_found", f"unknown model {name[:120]!r}; models: {self._known()}"
        )

    async def models(self, client: httpx2.AsyncClient) -> list[tuple[str, str]]:
        """List the model names, each with its upstream's name, the default first.

        An upstream that lists none in the settings is asked; one that does not answer has
        none here, but still takes `upstream/model`.
        """
        names = {name: target.upstream.name for name, target in self._listed.items()}
        open_ended = [upstream for upstream in self.all if not upstream.models]
        answers = await asyncio.gather(*(self._ask(client, upstream) for upstream in open_ended))
        for upstream, models in zip(open_ended, answers, strict=True):
            names |= {upstream.public_name(model): upstream.name for model in models}
        if self.default_model is not None:
            default, target = self.resolve(None)
            names = {default: target.upstream.name, **names}
        return list(names.items())

    async def _ask(self, client: httpx2.AsyncClient, upstream: Upstream) -> Sequence[str]:
        """Ask an upstream for its models, unless its last answer is still believed."""
        believed_until, models = self._asked.get(upstream.name, (0.0, ()))
        now = asyncio.get_running_loop().time()
        listed = DIALECTS[upstream.dialect].models_path is not None
        if now < believed_until or MODEL in upstream.base_url or not listed:
            return models
        keep_s = LIST_S
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                models = await _fetch_models(client, upstream)
        except (*FAILURES, TimeoutError, ValueError, RelayError):
            keep_s = LIST_AGAIN_S
        self._asked[upstream.name] = (now + keep_s, models)
        return models

    def _first_default(self) -> str | None:
        for upstream in sorted(self.all, key=lambda upstream: not upstream.prefixed):
            model = upstream.default_model or next(iter(upstream.models), None)
            if model:
                return upstream.public_name(model)
        return None

    def _known(self) -> str:
        names = [repr(name) for name in self._listed]
        names += [repr(f"{upstream.name}/...") for upstream in self.all if upstream.prefixed]
        return ", ".join(names)

"""A relay that knows who asks: by a key's name as the bearer, or a token of the relay's own."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.principal import PRINCIPAL
from app.errors import RequestError
from app.identity.principal import ANYONE, Principal
from app.identity.tokens import Tokens
from tests.serving import Relay, serve_relay
from tests.upstream import Upstream

SIGNING_KEY = "a signing key of more than 32 characters"
BACKEND = Principal("acme", key="backend", roles=frozenset({"client_secrets"}))
KEYS = {
    "backend": BACKEND,
    "plain": Principal("acme", key="plain"),
    "narrow": Principal(
        "acme",
        key="narrow",
        models=("fast", "openai/*"),
        origins=("https://a.example",),
        roles=frozenset({"client_secrets"}),
    ),
    "ann": Principal("acme", "ann", "ann", roles=frozenset({"client_secrets"})),
}


class _Asked:
    """Says in the scope who asks; 401 to whoever shows what is none of both."""

    def __init__(self, app: ASGIApp, tokens: Tokens, root_path: str) -> None:
        self._app = app
        self._tokens = tokens
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                principal = await self._find(scope)
            except RequestError as error:
                start = {"type": "http.response.start", "status": error.status, "headers": []}
                await send(start)
                await send({"type": "http.response.body", "body": error.message.encode()})
                return
            scope = {**scope, PRINCIPAL: principal, "root_path": self._root_path}
        await self._app(scope, receive, send)

    async def _find(self, scope: Scope) -> Principal:
        shown = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if not shown and scope["path"].startswith("/v1/streams/"):
            shown = parse_qs(scope["query_string"].decode()).get("token", [""])[0]
        if not shown:
            return ANYONE
        found = KEYS.get(shown) or await self._tokens.verify(shown)
        if found is None:
            raise RequestError("unauthenticated", "unknown")
        return found


@dataclass
class Asked:
    relay: Relay
    tokens: Tokens
    keys: dict[str, Principal]

    async def by(self, who: str, method: str, path: str, **how: Any) -> httpx2.Response:
        """Ask with a credential, "" for none."""
        headers = {**how.pop("headers", {})}
        if who:
            headers["authorization"] = f"Bearer {who}"
        return await self.relay.client.request(method, path, headers=headers, **how)


@contextlib.asynccontextmanager
async def serve_asked(
    script: Upstream | None = None, *, root_path: str = "", **how: Any
) -> AsyncIterator[Asked]:
    """Run the relay for the keys above."""
    keys = dict(KEYS)

    def find(name: str, *, issued_at: float | None = None) -> Principal | None:
        return keys.get(name)

    tokens = Tokens(SIGNING_KEY, find_key=find)
    async with serve_relay(
        script, tokens=tokens, watch=lambda app: _Asked(app, tokens, root_path), **how
    ) as relay:
        yield Asked(relay, tokens, keys)

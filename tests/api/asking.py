"""A relay that knows who asks: by a key's name as the bearer, or a token of the relay's own.

And what is asked: a request to each path.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from app.clock import SYSTEM, Clock
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.identity.tokens import Tokens
from app.testing.upstream import Upstream
from tests.identities import Table
from tests.serving import Relay, serve_relay

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


M = "openai/m"
CHAT = "a chat"


def body_of(path: str, *, streams: bool = True) -> dict[str, Any]:
    """Return a request that says hello, and that it `streams` where that has to be said."""
    message = {"role": "user", "content": "hello"}
    more: dict[str, Any] = {"max_tokens": 99, "stream": True} if streams else {}
    match path:
        case "/v1/responses":
            more.pop("max_tokens", None)
            return {"model": M, "input": "hello", **more}
        case "/v1/completions":
            return {"model": M, "prompt": "hello", **more}
        case "/v1/ui/chat":
            parts = [{"type": "text", "text": "hello"}]
            return {"id": CHAT, "messages": [{"id": "1", "role": "user", "parts": parts}]}
        case "/v1/ag-ui":
            empty: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
            return {"threadId": "a", "runId": "b", "messages": [{**message, "id": "1"}], **empty}
        case "/v1/admin/targets":
            return {"target": M, "action": "wake"}
        case "/v1/embeddings" | "/v1/responses/input_tokens":
            return {"model": M, "input": "hello"}
        case "/v1/messages":
            return {"model": M, "messages": [message], "max_tokens": 9, **more}
        case _:
            return {"model": M, "messages": [message], **more}


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
    script: Upstream | None = None, *, root_path: str = "", clock: Clock = SYSTEM, **how: Any
) -> AsyncIterator[Asked]:
    """Run the relay for the keys above."""
    keys = dict(KEYS)

    def find(name: str, *, issued_at: float | None = None) -> Principal | None:
        return keys.get(name)

    tokens = Tokens(SIGNING_KEY, find_key=find, clock=clock.wall)
    authenticator = Authenticator((Table(keys), tokens), tokens=tokens, clock=clock.wall)

    def mount(app: ASGIApp) -> ASGIApp:
        async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "root_path": root_path}, receive, send)

        return mounted

    how |= {"authenticator": authenticator, "watch": mount, "clock": clock}
    async with serve_relay(script, **how) as relay:
        yield Asked(relay, tokens, keys)

"""A relay that knows who asks: by a key's name as the bearer, or a token of the relay's own."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx2
from starlette.types import ASGIApp, Receive, Scope, Send

from app.clock import SYSTEM, Clock
from app.eventlog import EventLog
from app.eventlog.stream_info import StreamInfo
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal
from app.identity.tokens import Tokens
from app.telemetry.observer import Observer
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


class Started(Observer):
    """Keeps the ids of the streams that were started."""

    def __init__(self) -> None:
        self.streams: list[str] = []

    def started(self, record: StreamInfo) -> None:
        self.streams.append(record.id)


class AlteredLog:
    """An event log of whose methods some have been replaced."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def altering(**methods: Callable[..., Any]) -> Callable[[EventLog], Any]:
    """Return a `wrap_log` that calls these in place of the log's, with the log's own first."""

    def wrap(log: EventLog) -> AlteredLog:
        altered = AlteredLog(log)
        for name, method in methods.items():
            setattr(altered, name, partial(method, getattr(log, name)))
        return altered

    return wrap


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
    tables = (Table(keys), tokens)
    authenticator = Authenticator(tables, tokens=tokens, clock=clock.wall)

    def mount(app: ASGIApp) -> ASGIApp:
        async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "root_path": root_path}, receive, send)

        return mounted

    async with serve_relay(
        script, authenticator=authenticator, watch=mount, clock=clock, **how
    ) as relay:
        yield Asked(relay, tokens, keys)

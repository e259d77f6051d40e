"""The relay on a real socket, and readers of what it sends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx2
import msgspec
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from app.clock import SYSTEM, Clock
from app.composition import Substitutes
from app.demo import DemoTransport
from app.eventlog import EventLog
from app.framing.sse import Decoder, Message
from app.identity.authenticator import Authenticator
from app.ledger.config import LedgerConfig, PriceConfig
from app.ledger.prices import PriceBook
from app.relay import Relay as Composed
from app.settings import Settings, load_settings
from app.telemetry.observer import Observer
from app.testing.served import ServedRelay
from app.testing.served import serve_relay as serve
from app.testing.upstream import Step, reply, serve_upstream
from app.testing.upstream import Upstream as Script
from tests import waiting

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}

VECTOR = reply(
    "200 OK", '{"data": [{"index": 0, "embedding": [0.5, -0.25]}], "usage": {"prompt_tokens": 1}}'
)
"""A provider's answer to a request for one embedding."""


class Relay:
    """A relay on a real socket, its parts, and a client of it.

    `operator` are the headers of its operator, unless the settings name credentials.
    """

    def __init__(self, served: ServedRelay, client: httpx2.AsyncClient) -> None:
        self.url, self.port, self.server = served.url, served.port, served.server
        self.hub, self.log = served.parts.hub, served.parts.log_parts.log
        self.accounts, self.rows = served.parts.log_parts.accounts, served.parts.log_parts.rows
        self.metrics = served.parts.metrics
        self.operator = {} if served.key is None else {"authorization": f"Bearer {served.key}"}
        self.admin_page = f"{self.url}/admin" + ("" if served.key is None else f"#key={served.key}")
        self.client = client


@contextlib.asynccontextmanager
async def serve_relay(
    script: Script | None = None,
    *,
    key: str = "sk-test-0123456789",
    environ: Mapping[str, str] | None = None,
    dialect: str = "openai_chat",
    watch: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    replicas: bool = False,
    demo_pace: float = 0.0025,
    clock: Clock = SYSTEM,
    observers: Sequence[Observer] | None = None,
    authenticator: Authenticator | None = None,
    ledger: LedgerConfig | None = None,
    prices: Sequence[PriceConfig] | None = None,
    keeps_rows: bool = False,
    wrap_log: Callable[[EventLog], EventLog] | None = None,
    **settings: Any,
) -> AsyncIterator[Relay]:
    """Serve a relay of these settings; `script` is its upstream, and speaks `dialect`.

    It makes one attempt, so that a script says what is asked; `attempts` allows more.
    With `prices` nothing else has a price, with `ledger` nothing else a price or a limit.
    The demo is ten times as fast as for people; `demo_pace` is the time of a token in seconds.
    """
    settings = {"attempts": 1, **settings}
    environ = {**(environ or {})} | {
        f"SESERAGI_{name.upper()}": str(value) for name, value in settings.items()
    }
    if script is not None:
        environ |= {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": script.base_url}
    built = load_settings(environ)
    upstreams = tuple(
        msgspec.structs.replace(upstream, dialect=dialect, quirks=None)
        if dialect != "openai_chat"
        else upstream
        for upstream in built.upstreams
    )
    if prices is None and ledger is not None:
        prices = ledger.prices
    substitutes = Substitutes(
        clock=clock,
        transports={"all://demo": DemoTransport(pace=demo_pace)},
        observers=observers,
        authenticator=authenticator,
        prices=None if prices is None else PriceBook(prices, free=("demo",)),
        keeps_rows=keeps_rows,
        wrap_log=wrap_log,
    )
    async with (
        serve(
            msgspec.structs.replace(built, upstreams=upstreams, ledger=ledger or built.ledger),
            substitutes=substitutes,
            wrap_app=watch,
            replicas=replicas,
        ) as served,
        httpx2.AsyncClient(
            base_url=served.url, timeout=20, trust_env=False, verify=False
        ) as client,
    ):
        yield Relay(served, client)


def routes_of(settings: Settings) -> Sequence[BaseRoute]:
    """The routes of a relay of these settings, which nobody serves."""

    async def open_relay() -> Sequence[BaseRoute]:
        async with Composed.open(settings) as relay:
            return relay.routes

    return asyncio.run(open_relay())


@contextlib.asynccontextmanager
async def serve_script(
    script: Sequence[Step], **settings: Any
) -> AsyncIterator[tuple[Relay, Script]]:
    """Serve a relay and its upstream, which plays a script to every call."""
    async with serve_upstream() as upstream, serve_relay(upstream, **settings) as relay:
        upstream.script = script
        yield relay, upstream


async def read_messages(response: httpx2.Response, *, cut: bool | None = False) -> list[Message]:
    """Read a streamed response to its end as SSE.

    One that is `cut` has to end uncleanly; with None it may.
    """
    decoder = Decoder()
    messages = []
    try:
        async for chunk in response.aiter_bytes():
            messages += decoder.feed(chunk)
    except httpx2.RemoteProtocolError:
        assert cut in (True, None)
    else:
        assert not cut
    assert decoder.close() is None
    return messages


def events_of(messages: list[Message]) -> list[dict[str, Any]]:
    """The events, checked to be named by their type."""
    events = [json.loads(message.data) for message in messages]
    assert [event["type"] for event in events] == [message.event for message in messages]
    return events


async def chat(
    relay: Relay, body: dict[str, Any] | None = None, **fields: Any
) -> list[dict[str, Any]]:
    """POST /v1/chat and give its events."""
    async with relay.client.stream(
        "POST", "/v1/chat", json={**HELLO, **fields, **(body or {})}
    ) as reply:
        assert reply.status_code == 200, await reply.aread()
        return events_of(await read_messages(reply))


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["text"] for event in events if event["type"] == "text.delta")


async def until(relay: Relay, stream: str, condition: Callable[[httpx2.Response], bool]) -> None:
    """Ask a relay about a stream until it answers so: nothing tells that it will."""

    async def asked() -> bool:
        return condition(await relay.client.get(f"/v1/streams/{stream}"))

    await waiting.until(asked)


async def text_so_far(relay: Relay, stream: str, text: str) -> None:
    await until(relay, stream, lambda reply: reply.json().get("text") == text)


async def cut_off(relay: Relay, *, others: int) -> None:
    """Wait until no connection is left but those of others."""
    connections = relay.server.server_state.connections
    await waiting.until(lambda: len(connections) <= others, limit_s=30)

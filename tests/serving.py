"""The relay on a real socket, and readers of what it sends."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import httpx2
import msgspec
from starlette.types import ASGIApp

from app.composition import build_hub, build_metrics, build_tracing
from app.demo import DemoTransport
from app.framing.sse import Decoder, Message
from app.generation.hub import Hub
from app.identity.authenticator import Authenticator
from app.main import build_app
from app.peers import Peers
from app.server import Server, bind
from app.settings import load_settings
from app.telemetry.metrics import Metrics
from app.telemetry.observer import Observer
from app.testing.upstream import Upstream as Script

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Relay:
    url: str
    port: int
    server: Server
    hub: Hub
    client: httpx2.AsyncClient
    measured: Metrics | None = None


@contextlib.asynccontextmanager
async def serve_relay(
    script: Script | None = None,
    *,
    key: str = "sk-test-0123456789",
    environ: Mapping[str, str] | None = None,
    dialect: str = "openai_chat",
    authenticator: Authenticator | None = None,
    watch: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    observers: Sequence[Observer] | None = None,
    demo_pace: float = 0.0025,
    **settings: Any,
) -> AsyncIterator[Relay]:
    """Run the relay on a free port; `script` is its upstream, and speaks `dialect`.

    It asks once only, so that a script says what is asked; `attempts` allows more.
    The demo is ten times as fast as it is to people; `demo_pace` is the time of its tokens.
    What is asked and answered goes through `watch`.
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
    built = msgspec.structs.replace(built, upstreams=upstreams)
    with patch("app.composition.DemoTransport", partial(DemoTransport, pace=demo_pace)):
        hub = build_hub(built, observers=observers)
    measured, tracing = build_metrics(built, hub), build_tracing(built)
    if tracing is not None:
        tracing.open()
        hub.observe(tracing)
    await hub.open()
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    listening = asyncio.Event()
    server = Server(
        watch(build_app(built, hub, authenticator, measured, tracing)),
        peers=Peers(
            built.max_connections or 10_000,
            each=built.max_connections_per_address,
            trusted=built.trusted_proxies,
        ),
        send_timeout_s=built.send_timeout_s,
        min_reader_rate=built.min_reader_rate,
        keepalive_s=built.keepalive_s,
        others_answer=lambda: False,
        on_listening=listening.set,
        drain=lambda: hub.drain(built.drain_s),
        stop_now=hub.stop_now,
        count_bytes=built.access_log,
    )
    task = asyncio.create_task(server._serve(sockets=[listener]))
    await asyncio.wait_for(listening.wait(), 20)
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx2.AsyncClient(
            base_url=url, timeout=20, trust_env=False, verify=False
        ) as client:
            yield Relay(url, port, server, hub, client, measured)
    finally:
        await hub.drain(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.wait_for(_shut_down(server), 30)
        await hub.close()
        if tracing is not None:
            await tracing.aclose()


async def _shut_down(server: Server) -> None:
    """Do what uvicorn does at its end, without its naps of a tenth of a second.

    The command's tests see the real end.
    """
    for listening in server.servers:
        listening.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()
    while server.server_state.connections or server.server_state.tasks:  # noqa: ASYNC110  (no event tells)
        await asyncio.sleep(0.002)


async def read_messages(response: httpx2.Response) -> list[Message]:
    """Read a streamed response to its end as SSE."""
    decoder = Decoder()
    messages = []
    async for chunk in response.aiter_bytes():
        messages += decoder.feed(chunk)
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
    async with asyncio.timeout(20):
        while not condition(await relay.client.get(f"/v1/streams/{stream}")):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def text_so_far(relay: Relay, stream: str, text: str) -> None:
    await until(relay, stream, lambda reply: reply.json().get("text") == text)


async def cut_off(relay: Relay, *, others: int) -> None:
    """Wait until no connection is left but those of others."""
    async with asyncio.timeout(30):
        while len(relay.server.server_state.connections) > others:  # noqa: ASYNC110  (nothing tells)
            await asyncio.sleep(0.02)

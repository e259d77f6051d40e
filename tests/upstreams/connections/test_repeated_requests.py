"""Requests on kept connections that turn out dead: sent once more, counted and told."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig
from app.testing.upstream import DONE, FINISH, USAGE, text
from app.upstreams.connection import Disconnected
from app.upstreams.http import HttpClient, fetch, open_client, open_stream
from app.upstreams.http_call import CallUrl, HttpCall
from tests.api.test_call_money import rows, settled
from tests.serving import Relay, chat, serve_relay
from tests.tcp_server import serve_tcp
from tests.waiting import until

DOCUMENT = json.dumps(
    {
        "data": [{"index": 0, "embedding": [1.0]}],
        "model": "m-1",
        "usage": {"prompt_tokens": 3, "total_tokens": 3},
    }
)


def answer(body: str, media_type: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


OK = answer("{}")


class Provider:
    """Takes requests and counts them; `act` returns the bytes to send before a reset, or None.

    Without a reset, it answers with `reply` for the path.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.taken: list[int] = []
        """The connection of each request."""
        self.connections = self.open = 0
        self.act: Callable[[int], bytes | None] = lambda _: None
        self.waits: dict[int, asyncio.Event] = {}
        """What connections wait for before `act`."""

    def reply(self, path: str) -> bytes:
        if "chat/completions" in path:
            return answer(text("hello") + FINISH + USAGE + DONE, "text/event-stream")
        return answer(DOCUMENT)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        number = self.connections
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while head := await reader.readuntil(b"\r\n\r\n"):
                    size = head.partition(b"content-length: ")[2].partition(b"\r")[0]
                    await reader.readexactly(int(size or b"0"))
                    method, path, _ = head.split(b" ", 2)
                    if method == b"GET":  # the list of models
                        writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
                        continue
                    self.taken.append(number)
                    if number in self.waits:
                        await self.waits[number].wait()
                    if (sent := self.act(number)) is None:
                        writer.write(self.reply(path.decode()))
                        continue
                    writer.write(sent)
                    await writer.drain()
                    if sent:
                        await asyncio.sleep(0.02)  # else the reset overtakes it
                    linger = struct.pack("ii", 1, 0)
                    sock = writer.get_extra_info("socket")
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    writer.transport.abort()
                    return
        finally:
            self.open -= 1

    def replace(self, sent: bytes = b"") -> None:
        """Reset each connection that is open now at its next request."""
        last = self.connections
        self.act = lambda number: sent if number <= last else None

    def fail(self) -> None:
        """Reset every connection at its next request."""
        self.act = lambda _: b""


@contextlib.asynccontextmanager
async def serve_provider() -> AsyncIterator[Provider]:
    provider = Provider()
    async with serve_tcp(provider.serve) as port:
        provider.base_url = f"http://127.0.0.1:{port}/v1"
        yield provider


@contextlib.asynccontextmanager
async def opened(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Provider, HttpClient]]:
    monkeypatch.setattr("app.upstreams.http.CLOSED_WITHIN_S", 20)  # a busy machine sees it late
    async with serve_provider() as provider, open_client(connect_timeout_s=5, mounts={}) as client:
        yield provider, client


class Counted:
    """Makes calls, and counts those that are told to be sent again."""

    def __init__(self, provider: Provider, client: HttpClient) -> None:
        self.url = CallUrl.of(httpx2.URL(provider.base_url))
        self.client = client
        self.resent = 0

    def _call(self) -> HttpCall:
        def on_resend() -> None:
            self.resent += 1

        return HttpCall("POST", self.url, {}, b"{}", on_resend=on_resend)

    async def fetch(self) -> bytes:
        return await fetch(self.client, self._call(), upstream="up", max_bytes=1000)

    async def stream(self) -> bytes:
        reply = await open_stream(self.client, self._call(), upstream="up")
        return b"".join([piece async for piece in reply.body])


@pytest.mark.parametrize("door", ["fetch", "stream"])
async def test_request_is_sent_once_more_on_a_new_connection(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        ask = getattr(calls, door)
        await asyncio.gather(*(ask() for _ in range(4)))
        assert 0 == calls.resent

        provider.taken.clear()
        provider.replace()
        assert DOCUMENT.encode() == await ask()
        assert 1 == calls.resent
        assert 2 == len(provider.taken)
        assert 5 == provider.taken[1]


@pytest.mark.parametrize("door", ["fetch", "stream"])
async def test_request_that_fails_twice_is_not_sent_a_third_time(
    door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        ask = getattr(calls, door)
        await asyncio.gather(*(ask() for _ in range(4)))
        provider.taken.clear()
        provider.fail()
        with pytest.raises(Disconnected):
            await ask()

        assert (2, 1) == (len(provider.taken), calls.resent)
        with pytest.raises(Disconnected):
            await ask()
        assert (3, 1) == (len(provider.taken), calls.resent)


@pytest.mark.parametrize(
    "begun",
    [
        b"H",
        b"\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n",
    ],
)
async def test_request_is_not_sent_again_once_anything_of_the_answer_came(
    begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await calls.fetch()
        provider.taken.clear()
        provider.replace(begun)
        with pytest.raises(httpx2.RemoteProtocolError):
            await calls.fetch()

        assert (1, 0) == (len(provider.taken), calls.resent)


async def test_request_is_not_sent_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await calls.fetch()
        provider.taken.clear()
        provider.replace()
        monkeypatch.setattr("app.upstreams.http.CLOSED_WITHIN_S", -1.0)
        with pytest.raises(Disconnected):
            await calls.fetch()

        assert (1, 0) == (len(provider.taken), calls.resent)


async def test_dead_connection_closes_all_that_were_free(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await asyncio.gather(*(calls.fetch() for _ in range(16)))
        assert 16 == provider.open

        provider.taken.clear()
        provider.replace()
        for _ in range(20):
            assert DOCUMENT.encode() == await calls.fetch()
        assert (1, 21, 17) == (calls.resent, len(provider.taken), provider.connections)
        await until(lambda: provider.open == 1)


async def test_connection_that_was_used_since_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await calls.fetch()
        provider.replace()
        assert DOCUMENT.encode() == await calls.fetch()
        assert DOCUMENT.encode() == await calls.fetch()

        assert (1, 2) == (calls.resent, provider.connections)


async def test_request_is_not_sent_again_on_a_connection_that_became_free_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await calls.fetch()
        provider.replace()
        provider.waits[1] = asyncio.Event()
        late = asyncio.ensure_future(calls.fetch())
        await until(lambda: len(provider.taken) == 2)
        await calls.fetch()  # on the second connection, which is free then
        provider.waits[1].set()
        await late

        assert [1, 1, 2, 3] == provider.taken
        assert DOCUMENT.encode() == await calls.fetch()
        assert provider.taken[4] in (2, 3)  # it was used since, so it stays


async def test_many_at_once_on_dead_connections_all_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(monkeypatch) as (provider, client):
        calls = Counted(provider, client)
        await asyncio.gather(*(calls.fetch() for _ in range(16)))
        provider.taken.clear()
        provider.replace()
        found = await asyncio.gather(*(calls.fetch() for _ in range(30)))

        assert {DOCUMENT.encode()} == set(found)
        assert 30 + calls.resent == len(provider.taken)
        assert calls.resent <= 16


MODEL = "openai/m-1"
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hi, how are you today?"}]}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "stream": ("/v1/chat/completions", {**HELLO, "stream": True}),
    "own stream": ("/v1/chat", HELLO),
    "JSON": ("/v1/chat/completions", HELLO),
    "embeddings": ("/v1/embeddings", {"model": MODEL, "input": "four words are here"}),
    "forwarded": ("/v1/moderations", {"model": MODEL, "input": "four words are here"}),
}
PRICES = (PriceConfig(target="openai/*", input=2, output=4, version="list"),)


@contextlib.asynccontextmanager
async def serve_priced(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> AsyncIterator[Relay]:
    monkeypatch.setattr("app.upstreams.http.CLOSED_WITHIN_S", 20)
    ledger = LedgerConfig(limits=LimitsConfig(), prices=PRICES)
    async with serve_relay(
        provider,  # type: ignore[arg-type]
        ledger=ledger,
        keeps_rows=True,
        **settings,
    ) as relay:
        yield relay


async def ask(relay: Relay, name: str, **headers: str) -> httpx2.Response:
    path, body = CALLS[name]
    return await relay.client.post(path, json=body, headers=headers)


@pytest.mark.parametrize("name", CALLS)
async def test_attempts_and_money_tell_of_a_repeated_request(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_provider() as provider, serve_priced(provider, monkeypatch) as relay:
        await ask(relay, name)
        await settled(relay)
        provider.taken.clear()
        provider.replace()
        reply = await ask(relay, name)
        await settled(relay)
        once, twice = sorted(await rows(relay), key=lambda row: row.attempts)

        assert 200 == reply.status_code, reply.text
        assert (2, 1, 2) == (len(provider.taken), once.attempts, twice.attempts)
        assert ("provider", "estimate") == (once.usage_from, twice.usage_from)
        assert "completed" == twice.status
        assert None not in (once.input_tokens, twice.input_tokens, once.nano_usd, twice.nano_usd)
        more = (twice.input_tokens or 0) - (once.input_tokens or 0)
        assert more > 0
        assert more * 2000 == (twice.nano_usd or 0) - (once.nano_usd or 0)
        assert once.output_tokens == twice.output_tokens


CLOSED = "upstream 'openai' closed the connection without an answer"


async def test_stream_tells_of_a_repeated_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_provider() as provider, serve_priced(provider, monkeypatch) as relay:
        first = await chat(relay, HELLO)
        provider.replace()
        second = await chat(relay, HELLO)

        assert "notice" not in [event["type"] for event in first]
        types = [event["type"] for event in second]
        assert ["stream.start", "notice", "stream.target"] == types[:3]
        assert ("retry", f"{CLOSED}; the request was sent again") == (
            *(second[1]["code"], second[1]["message"]),
        )
        before, after = first[-1], second[-1]
        assert Decimal(after["cost"]) > Decimal(before["cost"])
        # The usage is that of the answer.
        assert before["usage"]["input_tokens"] == after["usage"]["input_tokens"]
        metrics = (await relay.client.get("/metrics", headers=relay.operator)).text
        assert 'seseragi_retries_total{target="openai"} 1.0' in metrics
        failed = 'seseragi_attempts_total{outcome="upstream_unavailable",target="openai"} 1.0'
        assert failed in metrics


@pytest.mark.parametrize("name", CALLS)
async def test_each_attempt_is_sent_at_most_twice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        serve_provider() as provider,
        serve_priced(provider, monkeypatch, attempts=2) as relay,
    ):
        await asyncio.gather(*(ask(relay, name) for _ in range(8)))
        await settled(relay)
        provider.taken.clear()
        provider.fail()
        reply = await ask(relay, name, **{"idempotency-key": "a"} if "stream" in name else {})
        await settled(relay)
        (row,) = [row for row in await rows(relay) if row.status == "failed"]

        assert 502 == reply.status_code
        # The first attempt twice, the second one once: no connection is kept.
        assert len(provider.taken) == row.attempts
        assert 2 <= len(provider.taken) <= 3
        assert row.nano_usd == (row.input_tokens or 0) * 2000 + (row.output_tokens or 0) * 4000
        assert (row.input_tokens or 0) % row.attempts == 0
        assert row.input_tokens

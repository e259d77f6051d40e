"""nginx as `compose.yaml` runs it: nothing is held back, nothing is lost, and no reader hangs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Reset,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.ports import free_port
from tests.proxies.programs import Proxy, nginx, plain_nginx
from tests.proxies.reading import TOKENS, Timed, curl, delays, post
from tests.serving import HELLO, serve_relay

pytestmark = pytest.mark.proving

GZIP = "gzip on; gzip_types *; gzip_min_length 0;"
EVENT = "event: stream.start\ndata: {}\nid: st_1.1\n\n"
EVENTS = "/v1/streams/st_1/events"


def client_of(proxy: Proxy) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=proxy.http, timeout=30, trust_env=False)


def port_of(proxy: Proxy) -> int:
    return httpx2.URL(proxy.http).port or 0


@contextlib.asynccontextmanager
async def way(name: str, folder: Path, relay: int) -> AsyncIterator[tuple[str, tuple[str, ...]]]:
    """Build a way to the relay; give its URL and what curl needs for it."""
    more = GZIP if name == "gzip" else ""
    async with contextlib.AsyncExitStack() as stack:
        inner = await stack.enter_async_context(nginx(folder / "inner", relay, more=more))
        match name:
            case "two":
                outer = await stack.enter_async_context(nginx(folder / "outer", port_of(inner)))
                yield outer.http, ()
            case "behind a plain one":
                outer = await stack.enter_async_context(
                    plain_nginx(folder / "outer", port_of(inner))
                )
                yield outer.http, ("--compressed",)
            case "http2":
                yield inner.https, ("--http2", "--cacert", str(inner.authority))
            case _:
                yield inner.http, ("--compressed",) if name == "gzip" else ()


@pytest.mark.parametrize("name", ["one", "two", "gzip", "behind a plain one", "http2"])
async def test_each_token_comes_within_100_ms(name, tmp_path, upstream, relay):
    upstream.choose = lambda call: Timed()
    async with way(name, tmp_path, relay.port) as (url, options):
        taken, head = await delays(tmp_path, url, *options)

    assert TOKENS == len(taken)
    assert max(taken) < 0.1, taken
    assert ("--compressed" in options) == ("content-encoding: gzip" in head)
    assert ("http/2 200" in head) == (name == "http2")


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
async def test_client_that_leaves_is_seen_by_the_relay(protocol, tmp_path, upstream, relay):
    upstream.script = [head(), send(text("one")), Hold()]
    async with nginx(tmp_path, relay.port) as proxy:
        options = (protocol, "--cacert", str(proxy.authority), *post(on_disconnect="cancel"))
        async with curl(tmp_path, f"{proxy.https}/v1/chat", *options) as reply:
            await reply.first("text.delta")

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_reading_goes_on_after_a_cut(tmp_path, upstream, relay):
    upstream.choose = lambda call: Timed()
    async with nginx(tmp_path, relay.port) as proxy:
        async with curl(tmp_path, f"{proxy.http}/v1/chat", *post()) as reply:
            seen = (await reply.first("text.delta")).id
        stream, _, number = (seen or "").partition(".")
        url = f"{proxy.http}/v1/streams/{stream}/events"
        async with curl(tmp_path, url, "-H", f"Last-Event-ID: {seen}") as reply:
            rest = [message async for message in reply.messages()]

    numbers = [int((message.id or "").rpartition(".")[2]) for message in rest]
    assert list(range(int(number) + 1, numbers[-1] + 1)) == numbers
    assert "stream.end" == rest[-1].event
    assert TOKENS - 1 == sum(message.event == "text.delta" for message in rest)


@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
async def test_cut_stream_does_not_look_whole(protocol, tmp_path):
    async with serve_upstream() as relay:
        relay.models = [chunked_head(), chunk(EVENT), Reset()]
        async with nginx(tmp_path, relay.port) as proxy:
            options = (protocol, "--cacert", str(proxy.authority))
            async with curl(tmp_path, f"{proxy.https}{EVENTS}", *options) as reply:
                await reply.first("stream.start")
                out, _ = await reply.process.communicate()

    assert b"" == out
    assert 0 != reply.process.returncode


@pytest.mark.parametrize("agent", ["curl/8.5.0", "litellm/1.105.7"])
@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
async def test_failed_chat_completion_comes_with_its_error_and_ends_as_its_client_needs(
    protocol, agent, tmp_path, upstream, relay
):
    upstream.script = [head(), send(text("Hi"))]
    async with nginx(tmp_path, relay.port) as proxy:
        options = (protocol, "--cacert", str(proxy.authority), *post(model="openai/m", stream=True))
        url = f"{proxy.https}/v1/chat/completions"
        async with curl(tmp_path, url, *options, "-A", agent) as reply:
            messages = [message async for message in reply.messages()]
            await reply.process.wait()

    assert "connection lost" in messages[-1].data
    assert agent.startswith("litellm") is (0 != reply.process.returncode)


async def test_relay_that_is_gone_is_passed_over(tmp_path, upstream, relay):
    upstream.script = [head(), send(text("fine") + FINISH + DONE)]
    async with nginx(tmp_path, free_port(), relay.port) as proxy, client_of(proxy) as client:
        replies = [await client.post("/v1/chat", json=HELLO) for _ in range(10)]

    assert [200] * 10 == [reply.status_code for reply in replies]


async def test_read_that_a_relay_refuses_goes_to_another(tmp_path):
    async with serve_upstream() as draining, serve_upstream() as other:
        draining.models = reply("503 Service Unavailable", "{}")
        other.models = [head(), send(EVENT)]
        async with (
            nginx(tmp_path, draining.port, other.port) as proxy,
            client_of(proxy) as client,
        ):
            answers = [await client.get(EVENTS) for _ in range(4)]

    assert [200] * 4 == [answer.status_code for answer in answers]
    assert 0 < draining.models_asked


async def test_start_that_a_relay_refuses_is_not_sent_again(tmp_path):
    async with serve_upstream() as draining, serve_upstream() as other:
        draining.script = other.script = reply("503 Service Unavailable", "{}")
        async with (
            nginx(tmp_path, draining.port, other.port) as proxy,
            client_of(proxy) as client,
        ):
            answer = await client.post("/v1/chat", json=HELLO)

    assert 503 == answer.status_code
    assert 1 == len(draining.calls) + len(other.calls)


async def test_frozen_relay_costs_a_reader_its_connection_only(tmp_path):
    async with serve_upstream() as frozen:
        frozen.script = [chunked_head(), chunk(EVENT), Hold()]
        async with nginx(tmp_path, frozen.port, stream_timeout="3s") as proxy:
            options = ("-H", "Accept: text/event-stream", *post())
            async with curl(tmp_path, f"{proxy.http}/v1/chat", *options) as reply:
                await reply.first("stream.start")
                await asyncio.wait_for(reply.process.communicate(), 20)

    assert 0 != reply.process.returncode


async def test_eventsource_comes_back_when_no_relay_answers(tmp_path):
    async with nginx(tmp_path, free_port()) as proxy, client_of(proxy) as client:
        reply = await client.get(EVENTS, headers={"accept": "text/event-stream"})

    assert 200 == reply.status_code
    assert "text/event-stream" == reply.headers["content-type"]
    assert "retry: 2000\n\n" == reply.text


async def test_others_are_told_that_no_relay_answers(tmp_path):
    async with nginx(tmp_path, free_port()) as proxy, client_of(proxy) as client:
        reply = await client.post("/v1/chat", json=HELLO)

    assert 502 == reply.status_code
    assert "application/problem+json" == reply.headers["content-type"]
    assert "2" == reply.headers["retry-after"]
    problem = reply.json()
    assert ("producer_lost", True) == (problem["code"], problem["retryable"])


@pytest.mark.parametrize(("size", "says"), [(2**25 + 1, "33554432"), (33 * 2**20 + 1, "33 MiB")])
async def test_request_that_is_too_large_is_refused_in_json(size, says, tmp_path):
    headers = {"content-type": "application/json"}
    async with (
        serve_relay() as relay,
        nginx(tmp_path, relay.port) as proxy,
        client_of(proxy) as client,
    ):
        reply = await client.post("/v1/chat", content=b"x" * size, headers=headers)

    assert 413 == reply.status_code
    assert "request_too_large" == reply.json()["code"]
    assert says in reply.json()["detail"]


async def test_errors_of_the_relay_stay_its_own(tmp_path, upstream, relay):
    upstream.script = [head("500 Internal Server Error"), send("no")]
    async with nginx(tmp_path, relay.port) as proxy, client_of(proxy) as client:
        direct = await relay.client.post("/v1/chat", json=HELLO)
        through = await client.post("/v1/chat", json=HELLO)

    assert 502 == direct.status_code == through.status_code
    assert "upstream_unavailable" == through.json()["code"]


async def test_json_may_take_longer_than_a_stream_may_be_silent(tmp_path, upstream, relay):
    upstream.script = [head(), send(text("fine")), wait(0.4), send(FINISH + DONE)]
    async with (
        nginx(tmp_path, relay.port, stream_timeout="200ms") as proxy,
        client_of(proxy) as client,
    ):
        reply = await client.post("/v1/chat", json={**HELLO, "stream": False})

    assert "completed" == reply.json()["status"]


async def test_log_has_no_token_of_a_link(tmp_path):
    async with (
        serve_relay() as relay,
        nginx(tmp_path, relay.port) as proxy,
        client_of(proxy) as client,
    ):
        cancel = "/v1/streams/st_1/cancel?format=ui&token=sEcReT"
        assert 404 == (await client.post(cancel)).status_code
        assert 404 == (await client.get(f"{EVENTS}?token=sEcReT&after=3")).status_code
    log = (tmp_path / "log").read_text()

    assert f'"GET {EVENTS} HTTP/1.1" 404' in log
    assert "sEcReT" not in log

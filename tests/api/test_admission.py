"""What is refused before its body is read, what a request takes, and each address's share."""

import asyncio
import contextlib
import gc
import json
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

import pytest

from app.dialects.client_formats import CLIENT_FORMATS, client_format_of
from app.requests import ChatRequest, parse_chat_request
from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Step,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    text,
)
from tests.clock import Clock
from tests.dialects import clients
from tests.serving import HELLO, Relay, serve_relay, serve_script
from tests.waiting import until

PATHS = [client_format.path for client_format in CLIENT_FORMATS.values()]
HERE, THERE = {"x-forwarded-for": "203.0.113.9"}, {"x-forwarded-for": "203.0.113.10"}
TALKING: list[Step] = [head(), send(text("x")), Hold()]
LARGE = 900_000


class Sender:
    """A client that sends the head of a POST, and of its body what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        raw = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 20)).decode()
        status, *lines = raw.strip().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines)}
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(status.split()[1]), headers, body


@contextlib.asynccontextmanager
async def sending(
    relay: Relay, *, path: str = "/v1/chat", length: int = 1000, headers: Mapping[str, str] = {}
) -> AsyncIterator[Sender]:
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{relay.port}\r\ncontent-type: application/json\r\n"
        f"content-length: {length}\r\n{told}\r\n".encode()
    )
    try:
        yield Sender(reader, writer)
    finally:
        writer.close()


def refused(path: str, answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str, str]:
    """The status, the wait and the code of a refusal; Anthropic has a status of its own."""
    status, headers, body = answer
    if client_format_of(path).name == "anthropic" and status == 529:
        status = 503
    return status, headers["retry-after"], code_of(path, body)


def code_of(path: str, body: bytes) -> str:
    """Return the relay's code for a refusal, by its message: each dialect has its own."""
    message = clients.read_failure(client_format_of(path).name, body)
    return "rate_limited" if "your address" in message else "overloaded"


class Taken(NamedTuple):
    bodies: int
    bytes: int
    readers: int
    streams: int


def taken(relay: Relay, headers: Mapping[str, str]) -> Taken:
    """Return what a client that sends these headers has open."""
    share = relay.hub.admission._table.get(headers["x-forwarded-for"])
    return Taken(*(getattr(share, name, 0) for name in Taken._fields))


# Before the body


@pytest.mark.parametrize("path", PATHS)
async def test_a_relay_that_stops_refuses_before_the_body(path):
    async with serve_relay() as relay:
        relay.hub.shutdown.draining = True
        async with sending(relay, path=path) as sender:
            answer = await sender.answer()

        assert (503, "2", "overloaded") == refused(path, answer)


@pytest.mark.parametrize("path", PATHS)
async def test_a_relay_with_all_its_streams_refuses_before_the_body(path):
    async with serve_script(TALKING, max_streams=1) as (relay, _):
        async with (
            relay.client.stream("POST", "/v1/chat", json=HELLO),
            sending(relay, path=path) as sender,
        ):
            answer = await sender.answer()

        assert (503, "2", "overloaded") == refused(path, answer)


@pytest.mark.parametrize("path", PATHS)
async def test_an_address_with_all_its_streams_is_refused_before_the_body(path):
    async with serve_script(TALKING, max_streams_per_address=2, linger_s=0) as (relay, upstream):
        async with (
            relay.client.stream("POST", "/v1/chat", json=HELLO, headers=HERE),
            relay.client.stream("POST", "/v1/chat", json=HELLO, headers=HERE),
        ):
            async with sending(relay, path=path, headers=HERE) as sender:
                answer = await sender.answer()
            other = await relay.client.send(
                relay.client.build_request("POST", "/v1/chat", json=HELLO, headers=THERE),
                stream=True,
            )
            await other.aclose()
        await until(lambda: relay.hub.admission.streams == 0)
        upstream.script = [head(), send(text("x") + FINISH + DONE)]
        later = await relay.client.post("/v1/chat", json=HELLO, headers=HERE)

        assert (429, "2", "rate_limited") == refused(path, answer)
        assert (200, 200) == (other.status_code, later.status_code)


async def test_addresses_of_one_ipv6_network_have_one_share():
    async with serve_script(TALKING, max_streams_per_address=1) as (relay, _):
        first = {"x-forwarded-for": "2001:db8:1:2::9"}
        async with (
            relay.client.stream("POST", "/v1/chat", json=HELLO, headers=first),
            sending(relay, headers={"x-forwarded-for": "2001:db8:1:2:f::1"}) as sender,
        ):
            assert 429 == (await sender.answer())[0]


async def test_starts_of_an_address_have_a_limit_by_the_minute():
    async with serve_relay(demo=True, max_starts_per_minute_per_address=3) as relay:
        statuses = [
            (await relay.client.post("/v1/chat", json={}, headers=HERE)).status_code
            for _ in range(5)
        ]
        refused = await relay.client.post("/v1/chat", json={}, headers=HERE)
        others = [
            (await relay.client.post("/v1/chat", json={}, headers=headers)).status_code
            for headers in (THERE, {})
            for _ in range(3)
        ]

        assert [400, 400, 400, 429, 429] == statuses
        assert 1 <= int(refused.headers["retry-after"]) <= 20
        assert [400] * 6 == others


async def test_bodies_of_an_address_that_are_being_sent_have_a_limit():
    async with serve_relay(max_streams_per_address=2) as relay:
        async with sending(relay, headers=HERE), sending(relay, headers=HERE):
            await until(lambda: taken(relay, HERE).bodies == 2)
            async with sending(relay, headers=HERE) as third:
                status, _, body = await third.answer()
            async with sending(relay, headers=THERE):
                await until(lambda: taken(relay, THERE).bodies == 1)
        await until(lambda: taken(relay, HERE).bodies == 0)

        assert (429, "rate_limited") == (status, json.loads(body)["code"])


async def test_readers_of_an_address_have_a_limit():
    async with serve_script(TALKING, max_readers_per_address=2) as (relay, _):
        async with relay.client.stream("POST", "/v1/chat", json=HELLO, headers=HERE) as posted:
            url = f"/v1/streams/{posted.headers['stream-id']}/events"
            async with relay.client.stream("GET", url, headers=HERE):
                refused = await relay.client.get(url, headers=HERE)
                lenient = await relay.client.get(
                    url, headers={**HERE, "accept": "text/event-stream"}
                )
                async with relay.client.stream("GET", url, headers=THERE) as other:
                    assert 200 == other.status_code
            await until(lambda: taken(relay, HERE).readers == 1)
            async with relay.client.stream("GET", url, headers=HERE) as later:
                assert 200 == later.status_code

        assert (429, "rate_limited") == (refused.status_code, refused.json()["code"])
        assert "2" == refused.headers["retry-after"]
        assert (200, "retry") == (lenient.status_code, lenient.text[:5])


async def test_a_key_leads_to_its_stream_though_no_other_can_start():
    async with serve_script(
        [head(), send(text("x") + FINISH + DONE)],
        max_starts_per_minute_per_address=1,
        max_streams_per_address=1,
    ) as (relay, _):
        headers = {**HERE, "idempotency-key": "k"}
        first, again = [
            await relay.client.post("/v1/chat", json=HELLO, headers=headers) for _ in range(2)
        ]
        refused = await relay.client.post(
            "/v1/chat", json=HELLO, headers={**HERE, "idempotency-key": "other"}
        )

        assert (200, first.text) == (again.status_code, again.text)
        assert 429 == refused.status_code


# The memory for requests


@pytest.mark.parametrize("path", PATHS)
async def test_half_sent_bodies_take_of_the_memory_for_requests(path):
    async with serve_relay(max_request_memory_bytes=100_000) as relay:
        async with (
            sending(relay, path=path, length=60_000, headers=HERE) as first,
            sending(relay, path=path, length=60_000, headers=THERE) as second,
        ):
            first.writer.write(b" " * 59_000)
            await until(lambda: relay.hub.admission.bytes == 59_000)
            second.writer.write(b" " * 59_000)
            answer = await second.answer()
            assert 59_000 == relay.hub.admission.bytes
        await until(lambda: relay.hub.admission.bytes == 0)
        short = {**HELLO, "model": "demo", "stream": False, "max_tokens": 1}
        fine = await relay.client.post("/v1/chat", json=short)

        assert (503, "2", "overloaded") == refused(path, answer)
        assert 200 == fine.status_code


async def test_a_request_that_would_take_more_than_there_is_is_too_large():
    async with serve_relay(max_request_memory_bytes=100_000) as relay:
        body = {**HELLO, "provider_options": {"a": [{}] * 2000}}
        reply = await relay.client.post("/v1/chat", json=body)

        assert (413, "request_too_large") == (reply.status_code, reply.json()["code"])
        assert "max_request_memory_bytes" in reply.json()["detail"]
        assert 0 == relay.hub.admission.bytes


def requests_alive() -> int:
    gc.collect()
    return sum(isinstance(one, ChatRequest) for one in gc.get_objects())


def kept_by_the_relay(snapshot: tracemalloc.Snapshot) -> list[str]:
    """The places that have made what is as large as the request."""
    parts = ("/app/", "/uvicorn/", "/starlette/")
    return [
        str(trace.traceback)
        for trace in snapshot.traces
        if trace.size > LARGE // 2 and any(part in str(trace.traceback) for part in parts)
    ]


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("mode", ["stream", "result", "async", "key"])
async def test_a_running_stream_does_not_keep_its_request(attempts, mode):
    """Nor the body, nor the call, in the relay, the server or the HTTP client."""
    said = [{"role": "user", "content": "x" * LARGE}]
    headers = {"async": {"prefer": "respond-async"}, "key": {"idempotency-key": "k"}}.get(mode)
    async with serve_script([chunked_head(), chunk(text("x")), Hold()], attempts=attempts) as (
        relay,
        upstream,
    ):
        before = requests_alive()
        tracemalloc.start()
        try:
            body = {"messages": said, "stream": mode != "result"}
            request = relay.client.build_request("POST", "/v1/chat", json=body, headers=headers)
            posting = asyncio.create_task(relay.client.send(request, stream=True))
            await upstream.called.wait()
            assert LARGE < len(upstream.calls[0].body)
            await until(lambda: relay.hub.admission.bytes == 0)
            await until(lambda: requests_alive() == before)
            alive, kept = requests_alive() - before, kept_by_the_relay(tracemalloc.take_snapshot())
            running = relay.hub.load().streams
        finally:
            tracemalloc.stop()
        posting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await posting).aclose()

    assert (1, 0, []) == (running, alive, kept)


async def test_a_request_is_kept_while_another_attempt_may_follow():
    async with serve_script([head(), Hold()], attempts=2) as (relay, upstream):
        before = requests_alive()
        posting = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        await upstream.called.wait()
        await until(lambda: not requests_alive() - before - 1)

        assert 0 < relay.hub.admission.bytes
        assert 1 == requests_alive() - before
        posting.cancel()
        await until(lambda: relay.hub.admission.bytes == 0)


async def test_the_last_attempt_keeps_no_more_than_the_call_until_it_is_answered():
    async with serve_script([Hold()], attempts=1) as (relay, upstream):
        before = requests_alive()
        posting = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        await upstream.called.wait()

        assert len(upstream.calls[0].body) == relay.hub.admission.bytes
        assert 0 == requests_alive() - before
        posting.cancel()
        await until(lambda: relay.hub.admission.bytes == 0)


@pytest.mark.parametrize(
    "script",
    [
        [head(), send(text("x") + FINISH + DONE)],
        [head(), send(FINISH + DONE)],
        [head()],
        reply("400 Bad Request", "{}"),
        reply("503 Service Unavailable", "{}"),
    ],
)
async def test_nothing_is_counted_once_all_is_over(script, monkeypatch):
    async with serve_script(script, attempts=2) as (relay, _), Clock(monkeypatch).hurrying():
        for stream in (True, False):
            await relay.client.post("/v1/chat", json={**HELLO, "stream": stream}, headers=HERE)
            await relay.client.post("/v1/chat", json={"messages": 1}, headers=HERE)
        await until(lambda: not relay.hub.load().streams)
        counted = relay.hub.admission

        assert (0, 0) == (counted.bytes, counted.streams)
        assert (0, 0, 0, 0) == taken(relay, HERE)


# Durations that a client gives


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions", "/v1/responses"])
@pytest.mark.parametrize("seconds", [86_401, 1e308])
async def test_a_stream_without_readers_goes_on_for_a_day_at_most(path, seconds):
    async with serve_relay() as relay:
        body = {"input": "x"} if path == "/v1/responses" else HELLO
        reply = await relay.client.post(path, json={**body, "on_disconnect": seconds})

        assert 400 == reply.status_code
        assert "on_disconnect: expected `float` <= 86400" in reply.text


def test_a_day_without_readers_can_be_asked_for():
    chat = parse_chat_request(json.dumps({**HELLO, "on_disconnect": 86_400}).encode())

    assert 86_400 == chat.on_disconnect

"""What comes is one request after the other and nothing else, whatever it looks like."""

import asyncio
import re
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, Hold, head, send, text
from tests.hostile import BODY, HEALTH, SMUGGLED, chat, in_chunks, pieces, read_all, statuses, tell
from tests.serving import serve_relay, serve_script
from tests.waiting import until

ANSWER = [head(), send(text("fine") + FINISH + DONE)]

UPGRADES = {
    "websocket": b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
    "anything": b"upgrade: x/1\r\nconnection: keep-alive, upgrade\r\n",
    "several": b"upgrade: a\r\nupgrade: websocket, h2c\r\nconnection: upgrade\r\n",
    "two connections": b"connection: keep-alive\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
}  # fmt: skip
HALF = {
    "only upgrade": b"upgrade: websocket\r\n",
    "only connection": b"connection: upgrade\r\n",
    "empty": b"connection: upgrade\r\nupgrade:\r\n",
}
"""These offer nothing, so what follows may be the next request."""
BODIES = {
    "with a length": b"content-length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED),
    "in chunks": b"transfer-encoding: chunked\r\n\r\n" + in_chunks(SMUGGLED),
}
METHODS = (b"GET", b"POST", b"DELETE")
SIZES = [1 << 20, 1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offer", [*UPGRADES, *HALF])
async def test_the_body_of_a_request_with_an_upgrade_is_no_request(offer, size):
    offered = {**UPGRADES, **HALF}[offer]
    async with serve_script(ANSWER, keepalive_s=0.2) as (relay, upstream):
        start = b"%b /healthz HTTP/1.1\r\nhost: localhost\r\n"
        cases = [(method, body) for method in METHODS for body in BODIES.values()]
        answers = await asyncio.gather(  # which are waited for until their connection is closed
            *(tell(relay.port, *pieces(start % m + offered + b, size)) for m, b in cases)
        )
        for (method, body), received in zip(cases, answers, strict=True):
            assert 1 == len(statuses(received)), (method, body, received)
            ok = method == b"GET" and offer != "websocket"
            assert (b" 200 OK" in received) == ok, received

    assert [] == upstream.calls


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offer", UPGRADES)
async def test_what_follows_a_request_with_an_upgrade_is_no_request(offer, size):
    async with serve_script(ANSWER) as (relay, upstream):
        for start in (b"", HEALTH + b"\r\n"):
            for body in (b"\r\n", b"content-length: 2\r\n\r\nab", BODIES["in chunks"]):
                asked = start + HEALTH + UPGRADES[offer] + body + SMUGGLED + SMUGGLED
                received = await tell(relay.port, *pieces(asked, size))

                last = 426 if offer == "websocket" else 200
                assert [*([200] if start else []), last] == statuses(received)

    assert [] == upstream.calls


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("offer", UPGRADES)
async def test_request_that_offers_an_upgrade_is_answered(offer, size):
    offered = UPGRADES[offer]
    chunked = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with serve_script(ANSWER) as (relay, upstream):
        for asked in (
            chat(offered[:-2]),
            chunked + offered + b"transfer-encoding: chunked\r\n\r\n" + in_chunks(BODY),
        ):
            received = await tell(relay.port, *pieces(asked, size))

            assert [200] == statuses(received)
            assert b'"completed"' in received
            assert b"connection: close" in received

    assert 2 == len(upstream.calls)


@pytest.mark.parametrize("target", [b"a.example:443", b"/healthz", b"http://a.example/"])
async def test_connect_is_refused_and_what_follows_is_no_request(target):
    async with serve_script(ANSWER) as (relay, upstream):
        for body in (b"\r\n" + SMUGGLED, *BODIES.values()):
            received = await tell(
                relay.port, b"CONNECT %b HTTP/1.1\r\nhost: localhost\r\n" % target + body
            )

            assert [405] == statuses(received)

    assert [] == upstream.calls


def post(*lines: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    head = (b"POST /v1/chat HTTP/" + version, b"host: localhost", b"content-type: application/json")
    return b"\r\n".join((*head, *lines, b"", body))


CHUNKED = b"transfer-encoding: chunked"
MALFORMED = {
    "coding that is not known": post(b"transfer-encoding: gzip, chunked", body=in_chunks(BODY)),
    "coding twice": post(CHUNKED, CHUNKED, body=in_chunks(BODY)),
    "coding in two fields": post(b"transfer-encoding: gzip", CHUNKED, body=in_chunks(BODY)),
    "coding after chunks": post(b"transfer-encoding: chunked, gzip", body=in_chunks(BODY)),
    "coding that is almost known": post(b"transfer-encoding: xchunked", body=in_chunks(BODY)),
    "identity": post(b"transfer-encoding: identity", body=BODY),
    "tab in the coding": post(b"transfer-encoding: \x0bchunked", body=in_chunks(BODY)),
    "space before the colon": post(b"transfer-encoding : chunked", body=in_chunks(BODY)),
    "coding in HTTP/1.0": post(CHUNKED, body=in_chunks(BODY), version=b"1.0"),
    "coding and length": post(CHUNKED, b"content-length: 3", body=in_chunks(BODY)),
    "length and coding": post(b"content-length: 3", CHUNKED, body=in_chunks(BODY)),
    "two lengths": post(b"content-length: 3", b"content-length: 4", body=b"abcd"),
    "one length twice": post(b"content-length: 3", b"content-length: 3", body=b"abc"),
    "lengths in one": post(b"content-length: 3, 3", body=b"abc"),
    "length with a sign": post(b"content-length: +3", body=b"abc"),
    "negative length": post(b"content-length: -3", body=b"abc"),
    "length in hexadecimal": post(b"content-length: 0x3", body=b"abc"),
    "huge length": post(b"content-length: 99999999999999999999999", body=b"abc"),
    "empty length": post(b"content-length:", body=b"abc"),
    "folded line": HEALTH + b"a: b\r\n c\r\n\r\n",
    "folded length": post(b"content-length:", b" 3", body=b"abc"),
    "bare LF": HEALTH.replace(b"\r\n", b"\n") + b"\n",
    "bare LF in a head": HEALTH + b"a: b\n\r\n",
    "bare CR in a head": HEALTH + b"a: b\rc: d\r\n\r\n",
    "NUL in a value": HEALTH + b"a: b\x00c\r\n\r\n",
    "NUL in a name": HEALTH + b"a\x00: b\r\n\r\n",
    "NUL in the target": b"GET /heal\x00thz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "space in the target": b"GET /healthz HTTP/1.1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "no name": HEALTH + b": b\r\n\r\n",
    "no colon": HEALTH + b"abc\r\n\r\n",
    "space in a name": HEALTH + b"a b: c\r\n\r\n",
    "no version": b"GET /healthz\r\nhost: localhost\r\n\r\n",
    "old version": b"GET /healthz HTTP/0.9\r\nhost: localhost\r\n\r\n",
    "new version": b"GET /healthz HTTP/2.0\r\nhost: localhost\r\n\r\n",
    "other version": b"GET /healthz HTTP/1.2\r\nhost: localhost\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "unknown method": b"FETCH /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "target without a path": b"GET http://a.example HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "target that is no ASCII": b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "257 fields": HEALTH + b"a: b\r\n" * 256 + b"\r\n",
    "30,000 fields": HEALTH + b"a:\r\n" * 30_000 + b"\r\n",
    "large value": HEALTH + b"a: " + b"b" * 200_000 + b"\r\n\r\n",
    "large name": HEALTH + b"a" * 200_000 + b": b\r\n\r\n",
    "large target": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "nothing but line ends": b"\r\n" * 100_000,
    "chunk without a size": post(CHUNKED, body=b"\r\nabc\r\n0\r\n\r\n"),
    "chunk with a sign": post(CHUNKED, body=b"+3\r\nabc\r\n0\r\n\r\n"),
    "chunk with 0x": post(CHUNKED, body=b"0x3\r\nabc\r\n0\r\n\r\n"),
    "chunk of too many": post(CHUNKED, body=b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
    "chunk with a bare LF": post(CHUNKED, body=b"3\nabc\n0\n\n"),
    "chunk with a space": post(CHUNKED, body=b"3 \r\nabc\r\n0\r\n\r\n"),
    "chunk that is longer": post(CHUNKED, body=b"3\r\nabcd\r\n0\r\n\r\n"),
    "LF in an extension": post(CHUNKED, body=b"3;a=b\nc\r\nabc\r\n0\r\n\r\n"),
    "large extension": post(CHUNKED, body=in_chunks(BODY, extension=b";" + b"a" * 50_000)),
    "many trailers": post(CHUNKED, body=in_chunks(BODY, *[b"a: b"] * 50_000)),
    "large trailer": post(CHUNKED, body=in_chunks(BODY, b"a: " + b"b" * 200_000)),
    "large name of a trailer": post(CHUNKED, body=in_chunks(BODY, b"a" * 200_000 + b": b")),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_no_request_is_refused_once_and_runs_nothing(name):
    async with serve_script(ANSWER) as (relay, upstream):
        for size in (1 << 20, 3000, *([1] if len(MALFORMED[name]) < 2000 else [])):
            received = await tell(relay.port, *pieces(MALFORMED[name] + SMUGGLED, size))

            assert [400] == statuses(received), received
            assert b"connection: close\r\n" in received
            assert b'"code":"invalid_request"' in received

    assert [] == upstream.calls


@pytest.mark.parametrize(
    "asked",
    [
        b"GET http://a.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"\r\n\r\n" + HEALTH + b"\r\n",
        HEALTH + b"a: b\r\n" * 200 + b"\r\n",
        HEALTH + b"content-length: 3\r\n\r\nabc",
        HEALTH + CHUNKED + b"\r\n\r\n" + in_chunks(b"abc", extension=b';a="b"'),
        HEALTH + b"transfer-encoding: Chunked\r\n\r\n" + in_chunks(b"abc", b"a: b"),
    ],
)
async def test_unusual_request_is_answered_and_others_after_it(asked):
    last = HEALTH + b"connection: close\r\n\r\n"
    async with serve_relay() as relay:
        for size in SIZES:
            received = await tell(relay.port, *pieces(asked * 2 + last, size))
            assert [200, 200, 200] == statuses(received)


# Fields after the body


@pytest.mark.parametrize("size", SIZES)
async def test_fields_after_the_body_are_none_of_the_request(size):
    asked = post(CHUNKED, body=in_chunks(BODY, b"x-request-id: smuggled", b"prefer: respond-async"))
    async with serve_script(ANSWER, keepalive_s=0.2) as (relay, _):
        received = await tell(relay.port, *pieces(asked, size))

    assert [200] == statuses(received)
    assert b"smuggled" not in received


ENDLESS = {
    "extension": b"3;a=" + b"b" * 200_000,
    "trailers": b"0\r\n" + b"a: b\r\n" * 50_000,
    "trailer": b"0\r\na: " + b"b" * 200_000,
}


@pytest.mark.parametrize("path", [b"/v1/chat", b"/nowhere", b"/healthz"])
@pytest.mark.parametrize("kind", ENDLESS)
async def test_what_is_no_piece_of_the_body_does_not_go_on_for_ever(kind, path):
    """Whether it is read, or has its answer already."""
    asked = post(CHUNKED, body=b"3\r\nabc\r\n").replace(b"/v1/chat", path) + ENDLESS[kind]
    async with serve_relay() as relay:
        assert 1 == len(statuses(await tell(relay.port, *pieces(asked, 1000))))


# Pipelined requests


async def test_pipelined_requests_are_answered_in_turn_and_few_begun_ahead():
    count, ahead = 1000, 0
    async with serve_relay(keepalive_s=0.1) as relay:
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        reading = asyncio.create_task(read_all(reader))
        asked = b"".join(HEALTH + b"x-request-id: n%d\r\n\r\n" % number for number in range(count))
        writer.write(asked)
        while not reading.done():
            connection: Any
            for connection in relay.server.server_state.connections:
                ahead = max(ahead, len(connection.pipeline))
            await asyncio.sleep(0)
        writer.close()

    received = reading.result()
    assert [200] * count == statuses(received)
    assert [b"n%d" % n for n in range(count)] == re.findall(rb"x-request-id: (\w+)", received)
    assert ahead < 300


async def test_requests_that_wait_for_a_stream_are_not_read_without_bound():
    flood = (HEALTH + b"\r\n") * 1_000_000
    async with serve_script([head(), send(text("one")), Hold()]) as (relay, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(chat(body=BODY.replace(b"false", b"true")))
        await reader.readuntil(b"text.delta")
        writer.write(flood)
        connection: Any
        (connection,) = relay.server.server_state.connections
        sent = -1

        def stands_still() -> bool:
            nonlocal sent
            before, sent = sent, len(flood) - writer.transport.get_write_buffer_size()
            return connection.flow.read_paused and before == sent

        await until(stands_still)

        assert len(connection.pipeline) < 300
        assert len(connection.flow.unparsed) < 2**20
        assert writer.transport.get_write_buffer_size() > len(flood) / 2
        writer.transport.abort()


# Refusals beside answers


async def test_what_is_no_request_does_not_get_its_refusal_before_anothers_answer():
    async with serve_script(ANSWER) as (relay, _):
        received = await tell(relay.port, chat() + b"nonsense\r\n\r\n")

    assert [200] == statuses(received)
    assert b'"completed"' in received


async def test_body_that_breaks_within_an_answer_cuts_it():
    """Nothing that is no piece of the answer is written into it."""
    asked = b"GET /v1/streams/%b/events HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    async with serve_script([head(), send(text("one")), Hold()]) as (relay, _):
        started = await relay.client.post(
            "/v1/chat",
            content=BODY.replace(b'"stream": false', b'"stream": true'),
            headers={"content-type": "application/json", "prefer": "respond-async"},
        )
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(asked % started.json()["id"].encode())
        received = await reader.readuntil(b"text.delta")
        writer.write(b"nonsense\r\n")
        received += await asyncio.wait_for(read_all(reader), 20)
        writer.close()

    assert [200] == statuses(received)
    assert not received.endswith(b"0\r\n\r\n")


# HTTP/1.0


@pytest.mark.parametrize("asked", [b"GET /healthz", b"GET /", b"GET /v1/models", b"HEAD /healthz"])
async def test_client_of_http_1_0_gets_the_same_body_without_chunks(asked):
    async with serve_relay() as relay:
        end = b" HTTP/%b\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        new, old = [await tell(relay.port, asked + end % v) for v in (b"1.1", b"1.0")]

    assert old.partition(b"\r\n\r\n")[2] == new.partition(b"\r\n\r\n")[2]
    assert b"transfer-encoding" not in old


@pytest.mark.parametrize("stream", [b"true", b"false"])
async def test_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection(stream):
    body = BODY.replace(b"false", stream)
    asked = chat(b"connection: keep-alive", body=body).replace(b"HTTP/1.1", b"HTTP/1.0")
    async with serve_script(ANSWER) as (relay, upstream):
        received = await tell(relay.port, asked + SMUGGLED)

    head_, _, body = received.partition(b"\r\n\r\n")
    assert [200] == statuses(received)
    assert b"transfer-encoding" not in head_
    assert b"connection: close" in head_
    assert body.startswith(b"retry: " if stream == b"true" else b"{")
    assert body.endswith(b"\n\n" if stream == b"true" else b"}")
    assert b"stream.end" in body or stream == b"false"
    assert 1 == len(upstream.calls)


async def test_a_long_path_is_refused_before_it_is_decoded_and_a_long_query_is_not():
    """Nobody needs a key for that; decoding 60 KB takes 5 ms."""
    escapes = b"%20" * 20_000
    async with serve_relay() as relay:
        for path, status, words in (
            (
                b"/" + escapes,
                400,
                b"the path of the request is larger than the limit of 4096 bytes",
            ),
            (b"/healthz?" + escapes, 200, b""),
            (b"/" + b"a" * 4095, 404, b""),
        ):
            head = b"GET %b HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n" % path
            answer = await tell(relay.port, head)
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert words in answer
        for upgrade in UPGRADES.values():
            head = b"GET /v1/responses%b HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (escapes, upgrade)
            assert (await tell(relay.port, head)).startswith(b"HTTP/1.1 400 ")

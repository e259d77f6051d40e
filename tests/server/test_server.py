"""The server's connections, from outside."""

import asyncio
import contextlib
import socket

import app.server.server
from app.testing.upstream import DONE, FINISH, Until, head, send, serve_upstream, text
from tests.clock import Clock
from tests.hostile import chat, read_all, statuses
from tests.serving import Relay, serve_relay
from tests.waiting import until

ASK = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def kept(relay: Relay) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection that has been answered once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
    writer.write(ASK)
    await reader.readuntil(b'"ok"}')
    return reader, writer


async def test_kept_connection_is_closed_after_its_time():
    async with serve_relay(keepalive_s=0.05) as relay:
        reader, writer = await kept(relay)

        assert b"" == await asyncio.wait_for(reader.read(), 20)
        writer.close()


async def test_what_is_on_its_way_when_a_stop_begins_is_answered_as_the_last(monkeypatch):
    """On connections that proxies keep, which send no POST again after a 503."""
    monkeypatch.setattr(app.server.server, "ON_ITS_WAY_S", 600)
    clock = Clock(monkeypatch)
    async with serve_relay(replicas=True) as relay, contextlib.AsyncExitStack() as opened:
        idle, asks, halfway = [await kept(relay) for _ in range(3)]
        fresh = await asyncio.open_connection("127.0.0.1", relay.port)
        for _, writer in (idle, asks, halfway, fresh):
            opened.callback(writer.close)
        halfway[1].write(chat()[:-1])
        await until(lambda: len(relay.server.server_state.connections) == 4)
        relay.server.stop()
        await until(lambda: not relay.server.servers[0].is_serving())
        async with asyncio.timeout(20):
            asks[1].write(chat())
            fresh[1].write(chat())
            halfway[1].write(chat()[-1:])
            answers = [await read_all(reader) for reader, _ in (asks, halfway, fresh)]
        await clock.pass_(700)
        assert b"" == await asyncio.wait_for(idle[0].read(), 20)

    for answer in answers:
        assert [200] == statuses(answer)
        assert b"\r\nconnection: close\r\n" in answer
        assert b'"status":"completed"' in answer


async def test_idle_connections_close_one_after_another_when_a_stop_begins(monkeypatch):
    """A proxy reuses the one that it used last, so that is the last, and takes a POST till then."""
    monkeypatch.setattr(app.server.server, "ON_ITS_WAY_S", 600)
    clock, closed = Clock(monkeypatch), list[int]()
    async with serve_relay(replicas=True) as relay, contextlib.AsyncExitStack() as opened:
        connections = []
        for _ in range(4):
            connections.append(await kept(relay))
            opened.callback(connections[-1][1].close)
            await clock.pass_(1)
        first = connections.pop(0)
        first[1].write(ASK)  # again, after the others
        await first[0].readuntil(b'"ok"}')
        connections.append(first)
        relay.server.stop()
        await until(lambda: not relay.server.servers[0].is_serving())
        for number, (reader, _) in enumerate(connections[:-1]):
            assert not any(reader.at_eof() for reader, _ in connections[number:])
            await clock.pass_(150)
            assert b"" == await asyncio.wait_for(reader.read(), 20)
            closed.append(number)
        first[1].write(chat())
        answer = await asyncio.wait_for(read_all(first[0]), 20)
        await clock.pass_(700)

    assert [0, 1, 2] == closed
    assert [200] == statuses(answer)
    assert b"\r\nconnection: close\r\n" in answer


async def test_connection_closes_after_an_answer_that_had_begun_when_the_stop_began(monkeypatch):
    """A proxy that kept it would send the next POST there, which is refused by then."""
    monkeypatch.setattr(app.server.server, "ON_ITS_WAY_S", 600)
    clock, over = Clock(monkeypatch), Until()
    async with serve_upstream() as upstream, serve_relay(upstream, replicas=True) as relay:
        upstream.script = [head(), send(text("so far")), over, send(FINISH + DONE)]
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(chat(body=b'{"messages":[{"role":"user","content":"hi"}],"model":"openai/m"}'))
        begun = await reader.readuntil(b"so far")
        relay.server.stop()
        await until(lambda: not relay.server.servers[0].is_serving())
        over.told.set()
        answer = begun + await asyncio.wait_for(read_all(reader), 20)
        writer.close()
        await clock.pass_(700)

    assert b"\r\nconnection: close\r\n" not in answer
    assert b'"status":"completed"' in answer


async def test_connection_that_is_just_made_when_a_stop_begins_is_answered_as_the_last(monkeypatch):
    """The system has accepted it, and the relay has not looked yet."""
    monkeypatch.setattr(app.server.server, "ON_ITS_WAY_S", 600)
    clock = Clock(monkeypatch)
    async with serve_relay(replicas=True) as relay:
        made = socket.create_connection(("127.0.0.1", relay.port), timeout=20)
        made.sendall(chat())
        relay.server.stop()
        await relay.server.on_tick(1)
        reader, writer = await asyncio.open_connection(sock=made)
        answer = await asyncio.wait_for(read_all(reader), 20)
        writer.close()
        await clock.pass_(700)

    assert [200] == statuses(answer)
    assert b"\r\nconnection: close\r\n" in answer

"""Connections to Redis that break at every byte, under uvloop: every command gets an answer."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple

import pytest
import uvloop

from app.eventlog.redis.address import RedisAddress
from app.eventlog.redis.link import REPLY_S, Away, CommandRefused, Link
from app.eventlog.redis.scripts import CREATE
from tests.redis_server import RedisServer, Wire, serve_wire
from tests.waiting import until

pytestmark = pytest.mark.proving

How = Literal["drop", "reset", "hang"]
AT_ONCE = 100
BOUND_S = 60.0
"""Five times as long as three tries, each of which may take a reply's time and a connection's."""


class Cut(NamedTuple):
    """What happens to the connection of this number: at so many bytes, to Redis or from it."""

    connection: int
    upward: bool
    at: int
    how: How


class BreakingWire(Wire):
    """A wire whose connections break where they are told to."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.break_at: Cut | None = None
        self.passed = {True: 0, False: 0}

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *flows: asyncio.Event
    ) -> None:
        number, upward, passed = self.connections, len(flows) == 1, 0
        with suppress(OSError):
            while data := await reader.read(65536):
                cut = self.break_at
                here = cut is not None and (cut.connection, cut.upward) == (number, upward)
                if cut is not None and here and passed + len(data) >= cut.at:
                    writer.write(data[: max(0, cut.at - passed)])
                    await asyncio.sleep(0.01)
                    if cut.how == "hang":
                        await asyncio.Event().wait()
                    if cut.how == "reset":
                        self.reset()
                    break
                passed += len(data)
                self.passed[upward] = passed
                writer.write(data)
                await writer.drain()
        # Only this connection: a link that found it slow may have made another already.
        writer.transport.abort()

    def reset(self) -> None:
        """Reset all connections."""
        for writer in list(self._open):
            reset(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side sees a reset, not an end."""
    if not writer.is_closing():
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


@asynccontextmanager
async def proxied(server: RedisServer) -> AsyncIterator[tuple[BreakingWire, Link]]:
    async with serve_wire(BreakingWire(server.port)) as wire:
        link = Link(RedisAddress(wire.url).connect, quiet=True)
        await link.open()
        try:
            yield wire, link
        finally:
            await link.close()


async def ask(link: Link) -> None:
    """Send what gives an integer, a text and a list; each has to be answered, and rightly."""
    replies = [
        link.run(CREATE, ["meta", "log"], "owner", 1, "0", 10**6, 10**6),
        link.send("GET", "nothing"),
        link.send("HMGET", "meta", "owner", "epoch"),
    ]
    results = await asyncio.gather(*replies, return_exceptions=True)
    for result, right in zip(results, (1, None, [b"owner", b"1"]), strict=True):
        assert result == right or isinstance(result, (Away, CommandRefused)), result


async def survive(server: RedisServer, cut: Cut) -> None:
    async with proxied(server) as (wire, link), asyncio.timeout(BOUND_S):
        wire.break_at = cut
        if cut.connection == 2:  # so the first one breaks where it does not matter
            wire.reset()
            await asyncio.sleep(0)
        await ask(link)
        wire.break_at = None

        async def answers() -> bool:
            with suppress(Away, CommandRefused):
                return b"PONG" == await link.send("PING")
            return False

        await until(answers, limit_s=BOUND_S)


async def lengths(server: RedisServer) -> tuple[dict[bool, int], dict[bool, int]]:
    """Return how many bytes pass until a connection is made, and until all is answered."""
    async with proxied(server) as (wire, link):
        made = dict(wire.passed)
        await ask(link)
        return made, dict(wire.passed)


async def survive_all(server: RedisServer, cuts: list[Cut]) -> None:
    for some in (cuts[at : at + AT_ONCE] for at in range(0, len(cuts), AT_ONCE)):
        await asyncio.gather(*(survive(server, cut) for cut in some))


@pytest.mark.parametrize("upward", [False, True])
@pytest.mark.parametrize("how", ["drop", "reset"])
def test_connection_that_breaks_at_any_byte_of_what_is_asked_or_answered(
    server,
    how,
    upward,
    impatient,
):
    impatient()

    async def run() -> None:
        made, whole = await lengths(server)
        places = range(made[upward], whole[upward] + 1)
        await survive_all(server, [Cut(1, upward, place, how) for place in places])

    uvloop.run(run())


def test_connection_that_breaks_while_it_is_made(server, impatient):
    impatient()

    async def run() -> None:
        made, _ = await lengths(server)
        # Redis answers alike to each script, with 47 bytes: at all places of the first answers,
        # and at each place of an answer in some of the others.
        places = (*range(100), *range(100, made[False], 5), made[False])
        cuts = [Cut(2, False, place, "reset") for place in places]
        cuts += [Cut(2, True, place, "reset") for place in range(0, made[True], 101)]
        await survive_all(server, cuts)

    uvloop.run(run())


def test_connection_that_is_a_black_hole_from_any_byte_on(server, impatient):
    impatient()

    async def run() -> None:
        made, whole = await lengths(server)
        cuts = [
            Cut(1, up, at, "hang") for up in (True, False) for at in range(made[up], whole[up], 9)
        ]
        cuts += [Cut(2, False, place, "hang") for place in range(0, made[False], 60)]
        await survive_all(server, cuts)

    uvloop.run(run())


@pytest.mark.parametrize("kind", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_answer_that_came_while_the_process_stood_still_is_read(server, kind):
    async def run() -> None:
        link = Link(RedisAddress(server.url).connect, quiet=True)
        await link.open()
        try:
            connection = link._connection
            for _ in range(3):
                answer = link.send("BLPOP", "nothing", "0.3")
                for _ in range(10):  # turns, in which it is sent
                    await asyncio.sleep(0)
                time.sleep(REPLY_S + 0.2)  # noqa: ASYNC251  (as of a process that is stopped)

                assert None is await answer
                assert connection is link._connection
        finally:
            await link.close()

    with asyncio.Runner(loop_factory=kind) as runner:
        runner.run(run())


@pytest.mark.parametrize("wait_s", [0, 0.001, 0.01, 0.1])
def test_connection_that_broke_while_nothing_was_asked(server, wait_s):
    """Then uvloop's transport has been closed, and raises `RuntimeError` at what is sent."""

    async def run() -> None:
        async with proxied(server) as (wire, link), asyncio.timeout(BOUND_S):
            for _ in range(3):
                wire.reset()
                await asyncio.sleep(wait_s)
                await ask(link)
            assert b"PONG" == await link.send("PING")

    uvloop.run(run())

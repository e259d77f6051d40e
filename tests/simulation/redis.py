"""A Redis in this process: fakeredis behind RESP, with the relay's own scripts in Lua.

It serves the simulated network, and real sockets for `tests/eventlog/test_fake_redis.py`, which
holds it against the contract that the real one keeps.
"""

import asyncio
import contextlib
import copy
from collections.abc import Callable
from hashlib import sha1
from typing import Any

import fakeredis
import hiredis
from fakeredis._helpers import SimpleError, SimpleString
from fakeredis._socket._fakesocket import FakeSocket
from redis.asyncio import Connection

from .lua import Lua

_LUA = Lua()


class _Session(FakeSocket):
    """Runs the commands of one connection, and returns their replies instead of queueing them."""

    reply: Any = None

    def put_response(self, msg: Any) -> None:
        self.reply = msg

    def _decode_result(self, result: Any) -> Any:
        return result

    def run(self, command: list[bytes]) -> Any:
        self.reply = None
        self._process_command(command)
        return self.reply


class FakeRedis:
    """One server, whose data can be put back to an earlier time, as by a failover."""

    def __init__(self) -> None:
        self._server = fakeredis.FakeServer(version=(7, 4))
        self.runs = False
        """Whether a command is running."""
        self._run_id = 1
        self._loaded: set[bytes] = set()
        # Dictionaries have an order, sets of objects have none that repeats.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._writers: dict[asyncio.StreamWriter, None] = {}

    def copy(self) -> dict[int, Any]:
        """Return all data as of now."""
        return {number: copy.deepcopy(dict(db._dict)) for number, db in self._server.dbs.items()}

    def fail_over(self, data: dict[int, Any]) -> None:
        """Go on as another server with this data; all connections break."""
        for number, values in data.items():
            self._server.dbs[number]._dict.clear()
            self._server.dbs[number]._dict.update(values)
        self._loaded.clear()
        self._run_id += 1
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        """Break all connections, and wait for their ends."""
        for writer in list(self._writers):
            writer.transport.abort()
        while self._writers:  # noqa: ASYNC110  (a few turns of the loop)
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the commands of one connection."""
        session = _Session(self._server, 0, client_class=Connection)
        parser = hiredis.Reader()
        self._writers[writer] = None
        try:
            while data := await reader.read(65_536):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    writer.write(encode(await self._answer(session, command)))
        except ConnectionError:
            pass
        finally:
            del self._writers[writer]
            writer.close()

    async def _answer(self, session: _Session, command: list[bytes]) -> Any:
        name = command[0].upper()
        if name == b"INFO":
            return (
                f"redis_version:7.4.0\r\nrole:master\r\nrun_id:{self._run_id:040x}\r\n"
                "maxmemory_policy:noeviction\r\n"
            ).encode()
        if name == b"XREAD" and b"BLOCK" in command:
            return await self._read_blocking(session, command)
        if name == b"SCRIPT":  # LOAD
            sha = sha1(command[2]).hexdigest().encode()  # noqa: S324  (of Redis)
            _LUA.load(sha, command[2])
            self._loaded.add(sha)
            return sha
        if name == b"EVALSHA":
            if command[1] not in self._loaded:
                return SimpleError("NOSCRIPT No matching script. Please use EVAL.")
            count = 3 + int(command[2])
            keys, values = command[3:count], command[count:]
            reply = self._run(lambda: _LUA.run(command[1], keys, values, session.run))
        else:
            reply = self._run(lambda: session.run(command))
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        return reply

    def _run(self, work: Callable[[], Any]) -> Any:
        self.runs = True
        try:
            return work()
        finally:
            self.runs = False

    async def _read_blocking(self, session: _Session, command: list[bytes]) -> Any:
        """Read as soon as there is something: another connection's command wakes this one."""
        at = command.index(b"BLOCK")
        left_ms = int(command[at + 1])
        command = command[:at] + command[at + 2 :]
        loop = asyncio.get_running_loop()
        until = loop.time() + left_ms / 1000
        streams = command.index(b"STREAMS") + 1
        half = (len(command) - streams) // 2
        for place in range(streams + half, len(command)):
            if command[place] == b"$":  # what comes from now on
                last = session.run(
                    [b"XREVRANGE", command[place - half], b"+", b"-", b"COUNT", b"1"]
                )
                command[place] = last[0][0] if last else b"0-0"
        while True:
            reply = self._run(lambda: session.run(command))
            if reply or loop.time() >= until:
                return reply or None
            waiter: asyncio.Future[None] = loop.create_future()
            self._waiters[waiter] = None
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await waiter
            finally:
                del self._waiters[waiter]


def encode(reply: Any) -> bytes:
    """Encode a reply in RESP 2."""
    match reply:
        case None:
            return b"*-1\r\n" if reply is None else b"$-1\r\n"
        case SimpleError():
            return b"-%b\r\n" % reply.value.encode()
        case SimpleString():
            return b"+%b\r\n" % reply.value
        case bool():
            return b":%d\r\n" % reply
        case int():
            return b":%d\r\n" % reply
        case float():
            return encode(repr(reply).encode())
        case str():
            return encode(reply.encode())
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(reply), reply)
        case list() | tuple():
            return b"*%d\r\n" % len(reply) + b"".join(map(encode, reply))
    raise TypeError(f"no reply of Redis: {reply!r}")

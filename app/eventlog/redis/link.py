"""One connection to Redis, with commands in order; it reconnects when it breaks.

Callers never touch the connection: a task cancelled in the middle of a command would leave its
reply for the next one. Commands that come during a round trip are sent together in the next. All
commands are idempotent, and are sent again over the next connection if theirs broke. Timeouts
ignore the time for which the event loop was blocked.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import hiredis
import structlog
from redis.asyncio import Connection
from redis.exceptions import (
    ClusterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from ..supervision import Supervisor
from .scripts import SCRIPTS, Script

LATE_S = 0.1
"""A timer that fires so late means that the loop was blocked, and replies may be unread."""


class Timer:
    """Calls `act` after a delay; if the loop was blocked at its end, it waits once more."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        self._seconds = seconds
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._waited_again = False
        self._arm()

    def cancel(self) -> None:
        """Cancel the call."""
        self._handle.cancel()

    def _arm(self) -> None:
        self._due = self._loop.time() + self._seconds
        self._handle = self._loop.call_at(self._due, self._check)

    def _check(self) -> None:
        if self._loop.time() - self._due > LATE_S and not self._waited_again:
            self._waited_again = True
            self._arm()
        else:
            self._act()


class Timeout:
    """An `asyncio.timeout` on a `Timer`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._bound = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._bound.__aenter__()
        loop = asyncio.get_running_loop()
        self._timer = Timer(self._seconds, lambda: self._bound.reschedule(loop.time()))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        await self._bound.__aexit__(kind, error, trace)


REPLY_S = 1.0
"""The time limit of a round trip."""

CONNECT_S = 2.0
"""The time limit of a connection, with everything before the first command."""

OPEN_S = 10.0
"""How long a Redis that does not answer is tried at the start: it may be starting, too."""

GRACE_S = 0.5
"""Redis is away if it was not reconnected after so long: nothing waits for it."""

RETRY_S = 0.05
RETRY_MOST_S = 0.5
"""The pause before a new connection; it doubles up to the maximum."""

TRIES = 3
"""How many connections may break over a command."""

_BROKEN = (RedisError, OSError, TimeoutError, EOFError, RuntimeError)
"""The errors of a broken connection; the last is uvloop's ("the handler is closed")."""

SLOW = (TimeoutError, RedisTimeoutError)
"""Timeouts: redis-py has its own."""

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)

_OTHER = (ReadOnlyError, NoScriptError, ClusterDownError)
"""Errors of a server that was replaced, or is no longer the master."""

_FULL = ("NOREPLICAS", "MISCONF")
"""Errors of a server that takes no writes for now, besides a full memory."""

Part = bytes | str | int

log = structlog.get_logger("seseragi.eventlog")


class Away(Exception):
    """Redis cannot be reached."""


class CommandRefused(Exception):
    """Redis refused a command; `full`: it takes no writes for now; `memory`: it has none left."""

    def __init__(self, text: str, *, full: bool = False, memory: bool = False) -> None:
        super().__init__(text)
        self.full = full
        self.memory = memory


class Broken(CommandRefused):
    """Several connections broke over a command: Redis may have done it, or may do it yet."""


class _Ask:
    __slots__ = ("packed", "reply", "tries")

    def __init__(self, packed: bytes, reply: "asyncio.Future[Any]") -> None:
        self.packed = packed
        self.reply = reply
        self.tries = 0


class Link:
    """Sends commands over one connection at a time; `connect` makes one, not yet connected.

    `on_up` is called with every new connection, before any command; `on_away` when it was broken
    for `GRACE_S`. A `quiet` link does not log that. A reply may take `REPLY_S` and `slow_s`.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        on_up: Callable[[], None] = lambda: None,
        on_away: Callable[[], None] = lambda: None,
        slow_s: float = 0,
        quiet: bool = False,
    ) -> None:
        self._connect = connect
        self._on_up = on_up
        self._on_away = on_away
        self._reply_s = REPLY_S + slow_s
        self._log = log.debug if quiet else log.warning
        self._waiting: list[_Ask] = []
        self._due = asyncio.Event()
        self._connection: Connection | None = None
        self._tasks = Supervisor()
        self._timer: Timer | None = None
        self.run_id = b""
        """The id of the last server, which a restart changes."""
        self.away = False
        self.replaced_at = float("-inf")
        """When another server, or a restarted one, was connected to, by the loop's clock."""
        self.changed_at = float("-inf")
        """When Redis was last lost or back after that, or replaced."""

    async def open(self) -> None:
        """Connect; a connection that takes too long is tried again for `OPEN_S`.

        Raises:
            RedisError, OSError, TimeoutError: Redis cannot be reached.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + OPEN_S
        while True:
            try:
                await self._make()
                break
            except SLOW:
                if loop.time() > until:
                    raise
                self._log("Redis does not answer yet; trying again")
                await asyncio.sleep(RETRY_S)
        self._tasks.keep("redis link", self._keep, on_failure=self._lost)

    async def close(self) -> None:
        """Close; pending commands raise `Away`."""
        await self._tasks.close()
        if self._timer is not None:
            self._timer.cancel()
        self.away = True
        await self._break()
        self._fail_waiting()

    @property
    def healthy(self) -> bool:
        """Whether it is connected, or was a moment ago."""
        return not self.away and self._tasks.healthy

    def send(self, *parts: Part) -> "asyncio.Future[Any]":
        """Send a command.

        The reply is as hiredis reads it. Cancelling the wait for it does not cancel the command.
        Its errors are `Away` and `CommandRefused`.
        """
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.away:
            _fail(reply, Away())
        else:
            packed = hiredis.pack_command(parts)  # type: ignore[arg-type]  # of any length
            self._waiting.append(_Ask(packed, reply))
            self._due.set()
        return reply

    def run(self, script: Script, keys: Sequence[str], *parts: Part) -> "asyncio.Future[Any]":
        """Send a script with its keys and arguments."""
        return self.send("EVALSHA", script.sha, len(keys), *keys, *parts)

    # The task that keeps the connection

    async def _keep(self) -> None:
        try:
            await self._keep_connected()
        finally:  # later replies would belong to no command
            await self._break()

    async def _keep_connected(self) -> None:
        pause = RETRY_S
        while True:
            try:
                if self._connection is None or self._timer is not None or self.away:
                    await self._break()
                    await self._make()
                    self._back()
                pause = RETRY_S
                await self._serve()
            except _BROKEN as error:
                self._lost(error)
                await self._break()
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_MOST_S)

    async def _make(self) -> None:
        connection = self._connect()
        try:
            async with Timeout(CONNECT_S):
                await connection.connect()  # type: ignore[no-untyped-call]
                for script in SCRIPTS:
                    await connection.send_command("SCRIPT", "LOAD", script.text)
                await connection.send_command("INFO", "server")
                for _ in SCRIPTS:
                    await connection.read_response()
                run = _RUN_ID.search(await connection.read_response())
        except BaseException:
            await _drop(connection)
            raise
        self._connection = connection
        run_id = run[1] if run is not None else b""
        if run_id != self.run_id and self.run_id:
            self.replaced_at = self.changed_at = asyncio.get_running_loop().time()
        self.run_id = run_id

    async def _serve(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            asks, self._waiting = self._waiting, []
            try:
                async with Timeout(self._reply_s):
                    await self._round_trip(asks)
            except BaseException as error:
                self._again(asks, error)
                raise

    async def _round_trip(self, asks: Iterable[_Ask]) -> None:
        assert self._connection is not None  # noqa: S101  (for mypy)
        read = self._connection.read_response
        packed = b"".join([ask.packed for ask in asks])
        await self._connection.send_packed_command(packed, check_health=False)
        for ask in asks:
            try:
                reply = await read()
            except ResponseError as error:
                if isinstance(error, _OTHER) or str(error).startswith("UNBLOCKED"):
                    raise
                memory = isinstance(error, OutOfMemoryError)
                full = memory or str(error).startswith(_FULL)
                _fail(ask.reply, CommandRefused(str(error), full=full, memory=memory))
                continue
            if not ask.reply.done():
                ask.reply.set_result(reply)

    def _again(self, asks: Iterable[_Ask], error: BaseException) -> None:
        """Keep unanswered commands for the next connection, up to `TRIES`."""
        kept = []
        for ask in asks:
            ask.tries += 1
            if ask.reply.done():
                continue
            if ask.tries >= TRIES:
                _fail(ask.reply, Broken(repr(error)))
            else:
                kept.append(ask)
        self._waiting = kept + self._waiting
        if self._waiting:
            self._due.set()

    async def _break(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await _drop(connection)

    # Away and back

    def _lost(self, error: BaseException) -> None:
        if self._timer is None and not self.away:
            self._log("connection to Redis lost", error=type(error).__name__)
            self._timer = Timer(GRACE_S, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        self.away = True
        self.changed_at = asyncio.get_running_loop().time()
        self._log("Redis is away")
        self._fail_waiting()
        self._on_away()

    def _back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.away:
            self._log("Redis is back")
            self.changed_at = asyncio.get_running_loop().time()
        self.away = False
        self._on_up()

    def _fail_waiting(self) -> None:
        asks, self._waiting = self._waiting, []
        for ask in asks:
            _fail(ask.reply, Away())


def _fail(reply: "asyncio.Future[Any]", error: Exception) -> None:
    if not reply.done():
        reply.set_exception(error)
        reply.exception()  # it need not be retrieved


async def _drop(connection: Connection) -> None:
    with contextlib.suppress(*_BROKEN):
        await connection.disconnect(nowait=True)

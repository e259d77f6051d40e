"""Logs of processes over one Redis, and what may become of such a process."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from app.eventlog import cursor_after
from app.eventlog.redis.account_scripts import HOLDS
from app.eventlog.redis.address import RedisAddress
from app.eventlog.redis.log import RedisLog
from app.eventlog.redis.scripts import OWNERS, meta_key
from app.events import Event, StreamEnd
from tests.eventlog.contract import LIMITS
from tests.eventlog.creating import take_callbacks
from tests.redis_server import RedisServer

LEASE_S = 0.6
"""Of processes that look after others: they do so three times in it."""
STEADY_S = 6
"""Of a process that lives, also on a machine that stands still for seconds."""


@asynccontextmanager
async def opened(url: str, *, lease_s: float = 15, **arguments: Any):
    callbacks = take_callbacks(arguments)
    event_log = RedisLog(
        RedisAddress(f"{url}?lease_s={lease_s}"), **{**LIMITS, "redis_time": False, **arguments}
    )
    await event_log.open(**callbacks)
    try:
        yield event_log
    finally:
        await event_log.close()


@asynccontextmanager
async def pair(url: str, lease_s: float = STEADY_S, **arguments: Any):
    """The logs of two processes."""
    async with (
        opened(url, lease_s=lease_s, **arguments) as first,
        opened(url, lease_s=lease_s, **arguments) as second,
    ):
        yield first, second


@asynccontextmanager
async def watched(url: str, **arguments: Any):
    """The log of one process that lives, and of another that looks after it."""
    async with (
        opened(url, lease_s=STEADY_S, **arguments) as first,
        opened(url, lease_s=LEASE_S, **arguments) as second,
    ):
        yield first, second


async def read_to_end(event_log: Any, stream: str = "st_1", after: int = 0) -> list[Event]:
    events: list[Event] = []
    async with asyncio.timeout(60):
        while not events or not isinstance(events[-1], StreamEnd):
            read = await event_log.read(stream, after, timeout_s=1)
            events += read
            after = cursor_after(after, read)
    return events


def freeze(event_log: RedisLog) -> None:
    """Let a process do nothing more, as one does that is killed or stopped."""
    event_log._owner._tasks.stop()
    event_log._tails._tasks.stop()


def outlive(server: RedisServer, event_log: RedisLog) -> None:
    """Have what a process holds in Redis be over, as it is when it has not spoken for long."""
    server.ask("ZADD", OWNERS, "0", event_log._lease.owner)
    for stream in event_log._owner.streams:
        server.ask("HSET", meta_key(stream), "lease", "0")
        server.ask("ZADD", HOLDS, "XX", "0", stream)


def lose(server: RedisServer, event_log: RedisLog) -> None:
    """Let a process do nothing more, for longer than its leases hold."""
    freeze(event_log)
    outlive(server, event_log)


def field(server: RedisServer, stream: str, name: str) -> int:
    """Return a time of what Redis has of a stream, in milliseconds."""
    said = server.ask("HGET", meta_key(stream), name).split(b"\r\n")
    return int(said[1]) if len(said) > 2 else 0

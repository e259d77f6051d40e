"""Builds the log for a URL: `memory`, `sqlite:///PATH`, `redis...`, or one of a package.

The packages of Redis are imported only for a URL of Redis.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..clock import SYSTEM, Clock
from ..plugins import Registry
from .accounts import MemoryAccounts
from .contract import LogParts
from .memory import MemoryLog
from .recovery import Close
from .sqlite.database import prepare
from .sqlite.log import SqliteLog
from .stream_ended import StreamEnded
from .waiting_rows import RECORDS, MemoryRows

if TYPE_CHECKING:
    from .redis.log import RedisLog


class LogRefused(ValueError):
    """The settings do not allow a log; the message names the setting, in one line."""


def build_log(
    url: str,
    *,
    workers: int,
    retention_s: float,
    max_bytes: int,
    max_stream_bytes: int,
    max_stream_events: int,
    clock: Clock = SYSTEM,
    queues: Sequence[str] = (RECORDS,),
) -> LogParts:
    """Build the log at a URL for one of so many workers, unopened.

    `queues` are those of the rows of ended streams.

    Raises:
        LogRefused: the URL cannot be used, or needs a package that is not installed, or
            workers cannot share the log.
    """
    options: dict[str, Any] = {
        "retention_s": retention_s,
        "max_bytes": max_bytes,
        "max_stream_bytes": max_stream_bytes,
        "max_stream_events": max_stream_events,
        "queues": queues,
    }
    build = LOGS.find(url.partition(":")[0])
    return build(url, workers=workers, clock=clock, **options)


def prepare_log(
    url: str,
    *,
    on_orphans: Callable[[Sequence[StreamEnded]], None],
    close: Close,
    queues: Sequence[str] = (RECORDS,),
) -> None:
    """Prepare a log for several workers, ending streams that an earlier life left running.

    `close` prices them; `on_orphans` receives them.

    Raises:
        LogUnusable: the storage cannot be used.
    """
    kind, _, path = url.partition(":///")
    if kind == "sqlite":
        now = time.time()
        prepare(Path(path), now=now, on_orphans=on_orphans, close=close, queues=queues)


class BuildLog(Protocol):
    """Builds the log at a URL of one scheme."""

    def __call__(self, url: str, *, workers: int, clock: Clock, **options: Any) -> LogParts:
        """Return the log for one of so many workers, unopened.

        `options` are the bounds of `build_log`, which `MemoryLog` describes, and its `queues`.

        Raises:
            LogRefused: the URL cannot be used, or workers cannot share the log.
        """


def _build_memory(
    url: str, *, workers: int, clock: Clock, queues: Sequence[str] = (RECORDS,), **options: Any
) -> LogParts:
    if workers > 1:
        raise LogRefused(
            f"workers: {workers} processes cannot share a log in memory; "
            "use --log sqlite:///PATH or --log redis://HOST/DB"
        )
    accounts = MemoryAccounts(MemoryRows(clock.monotonic, queues))
    memory = MemoryLog(**options, accounts=accounts, now=clock.monotonic, wall=clock.wall)
    return LogParts(memory, accounts, accounts.rows)


def _build_sqlite(url: str, *, workers: int, clock: Clock, **options: Any) -> LogParts:
    path = url.removeprefix("sqlite:///")
    sqlite = SqliteLog(path, **options, wall=clock.wall, shared=workers > 1)
    if workers > 1:
        return LogParts(sqlite, sqlite, sqlite, peers=sqlite, broadcast=sqlite, takeover=sqlite)
    return LogParts(sqlite, sqlite, sqlite, takeover=sqlite)


def _build_redis(url: str, *, workers: int, clock: Clock, **options: Any) -> LogParts:
    redis = _redis_at(url)(**options, wall=clock.wall)
    return LogParts(redis, redis, redis, peers=redis, broadcast=redis, takeover=redis)


LOGS: Final[Registry[BuildLog]] = Registry(
    "log",
    {
        "memory": _build_memory,
        "sqlite": _build_sqlite,
        "redis": _build_redis,
        "rediss": _build_redis,
        "redis+sentinel": _build_redis,
        "rediss+sentinel": _build_redis,
    },
    group="seseragi.logs",
    is_part=callable,
    wants="a function like seseragi.eventlog.opening.BuildLog",
)
"""The logs by the schemes of their URLs."""


def _redis_at(url: str) -> "Callable[..., RedisLog]":
    try:
        from .redis.address import RedisAddress
        from .redis.log import RedisLog
    except ImportError:
        raise LogRefused(
            "log: Redis needs a package that is not installed; "
            "in the checkout: pip install '.[redis]'"
        ) from None
    try:
        return partial(RedisLog, RedisAddress(url))
    except ValueError as error:
        raise LogRefused(f"log: the URL of Redis cannot be used: {error}") from None

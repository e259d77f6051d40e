"""Builds the log for a URL: `memory`, `sqlite:///PATH`, or `redis...`.

The packages of Redis are imported only for a URL of Redis.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..clock import SYSTEM, Clock
from .accounts import MemoryAccounts
from .contract import LogParts
from .memory import MemoryLog
from .recovery import Close
from .sqlite.database import prepare
from .sqlite.log import SqliteLog
from .stream_ended import StreamEnded
from .waiting_rows import MemoryRows

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
) -> LogParts:
    """Build the log at a URL for one of so many workers, unopened.

    Raises:
        LogRefused: the URL cannot be used, or needs a package that is not installed, or
            workers cannot share the log.
    """
    options: dict[str, Any] = {
        "retention_s": retention_s,
        "max_bytes": max_bytes,
        "max_stream_bytes": max_stream_bytes,
        "max_stream_events": max_stream_events,
        "wall": clock.wall,
    }
    kind, _, path = url.partition(":///")
    if url.startswith("redis"):
        redis = _redis_at(url)(**options)
        return LogParts(redis, redis, rows=redis, peers=redis, broadcast=redis)
    if kind != "sqlite":
        if workers > 1:
            raise LogRefused(
                f"workers: {workers} processes cannot share a log in memory; "
                "use --log sqlite:///PATH or --log redis://HOST/DB"
            )
        accounts = MemoryAccounts(MemoryRows(clock.monotonic))
        memory = MemoryLog(**options, accounts=accounts, now=clock.monotonic)
        return LogParts(memory, accounts, accounts.rows)
    sqlite = SqliteLog(path, **options, shared=workers > 1)
    if workers > 1:
        return LogParts(sqlite, sqlite, rows=sqlite, peers=sqlite, broadcast=sqlite)
    return LogParts(sqlite, sqlite, sqlite)


def prepare_log(
    url: str, *, on_orphans: Callable[[Sequence[StreamEnded]], None], close: Close
) -> None:
    """Prepare a log for several workers, ending streams that an earlier life left running.

    `close` prices them; `on_orphans` receives them.

    Raises:
        LogUnusable: the storage cannot be used.
    """
    kind, _, path = url.partition(":///")
    if kind == "sqlite":
        prepare(Path(path), now=time.time(), on_orphans=on_orphans, close=close)


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

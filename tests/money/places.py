"""Where the relays of a test keep their streams and books."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.redis_server import RedisServer, Wire, redis_server, wire_to

LEASE_S = 2.0

Log = Literal["memory", "workers", "redis", "redis-aof"]


@dataclass
class Place:
    """How many relays there are, the URLs of their log and records, and settings for them."""

    relays: int
    logs: list[str]
    records: str
    settings: dict[str, Any] = field(default_factory=dict)
    redis: RedisServer | None = None
    wires: list[Wire] = field(default_factory=list)
    """The ways of the relays to Redis."""


async def place(
    stack: AsyncExitStack,
    log: Log,
    folder: Path,
    *,
    wires: bool = True,
    lease_s: float = LEASE_S,
) -> Place:
    """Make ready where streams are kept: in Redis for three relays, else for one.

    Those of Redis have ways there that can be cut, which take time of this process.
    """
    records = f"sqlite:///{folder}/records.db"
    match log:
        case "memory":
            return Place(1, ["memory"], records)
        case "workers":
            return Place(1, [f"sqlite:///{folder}/log.db"], records, {"workers": 3})
        case "redis" | "redis-aof":
            options = (
                ("--appendonly", "yes", "--appendfsync", "always") if log == "redis-aof" else ()
            )
            redis = stack.enter_context(redis_server(folder, *options))
            if not wires:
                return Place(3, [f"{redis.url}?lease_s={lease_s}"], records, redis=redis)
            ways = [await stack.enter_async_context(wire_to(redis.port)) for _ in range(3)]
            logs = [f"{way.url}?lease_s={lease_s}" for way in ways]
            return Place(3, logs, records, redis=redis, wires=ways)

"""The admin service: a summary of all processes that share a log.

Each process has a `History`, updated once a stream. All else is collected on demand: a process
that makes a summary broadcasts `WATCH`, and until it expires the others broadcast snapshots. Each
process polls the broadcast for `WATCH` every second.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from .. import __version__
from ..errors import RelayError
from ..eventlog.peers import MAX_MESSAGE_BYTES, Broadcast
from ..eventlog.supervision import Supervisor
from ..generation.account_reader import AccountReader
from ..generation.hub import Hub
from ..generation.parts import Parts
from ..ledger.usage import usage_of
from ..upstreams.routes import Upstreams
from .history import History
from .snapshot import (
    MAX_STREAMS,
    Money,
    Process,
    Share,
    Snapshot,
    Summary,
    TargetHealth,
    describe_running,
    merge,
    pack_snapshot,
    unpack_snapshot,
)

FRESH_S: Final = 0.5
"""How long a summary is reused."""

INTERVAL_S: Final = 1.0
"""The interval of polling for `WATCH`, and of snapshots while somebody watches."""

SNAPSHOT_S: Final = 5.0
"""The expiry of a snapshot, after which a dead process is no longer shown."""

WATCH_S: Final = 10.0
"""How long after a summary the processes broadcast snapshots."""

WATCH_AGAIN_S: Final = 4.0
"""The minimum time between two broadcasts of `WATCH`."""

FIRST_S: Final = 1.5
"""The wait of the first summary for the snapshots of others."""

MAX_SNAPSHOTS: Final = 200

WATCH: Final = "watch"
"""The name of the broadcast that requests snapshots."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Facts on this process and the settings, from the composition root."""

    host: str
    pid: int
    log: str
    """The kind of the log."""
    records: str | None = None
    rows_waiting: Callable[[], int] = int


_encode_summary = msgspec.json.Encoder().encode


class AdminService:
    """Makes summaries; `history` observes streams and refusals."""

    def __init__(
        self,
        parts: Parts,
        hub: Hub,
        *,
        accounts: AccountReader,
        history: History,
        broadcast: Broadcast | None,
        about: About,
    ) -> None:
        self._parts = parts
        self._hub = hub
        self._broadcast = broadcast
        """None if no other process shares the log."""
        self._accounts = accounts
        self._about = about
        self._history = history
        self._id = secrets.token_hex(8)
        self.reconfigure()
        self._started_at = time.time()
        self._making: asyncio.Task[bytes] | None = None
        self._made_at = -math.inf
        self._watched_until = -math.inf
        """The expiry of the last known `WATCH`, of any process."""
        self._watch_sent_at = -math.inf
        """When this process last broadcast `WATCH`; both by the loop's clock."""
        self._tasks = Supervisor()

    def reconfigure(self) -> None:
        """Use the current routes."""
        upstreams = self._parts.upstreams
        self._routes = _routes_of(upstreams)
        names = {*upstreams.routes, *self._routes, *(one.name for one in upstreams.all)}
        names |= {one.public_name(model) for one in upstreams.all for model in one.models}
        self._history.rename(frozenset(names), frozenset(self._routes))

    async def open(self) -> None:
        """Start polling for requests of other processes."""
        if self._broadcast is not None:
            self._tasks.keep("admin service", partial(self._run, self._broadcast))

    async def close(self) -> None:
        """Stop, and withdraw the snapshot."""
        await self._tasks.close()
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait({self._making})
        if self._watched_until > -math.inf and self._broadcast is not None:
            with contextlib.suppress(RelayError):
                await self._broadcast.publish("snapshots", self._id, b"", for_s=0)

    async def _run(self, broadcast: Broadcast) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(RelayError):  # the log reports its own failures
                if WATCH in await broadcast.messages("commands"):
                    self._watched_until = loop.time() + WATCH_S
                    snapshot = pack_snapshot(self._snapshot(), most=MAX_MESSAGE_BYTES)
                    await broadcast.publish("snapshots", self._id, snapshot, for_s=SNAPSHOT_S)
            await asyncio.sleep(INTERVAL_S)

    # Summary

    async def summary(self) -> bytes:
        """Return the summary of all processes as JSON; concurrent calls share one."""
        making, now = self._making, time.monotonic()
        if making is None or (making.done() and now >= self._made_at + FRESH_S):
            making = self._making = asyncio.create_task(self._make(), name="admin summary")
        return await asyncio.shield(making)

    async def _make(self) -> bytes:
        try:
            others: Iterable[bytes] = ()
            if self._broadcast is not None:
                with contextlib.suppress(RelayError):  # only this process is shown then
                    others = await self._read_others(self._broadcast)
            merged = self._snapshot()
            for text in others:
                with contextlib.suppress(ValueError, msgspec.MsgspecError):  # of another version
                    merged = merge(merged, unpack_snapshot(text))
                await asyncio.sleep(0)  # each takes about a millisecond
            fields = msgspec.structs.asdict(merged)
            fields["readers"] = {
                one.id: count for one in merged.live if (count := merged.readers.get(one.id))
            }
            return _encode_summary(
                Summary(
                    at=round(time.time(), 3),
                    version=__version__,
                    log=self._about.log,
                    records=self._about.records,
                    money=await self._read_accounts(),
                    **fields,
                )
            )
        finally:
            self._made_at = time.monotonic()

    async def _read_others(self, broadcast: Broadcast) -> Iterable[bytes]:
        """Return the packed snapshots of the other processes, and renew `WATCH`."""
        now = asyncio.get_running_loop().time()
        waits = now >= self._watched_until
        if now >= self._watch_sent_at + WATCH_AGAIN_S:
            await broadcast.publish("commands", WATCH, b"", for_s=WATCH_S)
            self._watch_sent_at = now
        if waits:
            await asyncio.sleep(FIRST_S)
        self._watched_until = self._watch_sent_at + WATCH_S
        snapshots = await broadcast.messages("snapshots")
        snapshots.pop(self._id, None)
        return islice(snapshots.values(), MAX_SNAPSHOTS)

    async def _read_accounts(self) -> Money:
        accounts, more = self._accounts.list_named()
        try:
            found = await self._accounts.read(accounts)
        except RelayError:
            return Money([], more + len(accounts), known=False)
        at = self._parts.clock.wall()
        usage = [usage_of([account], [state], at) for account, state in found]
        return Money(usage, more, known=True)

    def _snapshot(self) -> Snapshot:
        hub, history, about = self._hub, self._history, self._about
        load = hub.load()
        process = Process(
            id=self._id,
            host=about.host,
            pid=about.pid,
            started_at=round(self._started_at, 3),
            at=round(time.time(), 3),
            streams=load.streams,
            readers=load.readers,
            draining=load.draining,
            log_healthy=load.log_healthy,
            log_streams=load.log_streams,
            log_bytes=load.log_bytes,
        )
        return Snapshot(
            processes=[process],
            live=[
                describe_running(progress, process=self._id)
                for progress in hub.progress(most=MAX_STREAMS)
            ],
            readers=hub.readers(most=2 * MAX_STREAMS),
            targets=[self._health(name) for name in self._routes],
            counts=history.counts(),
            last=list(reversed(history.last)),
            recent=history.list_recent(),
            rows_waiting=about.rows_waiting(),
        )

    def _health(self, target: str) -> TargetHealth:
        breakers = self._parts.upstreams.breakers
        now, wall = asyncio.get_running_loop().time(), time.time()
        breaker, state = breakers.named(target), breakers.state(target, now)
        open_s = breaker.open_for(now)
        return TargetHealth(
            target=target,
            routes=self._routes[target],
            state=state,
            failures=breaker.failures(now),
            retry_at=round(wall + open_s, 3) if open_s else None,
            last_error=self._history.last_error(target),
            processes=Share(int(state == "open"), 1),
        )


def _routes_of(upstreams: Upstreams) -> dict[str, list[str]]:
    """Return the configured targets, each with its routes."""
    routes: dict[str, list[str]] = {}
    for name, route in upstreams.routes.items():
        for target in route.targets:
            routes.setdefault(target.name, []).append(name)
    return routes | {name: [] for name in sorted(upstreams.configured_targets() - set(routes))}

"""Where an operator looks at all processes that share a log, and tells them what to do.

Each process keeps a `History`, which is told of streams once. All else is looked at when
somebody asks for a summary: who does leaves a post that says so, and as long as it holds the
others leave their boards. Each looks every second whether there is such a post, and orders.
"""

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Final, Literal

import msgspec
import structlog

from .. import __version__
from ..errors import RelayError, RequestError
from ..eventlog.broadcast import MAX_MESSAGE_BYTES, Broadcast
from ..eventlog.supervision import Supervisor
from ..generation.account_reader import AccountReader
from ..generation.hub import Hub
from ..generation.parts import Parts
from ..ledger.report import overview
from ..upstreams.routes import Upstreams
from .history import History
from .process_snapshot import (
    MAX_STREAMS,
    Process,
    ProcessSnapshot,
    TargetState,
    pack_board,
    unpack_board,
)
from .sampling import Sampler
from .summary import Merged, MoneyView, render

FRESH_S: Final = 0.5
"""For so long a summary is given to others who ask for one."""

BEAT_S: Final = 1.0
"""How often each process looks for orders, and leaves its board while somebody looks."""

BOARD_S: Final = 5.0
"""For how long a board holds: that of a process which has died is gone then."""

WATCH_S: Final = 10.0
"""For how long after a summary boards are left."""

WATCH_AGAIN_S: Final = 4.0
"""So long after that is said it need not be said again."""

FIRST_S: Final = 1.5
"""How long the first summary waits for the boards of others."""

ORDER_S: Final = 60.0
"""For how long an order is told, at least, to processes that could not be reached."""

MAX_BOARDS: Final = 200

WATCH: Final = "watch"
"""The name of the post that says that somebody looks."""

Action = Literal["try", "rest", "wake"]


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root knows of this process and of the settings."""

    host: str
    pid: int
    log: str
    """Its kind."""
    records: str | None = None
    rows_waiting: Callable[[], int] = int


class Ordered(msgspec.Struct, frozen=True):
    """An order that was given."""

    target: str
    action: Action
    until: float | None


class Posted(Ordered, frozen=True):
    """An order as it is left for others; `id` tells it from one that was given before."""

    id: str


_encode_order = msgspec.msgpack.Encoder().encode
_decode_order = msgspec.msgpack.Decoder(Posted).decode

log = structlog.get_logger("seseragi.admin")


class AdminService:
    """Makes summaries, and gives orders; `history` is told of streams and refusals."""

    def __init__(
        self,
        parts: Parts,
        hub: Hub,
        accounts: AccountReader,
        history: History,
        broadcast: Broadcast | None,
        about: About,
    ) -> None:
        self._parts = parts
        self._hub = hub
        self._broadcast = broadcast
        """None where no other process shares the log."""
        self._accounts = accounts
        self._about = about
        self._history = history
        self.reconfigure()
        self._looking = asyncio.Lock()
        self._board: ProcessSnapshot | None = None
        self._looked_at = -math.inf
        """The board that was made last, and when, by the loop's clock."""
        self._id = secrets.token_hex(8)
        self._started_at = time.time()
        self._making: asyncio.Task[bytes] | None = None
        self._made_at = -math.inf
        self._watched_until = -math.inf
        """Until when somebody is known to look, here or elsewhere."""
        self._said_at = -math.inf
        """When it was said here that somebody does; both by the loop's clock."""
        self._obeyed: dict[str, str] = {}
        """The last order of each name that was obeyed."""
        self._tasks = Supervisor()

    def reconfigure(self) -> None:
        """Take the routes and prices as they are now."""
        upstreams = self._parts.upstreams
        self._routes = _routes_of(upstreams)
        names = {*upstreams.routes, *self._routes, *(one.name for one in upstreams.all)}
        names |= {one.public_name(model) for one in upstreams.all for model in one.models}
        self._history.know(frozenset(names), frozenset(self._routes))
        self._sampler = Sampler(self._parts.accounting)

    async def open(self) -> None:
        """Begin to look for orders of others."""
        if self._broadcast is not None:
            self._tasks.keep("admin desk", partial(self._beat, self._broadcast))

    async def close(self) -> None:
        """End, and take the board away."""
        await self._tasks.close()
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait({self._making})
        if self._watched_until > -math.inf and self._broadcast is not None:
            with contextlib.suppress(RelayError):
                await self._broadcast.publish("snapshots", self._id, b"", for_s=0)

    async def _beat(self, broadcast: Broadcast) -> None:
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(RelayError):  # the log has told of its trouble
                orders = await broadcast.messages("commands")
                if orders:
                    self._hear(orders)
                if WATCH in orders:
                    self._watched_until = loop.time() + WATCH_S
                    board = pack_board(await self._look(), most=MAX_MESSAGE_BYTES)
                    await broadcast.publish("snapshots", self._id, board, for_s=BOARD_S)
            await asyncio.sleep(BEAT_S)

    def _hear(self, orders: Mapping[str, bytes]) -> None:
        """Obey orders of others that were not obeyed yet."""
        for name, text in orders.items():
            if name == WATCH:
                continue
            try:
                order = _decode_order(text)
            except (ValueError, msgspec.MsgspecError):  # of another version
                continue
            if order.target in self._routes and self._obeyed.get(name) != order.id:
                self._obeyed[name] = order.id
                self._obey(order)

    # What is seen

    async def summary(self) -> bytes:
        """Return the summary of all processes as JSON; one is made at a time."""
        making, now = self._making, time.monotonic()
        if making is None or (making.done() and now >= self._made_at + FRESH_S):
            making = self._making = asyncio.create_task(self._make(), name="admin summary")
        return await asyncio.shield(making)

    async def _make(self) -> bytes:
        try:
            merged = Merged(self._routes)
            if self._broadcast is not None:
                with contextlib.suppress(RelayError):  # then this process is shown alone
                    await self._add_others(self._broadcast, merged)
            merged.add(await self._look())
            money = await self._look_at_money()
            return render(
                merged.summary(
                    at=time.time(),
                    version=__version__,
                    log=self._about.log,
                    money=money,
                    records=self._about.records,
                )
            )
        finally:
            self._made_at = time.monotonic()

    async def _add_others(self, broadcast: Broadcast, merged: Merged) -> None:
        """Add the boards of the other processes, and see that they go on leaving them."""
        now = asyncio.get_running_loop().time()
        waits = now >= self._watched_until
        if now >= self._said_at + WATCH_AGAIN_S:
            await broadcast.publish("commands", WATCH, b"", for_s=WATCH_S)
            self._said_at = now
        if waits:
            await asyncio.sleep(FIRST_S)
        self._watched_until = self._said_at + WATCH_S
        boards = await broadcast.messages("snapshots")
        boards.pop(self._id, None)
        for text in islice(boards.values(), MAX_BOARDS):
            with contextlib.suppress(ValueError, msgspec.MsgspecError):  # of another version
                merged.add(unpack_board(text))
            await asyncio.sleep(0)

    async def _look_at_money(self) -> MoneyView:
        accounts, more = self._accounts.list_named()
        try:
            found = await self._accounts.read(accounts)
        except RelayError:
            return MoneyView([], more + len(accounts), known=False)
        return MoneyView([overview(*each) for each in found], more)

    async def _look(self) -> ProcessSnapshot:
        """Return what this process shows of itself now, or just now."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if self._board is None or clock() >= self._looked_at + FRESH_S:
                self._board, self._looked_at = await self._make_board(), clock()
            return self._board

    async def _make_board(self) -> ProcessSnapshot:
        hub, history = self._hub, self._history
        live = await self._sampler.look(hub.progress(most=MAX_STREAMS))
        load, at = hub.load(), round(time.time(), 3)
        return ProcessSnapshot(
            process=Process(
                id=self._id,
                host=self._about.host,
                pid=self._about.pid,
                started_at=round(self._started_at, 3),
                at=at,
                streams=load.streams,
                readers=load.readers,
                draining=load.draining,
                log_healthy=load.log_healthy,
                log_streams=load.log_streams,
                log_bytes=load.log_bytes,
            ),
            live=live,
            readers=hub.readers(most=2 * MAX_STREAMS),
            targets=self._look_at_targets(),
            refused=history.counts(failed=False),
            failed=history.counts(failed=True),
            last=list(reversed(history.last)),
            recent=list(reversed(history.recent)),
            rows_waiting=self._about.rows_waiting() if self._about.records else None,
        )

    def _look_at_targets(self) -> list[TargetState]:
        breakers = self._parts.upstreams.breakers
        now, wall = asyncio.get_running_loop().time(), time.time()
        found = []
        for name in self._routes:
            breaker = breakers.named(name)
            rests_s, open_s = breakers.rests_for(name, now), breaker.open_for(now)
            found.append(
                TargetState(
                    target=name,
                    state=breakers.state(name, now),
                    failures=breaker.failures(now),
                    retry_at=round(wall + open_s, 3) if open_s else None,
                    rests_until=round(wall + rests_s, 3) if rests_s else None,
                    last_error=self._history.last_error(name),
                )
            )
        return found

    # What is ordered

    async def order(
        self, target: str, action: Action, *, for_s: float = 0, by: str = ""
    ) -> Ordered:
        """Have all processes try a target now, let it rest, or end its rest.

        `by` is the name of the key, or the user, who orders it.

        Raises:
            RequestError: `not_found`, the settings name no such target.
        """
        if target not in self._routes:
            raise RequestError(
                "not_found",
                f"the settings name no target {target[:120]!r}; GET /v1/admin/summary lists them",
            )
        breakers, now = self._parts.upstreams.breakers, asyncio.get_running_loop().time()
        until = round(time.time() + for_s, 3) if action == "rest" else None
        order = Posted(target, action, until, id=secrets.token_hex(8))
        # A wake takes the place of the rest that it ends, for as long as that would have held.
        name = f"{'try' if action == 'try' else 'rest'} {target}"
        held_s = for_s if action == "rest" else breakers.rests_for(target, now) + ORDER_S
        if self._broadcast is not None:
            await self._broadcast.publish("commands", name, _encode_order(order), for_s=held_s)
        self._obeyed[name] = order.id
        self._obey(order)
        log.info("target ordered", target=target, action=action, until=until, by=by or None)
        return Ordered(target, action, until)

    def _obey(self, order: Ordered) -> None:
        breakers, now = self._parts.upstreams.breakers, asyncio.get_running_loop().time()
        target, until = order.target, order.until
        match order.action:
            case "try":
                breakers.named(target).try_now(now)
            case "rest":
                breakers.rest(target, now + (until or 0) - time.time())
            case "wake":
                breakers.wake(target)


def _routes_of(upstreams: Upstreams) -> dict[str, list[str]]:
    """Return the targets of the settings, each with its routes."""
    routes: dict[str, list[str]] = {
        target.name: [] for route in upstreams.routes.values() for target in route.targets
    }
    for name, route in upstreams.routes.items():
        for target in route.targets:
            routes[target.name].append(name)
    return routes | {name: [] for name in sorted(upstreams.configured_targets() - set(routes))}

"""Simulated processes: each serves a whole relay on the simulated network, and can be killed."""

import asyncio
import contextvars
import re
from typing import Any

from uvicorn.server import ServerState

from app.clock import Clock
from app.composition import (
    Substitutes,
    build_authenticator,
    build_price_book,
    build_upstreams,
)
from app.eventlog import EventLog, LogParts
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import Event, StreamEnd
from app.policies.balance import MIN_SAMPLES
from app.relay import Relay, Reloaded
from app.server.serving import build_server
from app.settings import Settings
from app.telemetry.observer import AttemptStarted, FirstEvent, Observer

from .history import History
from .loop import PROCESS, SimulatedLoop
from .storage import Disk


class Watched(Observer):
    """Records the begins and ends of streams, with their charges."""

    def __init__(self, history: History, process: str) -> None:
        self._history = history
        self._process = process

    def started(self, info: StreamInfo) -> None:
        self._history.add("started", stream=info.id)

    def attempt_started(self, started: AttemptStarted) -> None:
        self._history.add("attempt", stream=started.id)

    def first_event(self, first: FirstEvent) -> None:
        self._history.add("first", stream=first.info.id)

    def ended(self, ended: StreamEnded) -> None:
        charges = [
            {
                "nano": charge.nano_usd,
                "counted": charge.counts is not None,
                "estimated": bool(charge.counts is not None and charge.counts.estimated),
                "output": 0 if charge.counts is None else charge.counts.output_tokens or 0,
            }
            for charge in ended.charges
        ]
        self._history.add(
            "ended",
            process=self._process,
            stream=ended.info.id,
            status=ended.end.status,
            target=ended.target,
            nano=ended.nano_usd,
            charges=charges,
            lost=ended.lost,
        )


class WatchedLog:
    """Records what is created, appended and deleted, in front of a log."""

    def __init__(self, log: EventLog, history: History, process: str) -> None:
        self._log = log
        self._history = history
        self._process = process
        self._counts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Any:
        claim = await self._log.create(info, over=over)
        if claim.stream == info.id:
            self._history.add(
                "created",
                process=self._process,
                stream=info.id,
                marker=_marker_of(info),
                key=info.key,
            )
        return claim

    def push(self, stream: str, events: Any) -> bool:
        if not self._log.push(stream, events):
            return False
        self._appended(stream, events, asyncio.get_running_loop().time())
        return True

    async def append(self, stream: str, events: Any, settlement: Any = None) -> Any:
        if events:
            self._history.add("writes", stream=stream)
        since = asyncio.get_running_loop().time()
        try:
            placed = await self._log.append(stream, events, settlement)
        except asyncio.CancelledError:  # the append completes
            self._appended(stream, events, since)
            raise
        self._appended(stream, events, since)
        return placed

    async def delete(self, stream: str) -> None:
        self._history.add("deleted", process=self._process, stream=stream)
        await self._log.delete(stream)

    def _appended(self, stream: str, events: "list[Event]", since: float) -> None:
        if not events:
            return
        first = self._counts.get(stream, 0) + 1
        self._counts[stream] = first + len(events) - 1
        end = events[-1]
        self._history.add(
            "append",
            process=self._process,
            stream=stream,
            first=first,
            since=round(since, 6),
            types=[type(event).__name__ for event in events],
            end=end.status if isinstance(end, StreamEnd) else None,
        )


def _marker_of(info: StreamInfo) -> str:
    """Return the name of a request; over a WebSocket it is in its input only."""
    found = re.search(rb"q\d+ ", info.request)
    return info.request_id if found is None else found[0].decode().strip()


class Process:
    """One replica: a relay, its server and all their tasks."""

    def __init__(
        self,
        name: str,
        host: str,
        settings: Settings,
        *,
        loop: SimulatedLoop,
        history: History,
        clock: Clock,
        disk: Disk,
    ) -> None:
        self.name, self.address = name, (host, 80)
        self.settings = settings
        self.relay: Relay | None = None
        self.server: Any = None
        self._loop = loop
        self._history = history
        self._clock = clock
        self._disk = disk
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def serves(self) -> bool:
        """Whether it answers."""
        return self._ready.is_set() and not self._stop.is_set() and not self.dead

    @property
    def dead(self) -> bool:
        return self.name in self._loop.dead

    async def start(self) -> None:
        """Open the relay and listen.

        Raises what opening the relay raises.
        """
        self._task = self._loop.create_task(self._run())
        waits = self._loop.create_task(self._ready.wait())
        await asyncio.wait({self._task, waits}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            waits.cancel()
            self._task.result()

    async def _run(self) -> None:
        PROCESS.set(self.name)
        self._context = contextvars.copy_context()
        substitutes = Substitutes(
            clock=self._clock,
            observers=[Watched(self._history, self.name)],
            wrap_log=lambda log: WatchedLog(log, self._history, self.name),
        )
        async with Relay.open(self.settings, substitutes=substitutes) as relay:
            self.relay = relay
            stats = relay.hub.upstreams.stats
            for target in relay.hub.upstreams.routes["r"].targets:
                for _ in range(MIN_SAMPLES):  # without which nothing is hedged
                    stats.note(target.name, 0.02, now=self._loop.time())
            server = self.server = build_server(
                relay,
                others_answer=lambda: False,
                on_listening=lambda: None,
                stop_now=relay.hub.shutdown.cut_short,
                obeys_signals=False,
            )
            server.config.load()
            state = server.server_state = ServerState()
            state.default_headers = [(b"date", b"now")]

            def accept() -> Any:
                protocol: Any = server.config.http_protocol_class
                return protocol(config=server.config, server_state=state, app_state={})

            listener = await self._loop.create_server(accept, *self.address)
            self._ready.set()
            try:
                await self._stop.wait()
            finally:
                listener.close()
                await relay.hub.drain(self.settings.drain_s)
                for connection in list(state.connections):
                    connection.shutdown()
                while state.connections or state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0.5)
            self.relay = None

    async def stop(self) -> None:
        """Stop gracefully."""
        assert self._task is not None
        if self._stop.is_set():
            return
        self._history.add("stops", process=self.name)
        self._stop.set()
        await asyncio.wait({self._task})
        if not self.dead:
            self._task.result()

    async def read_account(self, name: str) -> Any:
        """Return an account's state; None if the process dies meanwhile, or its log fails."""
        read = self.parts.accounts.read_accounts([name])
        task: asyncio.Task[Any] = self._loop.create_task(read, context=self._context)
        await asyncio.wait({task}, timeout=5)
        if not task.done() or task.exception() is not None:
            task.cancel()
            return None
        return task.result()[0]

    async def reload(self) -> None:
        """Read the same settings again, as on SIGHUP."""
        relay = self.relay
        assert relay is not None
        self._history.add("reloads", process=self.name)
        settings = relay.settings
        reloaded = Reloaded(
            settings.ledger,
            build_price_book(settings),
            upstreams=build_upstreams(settings, None),
            authenticator=build_authenticator(settings, self._clock),
        )
        task = self._loop.create_task(relay.reconfigure(reloaded), context=self._context)
        await asyncio.wait({task}, timeout=5)  # it may be killed meanwhile

    def kill(self) -> None:
        """Let nothing of it run any more; its connections are reset, its memory is gone."""
        self._history.add("killed", process=self.name)
        self._loop.dead.add(self.name)
        self._loop.network.listeners.pop(self.address, None)
        self._loop.network.kill(lambda context: context.get(PROCESS) == self.name)
        self._disk.release(self.name)

    @property
    def parts(self) -> LogParts:
        assert self.relay is not None
        return self.relay.log_parts

    def tasks(self) -> list[str]:
        """Return the names of its tasks that still run."""
        found = [task for task, process in self._loop.tasks.items() if process == self.name]
        return sorted(str(task.get_coro()).partition(" at 0x")[0] for task in found)

"""One simulated world: what a seed draws of it, its run, and its history.

`run_world(seed)` returns the history, which `checker.py` judges.
"""

import asyncio
import contextlib
import gc
import hashlib
import itertools
import json
import logging
import random
import secrets
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import structlog

from app import composition, plugins
from app.clock import Clock
from app.composition import prepare_log
from app.errors import RelayError
from app.eventlog import LogUnusable
from app.settings import Settings, load_settings
from app.settings.access import settle_identity
from app.upstreams import http

from . import hooks
from .clients import Client, Plan
from .faults import draw, strike
from .history import History
from .http_client import Cut, ask
from .loop import SimulatedLoop, Stuck
from .network import Network
from .provider import Provider
from .redis import FakeRedis
from .relays import Process
from .storage import Disk

STARTS: Final = (1_800_000_000.0, 1_801_439_002.0)
"""The times of day at the loop's time 0, which begins at 1000: within a month, and 2 s after the
begin of one."""

PATIENCE_S: Final = 400.0
"""When a client or a stream hangs: all deadlines of the relay together are shorter."""

BUDGET: Final = 700_000
"""Nano-USD a month: an answer costs up to 204,000."""
MOST_STREAMS: Final = 3

RECOVERS_S: Final = 100.0
"""The time in which a log ends what it could not write, or what a dead process has left."""

WIRES: Final = ("openai_chat", "anthropic", "openai_responses")


class Features:
    """What the seed draws of the settings."""

    def __init__(self, dice: random.Random) -> None:
        self.wires = [dice.choice(WIRES) for _ in range(dice.choice((1, 2, 2, 3)))]
        several = len(self.wires) > 1
        self.rescue = several and dice.random() < 0.4
        self.hedge = several and dice.random() < 0.4
        self.resume = dice.random() < 0.5
        self.hook = dice.choices(("", "pass", "rewrite", "slow", "fail"), (5, 1, 2, 3, 1))[0]
        self.hold = dice.choice((2, 5, 9))
        self.start = dice.choice(STARTS)
        self.attempts = dice.choice((1, 2, 3))
        self.budget = dice.random() < 0.4
        self.strict = dice.random() < 0.3
        self.status_wait_s = dice.choice((0, 0.2, 5))
        self.linger_s = dice.choice((0, 2, 6))
        self.total_timeout_s = dice.choice((60, 60, 60, 1.5))
        self.gap_timeout_s = dice.choice((12, 12, 12, 0.6))
        self.trouble = dice.choice((0.0, 0.3, 0.8))
        self.disorder = dice.choice((0.0, 0.3, 0.9))
        self.keys = dice.random() < 0.5
        self.log = dice.choices(("memory", "sqlite", "shared", "redis"), (8, 3, 2, 2))[0]
        several = self.log in ("shared", "redis")
        self.replicas = dice.choice((1, 2, 2, 3)) if several else 1
        self.restarts = self.log != "memory" and dice.random() < 0.5
        """Whether its processes are started again before the streams are compared at the end."""
        stored = self.resume and "openai_responses" in self.wires
        own = random.Random(repr(vars(self)))  # later draws are those of before
        self.takeover = (
            self.log != "memory"
            and not self.hook
            and (stored or self.rescue)
            and own.random() < 0.7
        )

    def table(self, folder: Path) -> str:
        """Return the settings as TOML."""
        lines = [
            f"attempts = {self.attempts}",
            f"status_wait_s = {self.status_wait_s}",
            f"linger_s = {self.linger_s}",
            f"heartbeat_s = 5\nfirst_event_timeout_s = 15\nevent_gap_timeout_s = {self.gap_timeout_s}",
            f"idle_timeout_s = 10\ntotal_timeout_s = {self.total_timeout_s}\nfallback_after_s = 8",
            "connect_timeout_s = 3\nbreaker_pause_s = 2\nkeepalive_s = 20\nsend_timeout_s = 10",
            f"log = {json.dumps(self._log_url(folder))}",
            f"workers = {2 if self.log == 'shared' else 1}",
            "drain_s = 1\ndemo = false\nmetrics = false\nadmin = false",
        ]
        if not self.keys:
            lines.append('auth = "none"')
        names = []
        for number, wire in enumerate(self.wires):
            name = "abc"[number]
            names.append(f"{name}/m")
            lines += [
                f'[upstream.{name}]\nbase_url = "http://10.0.0.{number + 1}/v1"',
                f'dialect = "{wire}"',
            ]
            if wire == "openai_responses" and self.resume:
                lines.append("resume = true")
        lines.append(f'[[route]]\nname = "r"\ntargets = {json.dumps(names)}')
        if self.rescue:
            lines.append("rescue = true")
        if self.takeover:
            lines.append("takeover = true")
        if self.hedge:
            lines.append("hedge_percentile = 90\nhedge_share = 1")
        if self.hook:
            lines.append(f'[[hook]]\ncall = "tests.simulation.hooks:{self.hook}_"')
            lines.append(f"hold = {self.hold}")
            lines.append("timeout_s = 2")
        lines.append('[[price]]\ntarget = "*/*"\ninput = 1\noutput = 2')
        lines.append("[limits]\nmax_output_tokens = 100")
        if self.budget:
            lines.append(f"usd_per_month = {BUDGET / 1e9}\nstreams = {MOST_STREAMS}")
            if self.strict:
                lines.append("strict = true")
        if self.keys:
            for name in CREDENTIALS:
                digest = hashlib.sha256(name.encode()).hexdigest()
                user = name[-1]
                lines.append(f'[[key]]\nname = "k{user}"\nsha256 = "{digest}"\nuser = "{user}"')
        return "\n".join(lines)

    def _log_url(self, folder: Path) -> str:
        match self.log:
            case "memory":
                return "memory"
            case "redis":
                return f"redis://{REDIS[0]}:{REDIS[1]}/0?lease_s=3"
        return f"sqlite:///{folder}/log.db"


REDIS: Final = ("10.0.1.1", 6379)

CREDENTIALS: Final = ("ssk_simulated_1", "ssk_simulated_2")


class World:
    """A run in its event loop."""

    def __init__(
        self, dice: random.Random, loop: SimulatedLoop, *, features: Features | None = None
    ) -> None:
        self.history = History(loop.time)
        self._dice = dice
        self.loop = loop
        self.features = Features(dice) if features is None else features
        loop.disorder = self.features.disorder
        self.drift_s = 0.0
        """How far the wall clock was stepped."""
        self.processes: list[Process] = []
        self._lives = itertools.count(self.features.replicas)
        self._providers = [
            Provider("abc"[number], wire, random.Random(dice.random()), self.history)
            for number, wire in enumerate(self.features.wires)
        ]
        models = ["r", *[f"{one.name}/m" for one in self._providers]]
        self._plans = [
            Plan.draw(
                dice,
                number + 1,
                models=models,
                credentials=CREDENTIALS if self.features.keys else (),
            )
            for number in range(dice.choice((1, 2, 3, 4)))
        ]
        self._others: set[asyncio.Task[Any]] = set()
        self._faults = draw(dice, log=self.features.log)
        self.clients: list[Client] = []
        self.disk = Disk(random.Random(dice.random()))
        self.redis = FakeRedis()
        self.folder = Path()
        """Where the files of its relays are."""
        self.hosts = [(f"10.0.0.{number + 1}", 80) for number in range(len(self.features.wires))]

    def wall(self) -> float:
        """Return the time of day: Redis is another machine, whose clock nobody steps."""
        return self.features.start + self.loop.time() + (0.0 if self.redis.runs else self.drift_s)

    def note_log(self, level: str, line: dict[str, Any]) -> None:
        if line.get("event") == "request sent again on a new connection":
            self.history.add("resent")
        if level in ("error", "critical"):
            error = sys.exc_info()[1] if line.pop("exc_info", None) is True else None
            if error is not None:
                line["error"] = f"{error!r} at {_place_of(error)}"
            self.history.add("logged", line=str(line.pop("event", "")), why=str(line))

    def _settings(self) -> Settings:
        path = self.folder / "seseragi.toml"
        path.write_text(self.features.table(self.folder))
        environ = {"SESERAGI_SIGNING_KEY": "k" * 40}
        return settle_identity(load_settings(environ, config=str(path))).settings

    async def _begin(self) -> None:
        """Start the providers, the log and the relays."""
        features = self.features
        self.history.add(
            "world",
            hook=features.hook,
            log=features.log,
            strict=features.strict,
            begins_month=features.start == STARTS[1],
        )
        for number, provider in enumerate(self._providers):
            await asyncio.start_server(provider.serve, f"10.0.0.{number + 1}", 80)
            provider.trouble = self.features.trouble
        settings = self._settings()
        if self.features.log == "redis":
            await asyncio.start_server(self.redis.serve, *REDIS)
            self.hosts.append(REDIS)
        if self.features.log == "shared":
            prepare_log(settings, ())
        for number in range(self.features.replicas):
            await self._open(f"relay-{number + 1}", f"10.1.0.{number + 1}", settings)

    async def run(self) -> None:
        """Run it to its quiet end."""
        await self._begin()
        living = [self._spawn(self._live(plan)) for plan in self._plans]
        watching = self.loop.create_task(self._watch_balance()) if self.features.budget else None
        striking = [self._spawn(strike(self, fault)) for fault in self._faults]
        await self._within(PATIENCE_S, "a client", asyncio.wait(living))
        self.history.over()
        await self._within(PATIENCE_S, "a fault", self._await(striking))
        for one in self._providers:
            one.well = True
        await self._within(PATIENCE_S, "a client", self._await_others())
        await self._within(PATIENCE_S, "a stream", self._await_quiet())
        if watching is not None:
            watching.cancel()
        if self.features.restarts:
            for process in [one for one in self.processes if one.serves]:
                await self._within(60, "a relay that stops", process.stop())
                await self._within(60, "a relay that starts", self.revive(process))
        await self._look_at_all()
        await self._end()

    async def _end(self) -> None:
        """Stop the relays and the providers, and record what is left."""
        for process in self.processes:
            if process.serves:
                await self._within(60, "a relay that stops", process.stop())
        for one in self._providers:
            one.stop()
        self.loop.network.close()
        await asyncio.sleep(30)
        self._look_for_rests()

    async def _open(self, name: str, host: str, settings: Settings) -> None:
        clock = Clock(wall=self.wall, monotonic=self.loop.time)
        process = Process(
            name, host, settings, loop=self.loop, history=self.history, clock=clock, disk=self.disk
        )
        self.processes.append(process)
        await process.start()

    async def revive(self, process: Process) -> None:
        """Start a stopped or killed process again, as a supervisor does."""
        name, number = process.name.partition(".")[0], next(self._lives)
        if self.features.log == "memory":
            self.history.add("lost", process=process.name)
        while True:
            try:
                await self._open(f"{name}.{number}", process.address[0], process.settings)
                return
            except LogUnusable:
                self.processes.pop()
                await asyncio.sleep(1)

    async def _live(self, plan: Plan) -> None:
        client = Client(plan, self.history, self._choose, spawn=self._spawn)
        self.clients.append(client)
        await client.live()

    def _spawn(self, work: Any) -> "asyncio.Task[Any]":
        task = self.loop.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._others.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _choose(self) -> tuple[str, int]:
        return self._dice.choice(self.processes).address

    async def _within(self, seconds: float, what: str, work: Any) -> None:
        """Wait for some work, or record that it hangs."""
        try:
            async with asyncio.timeout(seconds):
                await work
        except TimeoutError:
            self.history.add("hangs", what_hangs=what, after_s=seconds)

    async def _await(self, tasks: list["asyncio.Task[Any]"]) -> None:
        if tasks:
            await asyncio.wait(tasks)

    async def _await_others(self) -> None:
        while self._others:
            await asyncio.wait(set(self._others))

    async def _await_quiet(self) -> None:
        """Wait until no relay produces anything, and nobody reads."""
        while True:
            loads = [one.relay.hub.load() for one in self.processes if one.relay and one.serves]
            if not any(load.streams or load.readers for load in loads):
                return
            await asyncio.sleep(1)

    # The end

    async def _look_at_all(self) -> None:
        """Record what is left: what is held, the accounts, each stream from its begin."""
        await asyncio.sleep(1)
        until = self.loop.time() + RECOVERS_S
        for process in self.processes:
            if process.serves:
                while any(holds(process).values()) and self.loop.time() < until:  # noqa: ASYNC110
                    await asyncio.sleep(1)
                self.history.add("held", process=process.name, **holds(process))
        live = next(one for one in self.processes if one.serves)
        for name, state in await self._read_accounts(live):
            month = state.month
            self.history.add(
                "account",
                name=name,
                running=state.running,
                held=month.held_nano_usd,
                nano=month.nano_usd,
                requests=month.requests,
            )
        streams = [one["stream"] for one in self.history.records if one["what"] == "created"]
        for stream in dict.fromkeys(streams):
            found = await self._read_stored(live, stream)
            self.history.add("stored", stream=stream, **found)

    async def _read_accounts(self, process: Process) -> list[tuple[str, Any]]:
        """Return the accounts, once nothing is reserved any more, or after `RECOVERS_S`."""
        names = ["relay", *(f"key:k{name[-1]}" for name in CREDENTIALS)]
        until = self.loop.time() + RECOVERS_S
        while True:
            states = []
            with contextlib.suppress(RelayError):  # it may be away for a moment
                states = await process.parts.accounts.read_accounts(names)
            is_held = any(state.running or state.month.held_nano_usd for state in states)
            if states and not is_held:
                return list(zip(names, states, strict=True))
            if self.loop.time() > until:
                if not states:
                    self.history.add("hangs", what_hangs="the log", after_s=RECOVERS_S)
                return [*zip(names, states, strict=False)]
            await asyncio.sleep(2)

    async def _watch_balance(self) -> None:
        """Record the relay's account whenever it has changed."""
        before: tuple[int, int, int] | None = None
        while True:
            process = next((one for one in self.processes if one.serves), None)
            since = self.loop.time()
            state = None if process is None else await process.read_account("relay")
            if state is not None:
                found = (state.running, state.month.nano_usd, state.month.held_nano_usd)
                if found != before:
                    before = found
                    running, nano, held = found
                    fields = {"running": running, "most": MOST_STREAMS, "nano": nano, "held": held}
                    fields["since"] = round(since, 6)
                    self.history.add("balance", name="relay", limit=BUDGET, **fields)
            await asyncio.sleep(0.2)

    async def _read_stored(self, process: Process, stream: str) -> dict[str, Any]:
        """Read a stream again, as its owner."""
        from app.framing.sse import Decoder

        for credential in CREDENTIALS if self.features.keys else (None,):
            headers = {} if credential is None else {"authorization": f"Bearer {credential}"}
            try:
                answer = await ask(
                    process.address, "GET", f"/v1/streams/{stream}/events", headers=headers
                )
                content = await answer.read()
            except Cut:
                return {"status": 0, "frames": []}
            answer.leave()
            if answer.status != 404:
                decoder = Decoder()
                messages = decoder.feed(content) if answer.status == 200 else []
                frames = [[one.id, one.data] for one in messages if one.data]
                return {"status": answer.status, "frames": frames}
        return {"status": 404, "frames": []}

    def _look_for_rests(self) -> None:
        for process in self.processes:
            for task in process.tasks() if not process.dead else ():
                self.history.add("left over", process=process.name, task=task)
        for error in self.loop.errors:
            self.history.add("unhandled", error=error)


def holds(process: Process) -> dict[str, int]:
    """Return what a relay holds for streams and requests."""
    assert process.relay is not None
    hub = process.relay.hub
    load, admission = hub.load(), hub.admission
    capacities = hub.upstreams._capacities.values()
    return {
        "streams": load.streams + admission.streams,
        "readers": load.readers + sum(share.readers for share in admission._table.values()),
        "bytes of requests": admission.bytes,
        "running streams in the log": len(process.parts.log.running()),
        "places of targets": sum(capacity.running for capacity in capacities),
    }


def run_world(seed: int) -> History:
    """Run the world of a seed, and return its history."""
    return run_in_world(seed, World).history


SomeWorld = TypeVar("SomeWorld", bound=World)


def run_in_world(seed: int, make: Callable[[random.Random, SimulatedLoop], SomeWorld]) -> SomeWorld:
    """Make a world in a loop of its own, run it, and return it."""
    dice = random.Random(seed)
    network = Network(random.Random(dice.random()))
    loop = SimulatedLoop(random.Random(dice.random()), network)
    world = make(dice, loop)
    shared_memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(
            dir=shared_memory if shared_memory.is_dir() else None
        ) as folder,
        _isolated(seed, world, loop),
        world.disk.simulated(),
    ):
        world.folder = Path(folder)
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(world.run())
        except Stuck as stuck:
            world.history.add("stuck", why=str(stuck))
        finally:
            _discard(world, loop)
    return world


def _place_of(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _discard(world: World, loop: SimulatedLoop) -> None:
    """Forget the loop with all tasks that never end; what they still do is in no history."""
    asyncio.set_event_loop(None)
    world.history.close()
    for task in list(loop.tasks):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with contextlib.suppress(BaseException):
            task.get_coro().close()
    loop.tasks.clear()
    loop.close()


_TRUST = http.open_trust()
"""One for all relays: it takes 60 ms, and is not used."""
_ENTRIES: dict[str, Any] = {}


def _find_entries(group: str, built_in: Container[str]) -> Any:
    """Look for installed parts once: it takes 30 ms."""
    if group not in _ENTRIES:
        _ENTRIES[group] = _really_find_entries(group, built_in)
    return _ENTRIES[group]


_really_find_entries = plugins.find_entries


@contextlib.contextmanager
def _isolated(seed: int, world: World, loop: SimulatedLoop) -> Iterator[None]:
    """Replace what a relay takes from its process: time, chance, logs."""
    chance = random.Random(seed)
    state = random.getstate()
    config = structlog.get_config()

    def note(logger: object, name: str, line: Any) -> Any:
        world.note_log(name, dict(line))
        raise structlog.DropEvent

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            place = "" if error is None else f"{error!r} at {_place_of(error)}"
            world.history.add("logged", line=record.getMessage(), why=place)

    server_log, handler = logging.getLogger("uvicorn.error"), Handler(logging.ERROR)
    server_log.addHandler(handler)
    server_log.propagate = False
    structlog.configure(processors=[note], cache_logger_on_first_use=False)
    random.seed(seed)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    gc.disable()
    try:
        with (
            patch.object(hooks, "note", lambda stage: world.history.add("check", stage=stage)),
            patch.object(secrets, "token_bytes", lambda size=32: chance.randbytes(size)),
            patch.object(time, "time", world.wall),
            patch.object(time, "monotonic", loop.time),
            patch.object(composition, "open_trust", lambda: _TRUST),
            patch.object(http, "open_trust", lambda: _TRUST),
            patch.object(plugins, "find_entries", _find_entries),
        ):
            yield
    finally:
        gc.enable()
        sys.unraisablehook = hook
        random.setstate(state)
        structlog.configure(**config)
        server_log.removeHandler(handler)
        server_log.propagate = True

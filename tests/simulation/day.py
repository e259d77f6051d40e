"""A day of relays in virtual time, in which nothing grows: `python -m tests.simulation.day`.

Clients come all day, leave, come back, stop; connections break, processes are started again. At
the end of each hour nothing runs, all streams have expired, and what is held is counted. The exit
code is 1 if something of it has grown.
"""

import argparse
import asyncio
import gc
import itertools
import json
import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence, Sized
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import _lru_cache_wrapper, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from app.eventlog import memory
from app.eventlog.accounts import FEW_ACCOUNTS
from app.eventlog.redis import log as redis_log
from app.eventlog.redis import tails
from app.eventlog.sqlite import database, feed
from app.eventlog.sqlite import log as sqlite_log
from app.generation import reservation, watchdog
from app.identity import tokens
from app.policies import admission
from app.upstreams import targets

from .clients import Client, Plan
from .faults import Fault, strike
from .http_client import Cut, ask
from .loop import PROCESS, SimulatedLoop
from .relays import Process
from .world import CREDENTIALS, PATIENCE_S, STARTS, Features, World, holds, run_in_world

LOGS: Final = ("memory", "sqlite", "shared", "redis")

HOUR_S: Final = 3600.0
BUSY_S: Final = 2400.0
"""In which the clients of an hour come; then they end, and what they left expires."""
RETENTION_S: Final = 300
NIGHT_H: Final = {"memory": 1, "sqlite": 26, "shared": 26, "redis": 2}
"""After the day, without a client: SQLite remembers ids for 24 hours, Redis for one."""

SELDOM: Final = (
    (watchdog, "CHECK_S", 30.0),
    (sqlite_log, "LOOK_AFTER_S", 60.0),
    (sqlite_log, "SWEEP_S", 120.0),
    (feed, "REST_S", 20.0),
    (tails, "LOOK_S", 200.0),
    (redis_log, "BLOCK_S", 200.0),
    (tails, "XREAD", (*tails.XREAD[:-1], 200_000)),
)
"""How often tasks look for work: as often as usual, that takes millions of turns of the loop."""

SETTLED: Final = 4
"""Hours after which caches and pools have their size."""

ISSUER: Final = "ssk_simulated_3"
"""The key that makes client secrets."""
USERS: Final = 8
"""New ones in an hour, each with an account."""

DEFAULT_ROOM: Final = 8
ROOM: Final = {"blocks of memory": 4000}
"""How much more there may be at the end than when it had settled."""


EMPTY_AT_NIGHT: Final = (
    *("streams", "readers", "bytes of requests", "running streams in the log"),
    *("places of targets", "streams in memory", "bytes of events"),
    *("rows of streams", "rows of infos", "rows of pages", "rows of tail", "rows of reservations"),
    *("rows of idempotency_keys", "rows of names", "rows of readers", "rows of notes"),
    *("keys seseragi:*:meta", "keys seseragi:*:log", "keys seseragi:key:*", "keys seseragi:name:*"),
    *("members of seseragi:held", "members of seseragi:holds"),
)
"""Of which nothing may be left after the night."""


class DayFeatures(Features):
    """Relays that mostly work well, with all that expires."""

    def __init__(self, dice: random.Random, log: str) -> None:
        super().__init__(dice)
        self.log, self.keys, self.budget, self.strict = log, True, False, False
        self.wires = ["openai_chat", "anthropic", "openai_responses"]
        self.rescue, self.hedge, self.resume = True, True, True
        self.hook, self.takeover, self.restarts = "", False, False
        self.attempts, self.linger_s, self.status_wait_s = 2, 2, 5
        self.total_timeout_s, self.gap_timeout_s = 60, 12
        self.trouble, self.disorder = 0.05, 0.0
        self.replicas = 2 if log in ("shared", "redis") else 1
        self.start = STARTS[1] - 12 * HOUR_S
        """The month ends at noon."""

    def table(self, folder: Path) -> str:
        digest = sha256(ISSUER.encode()).hexdigest()
        return "\n".join(
            (
                f"retention_s = {RETENTION_S}",
                super().table(folder).replace("lease_s=3", "lease_s=600"),
                f'[[key]]\nname = "secrets"\nsha256 = "{digest}"\nroles = ["client_secrets"]',
                "[limits.user]\nstreams = 100\nusd_per_month = 1000",
            )
        )


class DayClient(Client):
    """A client whose requests are a chat's."""

    @property
    def _headers(self) -> dict[str, str]:
        return {**super()._headers, "seseragi-chat": f"chat-{int(self.plan.marker[1:]) // 3}"}


class Day(World):
    """Relays over one log, for a day and the night after it."""

    def __init__(
        self, dice: random.Random, loop: SimulatedLoop, *, log: str, streams: int, hours: int
    ) -> None:
        super().__init__(dice, loop, features=DayFeatures(dice, log))
        loop.most_turns = float("inf")
        self.counts: list[Counter[str]] = []
        """What was held at the end of each hour."""
        self.at_last: Counter[str] = Counter()
        """What is held after the night."""
        self.created = 0
        """Streams of all hours."""
        self.faults: list[str] = []
        self._hours, self._streams = hours, streams
        self._numbers = itertools.count(1)
        self._own_blocks = 0
        """Of the counts themselves."""

    async def run(self) -> None:
        await self._begin()
        for hour in range(self._hours):
            ends_at = self.loop.time() + HOUR_S
            await self._live_an_hour(hour)
            await self._be_quiet_until(ends_at)
            self.counts.append(self._count())
        await self._be_quiet_until(self.loop.time() + NIGHT_H[self.features.log] * HOUR_S)
        self.at_last = self._count()
        await self._end()
        self._note_faults()

    async def _live_an_hour(self, hour: int) -> None:
        dice = self._dice
        models = ["r", *[f"{one.name}/m" for one in self._providers]]
        for one in self._providers:
            one.well = False
        coming = []
        for _ in range(self._streams // self._hours):
            number = next(self._numbers)
            plan = Plan.draw(dice, number, models=models, credentials=CREDENTIALS)
            begins_at = dice.random() * BUSY_S
            user = f"u{hour}-{dice.randrange(USERS)}" if dice.random() < 0.5 else ""
            coming.append(self._spawn(self._come(replace(plan, begins_at=0), begins_at, user)))
        others = [self._spawn(strike(self, fault)) for fault in self._draw_faults(hour)]
        await self._within(BUSY_S + PATIENCE_S, "a client", asyncio.wait([*coming, *others]))
        for one in self._providers:
            one.well = True
        await self._within(PATIENCE_S, "a client", self._await_others())
        await self._within(PATIENCE_S, "a stream", self._await_quiet())

    async def _come(self, plan: Plan, begins_at: float, user: str) -> None:
        await asyncio.sleep(begins_at)
        if user and (secret := await self._fetch_secret(user)):
            plan = replace(plan, credential=secret)
        client = DayClient(plan, self.history, self._choose, spawn=self._spawn)
        self.clients.append(client)
        await client.live()
        headers = {"authorization": f"Bearer {plan.credential}"}
        for path in ("/v1/streams", "/v1/usage") if begins_at % 1 < 0.2 else ():
            with suppress(Cut):
                answer = await ask(self._choose(), "GET", path, headers=headers)
                await answer.read()
                answer.leave()
        if begins_at % 1 > 0.95:
            await self._watch(headers)

    async def _fetch_secret(self, user: str) -> str:
        headers = {"authorization": f"Bearer {ISSUER}"}
        with suppress(Cut):
            answer = await ask(
                self._choose(), "POST", "/v1/client_secrets", body={"user": user}, headers=headers
            )
            content = await answer.read()
            answer.leave()
            return str(json.loads(content)["value"]) if answer.status < 300 else ""
        return ""

    async def _watch(self, headers: dict[str, str]) -> None:
        """Watch the streams of an owner for half a minute."""
        until = self.loop.time() + 30
        with suppress(Cut):
            answer = await ask(
                self._choose(), "GET", "/v1/streams/watch?events=true", headers=headers
            )
            async for _ in answer.pieces():  # heartbeats, if nothing else
                if self.loop.time() > until:
                    break
            answer.leave()

    def _choose(self) -> tuple[str, int]:
        return f"10.1.0.{self._dice.randint(1, self.features.replicas)}", 80

    def _draw_faults(self, hour: int) -> Iterator[Fault]:
        """Yield what goes wrong in an hour.

        A process is killed before the counts have settled, since its memory stays in this one;
        later the last process is started again, so that the first one shows what grows.
        """
        kinds = ["reset", "reset", "reset", "silence", "unreachable", "cancel", "reload"]
        if self.features.log != "memory" and hour in (1, 2, 7, 16):
            kinds.append("kill" if hour == 1 else "stop")
        for kind in kinds:
            at = self._dice.random() * BUSY_S / 2
            process = kind in ("kill", "stop")
            # The last of the processes, so that what grows in the first is seen.
            chance = 0.99 if process else self._dice.random()
            yield Fault(at, "", 0, kind, lasts_s=5, chance=chance)

    async def revive(self, process: Process) -> None:
        self.processes.remove(process)
        await super().revive(process)

    async def _be_quiet_until(self, ends_at: float) -> None:
        await asyncio.sleep(max(0, ends_at - self.loop.time()))

    def _note_faults(self) -> None:
        """Keep what no fault explains."""
        for record in self.history.records:
            self.created += record["what"] == "created"
            if record["what"] in ("hangs", "left over", "unhandled"):
                self.faults.append(str(record))

    # What is held

    def _count(self) -> Counter[str]:
        """Count what is held, without what the simulation holds itself."""
        self._note_faults()
        self.history.records.clear()
        self.clients.clear()
        for one in self._providers:
            one.calls.clear()
            one._stored.clear()
        for process in self.processes:
            process.parts.log._counts.clear()  # type: ignore[attr-defined]
        now = self.wall()
        for data in self.redis._server.dbs.values():  # as Redis does by itself
            for key, item in list(data._dict.items()):
                if item.expireat is not None and item.expireat < now:
                    del data._dict[key]
        gc.collect()
        found: Counter[str] = Counter()
        for process in self.processes:
            assert process.relay is not None
            load = process.relay.hub.load()
            found.update(holds(process))
            found.update({"streams in memory": load.log_streams, "bytes of events": load.log_bytes})
        found["tasks"] = sum(map(bool, self.loop.tasks.values()))
        timers = [one for one in self.loop._scheduled if not one._cancelled]  # type: ignore[attr-defined]
        found["timers"] = len(timers)
        contexts: list[Any] = [one._context for one in self.loop.network.open]
        found["connections"] = sum(bool(one.get(PROCESS)) for one in contexts)
        blocks = sys.getallocatedblocks()
        found["blocks of memory"] = blocks - self._own_blocks
        if self.features.log == "redis":
            found += self._count_keys()
        elif self.features.log != "memory":
            found += self._count_rows()
        found += _count_objects()
        self._own_blocks += sys.getallocatedblocks() - blocks
        return found

    def _count_rows(self) -> Counter[str]:
        """Count the rows in the tables; a file that a process has for itself is asked there."""
        path = self.folder / "log.db"
        found = Counter({"KiB of the file": path.stat().st_size // 1024})
        found["files"] = len(list(self.folder.iterdir()))
        log: Any = self.processes[0].parts.log
        execute = log._database._connection.execute
        for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found[f"rows of {name}"] = execute(f"SELECT count(*) FROM {name}").fetchone()[0]  # noqa: S608
        return found

    def _count_keys(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for data in self.redis._server.dbs.values():
            for key, item in data._dict.items():
                kind = re.sub(r"\{.*\}|(?<=:)[0-9a-f]{16,}|(?<=ing:|ded:).*", "*", key.decode())
                found[f"keys {kind}"] += 1
                if not isinstance(item.value, bytes) and isinstance(item.value, Sized):
                    found[f"members of {kind}"] += len(item.value)
                if item.expireat is None:
                    found[f"keys {kind} that never expire"] += 1
        return found


_CONTAINERS: Final = (dict, list, set, deque)


def _count_objects() -> Counter[str]:
    """Count the objects of the relay by type, and what is in their containers, by attribute."""
    found: Counter[str] = Counter()
    names: dict[type, str] = {}
    for one in gc.get_objects():
        kind = type(one)
        if (name := names.get(kind)) is None:
            module = str(kind.__module__)
            ours = module.startswith("app.")
            name = names[kind] = f"{module[4:]}.{kind.__qualname__}" if ours else ""
        if name:
            found[f"objects {name}"] += 1
            for attribute, value in _attributes(one):
                if isinstance(value, _CONTAINERS) and value:
                    found[f"entries of {name}.{attribute}"] += len(value)
    for module, content in list(sys.modules.items()):
        if module.startswith("app."):
            for attribute, value in vars(content).items():
                if attribute.startswith("__"):
                    continue
                if isinstance(value, _CONTAINERS):
                    found[f"entries of {module[4:]}.{attribute}"] = len(value)
                elif isinstance(value, _lru_cache_wrapper):
                    found[f"entries of {module[4:]}.{attribute}"] = value.cache_info().currsize
    return found


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(one, "__dict__", {}).items()
    for kind in type(one).__mro__:
        for slot in kind.__dict__.get("__slots__", ()):
            with suppress(AttributeError):
                yield slot, getattr(one, slot)


def bounds(streams: int, hours: int, *, replicas: int) -> dict[str, float]:
    """Return what is held for long by design, and how much of it at most."""
    hourly, urls = streams / hours, targets._parse_url.cache_info().maxsize or 0
    return {
        # Ids of removed streams are reported as expired, not unknown.
        "entries of eventlog.memory.MemoryLog._gone": memory.REMEMBERED_IDS,
        "rows of streams": min(1.1 * streams, database.REMEMBERED_IDS),
        "KiB of the file": 512 + 0.25 * min(1.1 * streams, database.REMEMBERED_IDS),
        # In Redis for an hour more than a stream.
        "keys seseragi:*:meta": 3 * hourly,
        "members of seseragi:*:meta": 3 * 12 * hourly,
        # Of all users of a month and the one before; in Redis for 40 days.
        "keys seseragi:account:*": USERS * hours + 8,
        "rows of accounts": USERS * hours + 8,
        "entries of eventlog.accounts.MemoryAccounts._accounts": max(
            FEW_ACCOUNTS, 2 * (USERS * hours + 8)
        ),
        "objects ledger.accounts.AccountState": max(FEW_ACCOUNTS, 2 * (USERS * hours + 8)),
        # Those that were used last.
        "entries of identity.tokens.Tokens._verdicts": replicas * tokens.REMEMBERED,
        "objects identity.tokens._Verdict": replicas * tokens.REMEMBERED,
        "objects identity.tokens._Claims": replicas * tokens.REMEMBERED,
        "objects identity.principal.Principal": 2 * replicas * tokens.REMEMBERED,
        "entries of identity.principal.Principal.__dict__": 4 * replicas * tokens.REMEMBERED,
        "entries of generation.reservation._limit_money": reservation.REMEMBERED,
        "entries of generation.reservation._limit_output": reservation.REMEMBERED,
        "entries of upstreams.targets._parse_url": urls,
        "objects upstreams.http_call.CallUrl": urls,
        "objects upstreams.http_call.Origin": urls,
        "entries of policies.admission.Admission._table": replicas * admission.MAX_ADDRESSES,
    }


def grown(day: Day, *, streams: int, hours: int) -> list[str]:
    """Return what has grown in the day, and what is left after the night."""
    settled, last = day.counts[SETTLED : hours * 2 // 3], day.counts[-3:]
    limits = bounds(streams, hours, replicas=day.features.replicas)
    found = []
    for name in sorted({name for counts in (*day.counts, day.at_last) for name in counts}):
        # A leak is above all that was before, whenever it is looked at.
        least, most = min(one[name] for one in last), max(one[name] for one in settled)
        room = ROOM.get(name, DEFAULT_ROOM)
        room += streams if name == "blocks of memory" else 0  # the ids of `bounds`
        limit = limits.get(name, most + room)
        if least > limit:
            found.append(f"{name}: {most} when settled, {least} or more at the end")
        if day.at_last[name] > (0 if name in EMPTY_AT_NIGHT else limit):
            found.append(f"{name}: {most} when settled, {day.at_last[name]} after the night")
    return found + day.faults


def run_day(log: str, *, streams: int, seed: int = 1, hours: int = 24) -> Day:
    """Run a day, and return it."""
    gc.collect()
    gc.freeze()  # what is there before is not counted
    try:
        with ExitStack() as stack:
            for module, name, value in SELDOM:
                stack.enter_context(patch.object(module, name, value))
            return run_in_world(seed, partial(Day, log=log, streams=streams, hours=hours))
    finally:
        gc.unfreeze()


def main(words: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.day", description=__doc__)
    parser.add_argument("--log", choices=LOGS, action="append", help="or several; default: all")
    parser.add_argument("--streams", type=int, default=2400, help="of the day")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print all counts")
    options = parser.parse_args(words)
    status = 0
    for log in options.log or LOGS:
        began = time.process_time()
        day = run_day(log, streams=options.streams, seed=options.seed, hours=options.hours)
        found = grown(day, streams=options.streams, hours=options.hours)
        status |= bool(found)
        took_s = time.process_time() - began
        print(f"{log}: {day.created} streams, {took_s:.0f} s; {len(found) or 'nothing'} grew")
        print("".join(f"  {one}\n" for one in found), end="", flush=True)
        if options.all:
            for name in sorted({name for one in day.counts for name in one}):
                values = " ".join(str(one[name]) for one in (*day.counts, day.at_last))
                print(f"    {name}: {values}")
    return status


if __name__ == "__main__":
    sys.exit(main())

"""The parts of the measurement, one function each, which returns lines of the table.

Rounds take turns over the relays, since machines differ from minute to minute, and every round
of a relay is a fresh process: memory is measured first, before any heap is left over. On a busy
machine the relays run `together` instead, with a share of the streams each: what disturbs one
disturbs all, so their ratios vary less, but their delays are those of a shared core.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from bench.load import Load, Result, Target, Unavailable
from bench.machine import cpu_s, resident_kib
from bench.relays import Relay, environ_of, free_port, started
from bench.tls import terminated

Figures = dict[str, float]
DENSE_STREAMS = 300
RATE = 20
LIGHT_STREAMS = 10
IDLE_STREAMS = 300
LATE_MS = 5
TLS = "tls_"
"""Before the names of figures that were measured with the upstream behind TLS."""


@dataclass(frozen=True)
class Plan:
    """How long it may take; seconds are those of a measured window."""

    rounds: int = 3
    seconds: float = 4
    request_seconds: float = 2
    search_seconds: float = 2.5
    precision: float = 0.04
    parts: tuple[str, ...] = ()
    tls: bool = False
    """Measure also with the upstream behind TLS."""
    together: int = 1
    """How many relays share the core at a time."""


QUICK = Plan(rounds=1, seconds=1.5, request_seconds=0.5, search_seconds=1.5, precision=0.15)


@dataclass
class Row:
    """All that was measured of a relay: a figure of each round, by column."""

    relay: Relay
    rounds: dict[str, list[float]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    late: dict[str, float] = field(default_factory=dict)
    """Parts in which the load generator itself was late, and by how many ms at p99."""

    def add(self, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self.rounds.setdefault(name, []).append(value)

    def fail(self, fault: Unavailable) -> None:
        self.complaints.append(str(fault))
        say(f"{self.relay.name}: {fault}")

    def check(self, part: str, result: Result) -> Result:
        """Keep what went wrong; a round with lost tokens is no measurement to be silent on."""
        if not result.tokens:
            raise Unavailable(f"{part}: not one token came through: {result.complaint}")
        if result.complaint:
            self.complaints.append(f"{part}: {result.complaint}")
        if result.late_ms.p99 > LATE_MS:
            self.late[part] = max(self.late.get(part, 0), result.late_ms.p99)
        return result


def imported(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """Import the relay in a process of its own; the second time, with its bytecode stored."""
    if not row.relay.imported:
        return {}
    for _ in range(2):
        done = subprocess.run(
            row.relay.imported,
            env=environ_of(row.relay, {}),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Unavailable(f"import: {done.stderr.strip()[-300:]}")
    modules, seconds = done.stdout.split()
    return {"import_modules": float(modules), "import_cpu_s": float(seconds)}


def rest(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """Memory and CPU of a relay that has just begun to listen."""
    if target.pid is None:
        return {}
    memory = {"rest_mib": resident_kib(target.pid) / 1024}
    return memory | ({"start_cpu_s": cpu_s(target.pid)} if row.relay.imported else {})


def idle(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    result = row.check("idle", load("idle", target, streams=IDLE_STREAMS, settle=1))
    return {"idle_kib": result.kib_per_stream}


def requests(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    result = row.check("requests", load("requests", target, seconds=plan.request_seconds))
    return {
        **({"request_us": result.us_per_request} if target.pid else {}),
        "first_p50_ms": result.first_ms.p50,
        "first_p99_ms": result.first_ms.p99,
    }


def dense(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    streams = DENSE_STREAMS // plan.together
    # The starts take a second of CPU over TLS, and what waits for them is late for another.
    options = {"streams": streams, "rate": RATE, "seconds": plan.seconds, "warmup": 3}
    result = row.check("dense", load("paced", target, **options))
    return {
        **({"dense_us": result.us_per_token} if target.pid else {}),
        "added_p50_ms": result.added_ms.p50,
        "added_p99_ms": result.added_ms.p99,
        "added_p999_ms": result.added_ms.p999,
    }


def light(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """The delay of a token where streams are few, and nobody waits for company."""
    # They begin 5 ms out of step with each other.
    spread = LIGHT_STREAMS * (2 / RATE + 0.005)
    options = {"streams": LIGHT_STREAMS, "rate": RATE, "seconds": plan.seconds, "spread": spread}
    result = row.check("light", load("paced", target, **options))
    return {"light_p50_ms": result.added_ms.p50, "light_p99_ms": result.added_ms.p99}


def flood(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    result = row.check("flood", load("flood", target, seconds=plan.seconds, spread=0.2))
    return {"flood_us": result.us_per_token}


def after(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """The first token again, once 300 streams have been open at once."""
    options = {"seconds": plan.request_seconds, "preload": DENSE_STREAMS}
    result = row.check("after", load("requests", target, **options))
    return {"after_p50_ms": result.first_ms.p50, "after_p99_ms": result.first_ms.p99}


def search(load: Load, target: Target, plan: Plan, row: Row) -> Figures:
    """The most streams, sought from near where the last round found them."""
    known = row.rounds.get("most_streams")
    guess = known[-1] * 0.95 if known else _guess(row)
    options = {"streams": int(guess), "step": 1.1 if known else 1.3}
    options |= {"seconds": plan.search_seconds, "precision": plan.precision, "limit": 180}
    options |= {"warmup": 2}  # near its limit a relay is slow to catch up after the starts
    result = load("search", target, max_streams=6000, rate=RATE, **options)
    if not result.streams:
        raise Unavailable("search: no number of streams stays under the limit")
    row.check("search", result)
    return {"most_streams": result.streams, "most_us": result.us_per_token}


def _guess(row: Row) -> float:
    cost_us = row.rounds.get("dense_us", [100])[-1]
    return min(4000, max(20, 1e6 / (RATE * max(cost_us, 1))))


PARTS: dict[str, Callable[[Load, Target, Plan, Row], Figures]] = {
    "import": imported,
    "rest": rest,
    "idle": idle,
    "requests": requests,
    "light": light,
    "dense": dense,
    "flood": flood,
    "after": after,
    "search": search,
}
WITHOUT_RELAY = ("requests", "light", "dense")
"""What says something where there is no relay: what the measuring itself adds."""
WITHOUT_TLS = ("import", "rest")
"""What has nothing to do with the upstream."""


def measure(relays: list[Relay], load: Load, core: int, plan: Plan) -> list[Row]:
    """Run all parts of all rounds; report progress on stderr."""
    rows = [Row(relay) for relay in relays]
    groups = [rows] if plan.together > 1 else [[row] for row in rows]
    for number in range(plan.rounds):
        for group in groups:
            for tls in (False, True)[: 1 + plan.tls]:
                where = f"round {number + 1} of {plan.rounds}" + ", TLS" * tls
                _round(group, load, core, plan, where, tls=tls)
    return rows


def _round(rows: list[Row], load: Load, core: int, plan: Plan, where: str, *, tls: bool) -> None:
    """Run the parts, each of all rows at once: what disturbs one relay then disturbs all."""
    with contextlib.ExitStack() as stack:
        running = []
        for row in rows if not tls else filter(lambda row: row.relay.over_tls, rows):
            own_load = replace(load, upstream_port=free_port()) if plan.together > 1 else load
            port, authority = own_load.upstream_port, None
            try:
                if tls:
                    port, authority = stack.enter_context(terminated(own_load))
                target = started(row.relay, port, core, authority=authority)
                running.append((row, own_load, stack.enter_context(target)))
            except Unavailable as fault:
                row.fail(fault)
        if not running:
            return
        names = ", ".join(row.relay.name for row, *_ in running)
        with ThreadPoolExecutor(len(running)) as pool:
            for name in PARTS:
                if not plan.parts or name in plan.parts:
                    say(f"{where}, {names}: {name}")
                    list(pool.map(partial(_part, name, plan, tls), *zip(*running, strict=True)))


def _part(name: str, plan: Plan, tls: bool, row: Row, load: Load, target: Target) -> None:
    if (name in WITHOUT_TLS and tls) or (name not in WITHOUT_RELAY and not row.relay.command):
        return
    try:
        found = PARTS[name](load, target, plan, row)
    except Unavailable as fault:
        row.fail(fault)
    else:
        row.add({f"{TLS if tls else ''}{figure}": value for figure, value in found.items()})


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

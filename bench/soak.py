"""Many streams through one relay over each log: nothing of them may stay.

In batches streams come to their end, readers leave, and upstreams die; after each the relay has
time to forget what has ended, also their ids, and reports what it holds and what is stored.
"""

import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.load import Load, Target, Unavailable
from bench.measures import Figures, Plan, Row, say
from bench.redis import running_store
from bench.relays import Relay, own, started
from bench.resume import LOGS

SETTLING = 3
"""Batches after which the heap has settled, for good."""
AT_ONCE = 100
TOKENS = 5
RETENTION_S = 4
REMEMBERED_S = 4
"""How long ids of removed streams are known, instead of an hour in Redis and a day in SQLite."""
GROWTH = {"memory": 4096, "files": 0, "tasks": 0, "objects": 1000, "stored": 4096, "rows": 10}
"""What may be more at the end: of memory, 60 bytes a stream of 100,000."""

SPARE_S = {"memory": -REMEMBERED_S, "sqlite": REMEMBERED_S + 1, "redis": 12}
"""After how long, besides `REMEMBERED_S`, the ids of a batch are gone, once its streams are."""

Stored = Callable[[], tuple[int, int]]
"""Returns how many bytes and rows are stored."""


@dataclass(frozen=True)
class Held:
    """What a relay holds when nothing runs; memory and what is stored in KiB."""

    memory: int
    files: int
    tasks: int
    objects: int
    stored: int = 0
    rows: int = 0
    """In all tables of SQLite, or keys in Redis."""


def run(
    load: Load,
    core: int,
    plan: Plan,
    *,
    streams: int,
    batches: int = 10,
    retention_s: float = RETENTION_S,
) -> Row:
    """Print what is held after each batch over each log; what stayed is a complaint."""
    row = Row(own("seseragi, soak", path="/v1/chat"))
    for log in LOGS:
        if not plan.parts or log in plan.parts:
            say(f"{log}: {streams:,} streams")
            try:
                held = _soak(log, load, core, streams, batches, retention_s)
            except Unavailable as fault:
                row.fail(fault)
                continue
            row.add(_figures(log, streams, held))
            row.complaints += [f"{log}: {one}" for one in leaks(held)]
    print("\n".join(row.complaints) or "nothing stayed")
    return row


def _soak(
    log: str, load: Load, core: int, streams: int, batches: int, retention_s: float
) -> list[Held]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        url, stored = LOGS[log].format(folder=folder), lambda: (0, 0)
        if log == "sqlite":
            stored = lambda: _stored_in_file(folder)  # noqa: E731
        if log == "redis":
            store = stack.enter_context(running_store(load))
            url, stored = store.url, lambda: (store.memory(), store.client.dbsize())
        relay, counts = _watched(folder / "counts", url, retention_s), folder / "counts"
        target = stack.enter_context(started(relay, load.upstream_port, core))
        _batch(load, target, AT_ONCE)
        held = [_held(target, counts, stored, REMEMBERED_S + SPARE_S[log])]
        print(" ".join(f"{name:>8}" for name in ("streams", *GROWTH)))
        for number in range(1, batches + 1):
            _batch(load, target, streams // batches)
            held.append(last := _held(target, counts, stored, REMEMBERED_S + SPARE_S[log]))
            values = " ".join(f"{value:8}" for value in asdict(last).values())
            print(f"{number * (streams // batches):8} {values}")
            sys.stdout.flush()
    return held


def _settled(held: list[Held]) -> Held:
    return held[min(SETTLING, len(held) - 2)]


def leaks(held: list[Held]) -> list[str]:
    """Return what has grown."""
    first, settled, last = asdict(held[0]), asdict(_settled(held)), asdict(held[-1])
    return [
        f"{name} grew from {before[name]} to {last[name]}"
        for name, bound in GROWTH.items()
        # What the streams use up settles late; a file or a task never should.
        for before in [settled if bound else first]
        if last[name] > before[name] + bound
    ]


def _figures(log: str, streams: int, held: list[Held]) -> Figures:
    figures = {f"{log}_streams": float(streams)}
    for name in GROWTH:
        for when, one in (("settled", _settled(held)), ("end", held[-1])):
            figures[f"{log}_{name}_{when}"] = getattr(one, name)
    return figures


def summarize(found: Mapping[str, float]) -> str:
    """Return the rows of the documents' table."""
    lines = []
    for log in LOGS:
        if f"{log}_streams" in found:
            cells = [f"{found[f'{log}_streams']:,.0f}"]
            for name in GROWTH:
                unit = 1024 if name in ("memory", "stored") else 1
                form = ",.1f" if unit > 1 else ",.0f"
                values = [found[f"{log}_{name}_{when}"] / unit for when in ("settled", "end")]
                cells.append("; ".join(format(value, form) for value in values))
            lines.append(f"| {log} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _stored_in_file(folder: Path) -> tuple[int, int]:
    """Count in a copy: the relay has the file for itself."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        files = [Path(shutil.copy(file, name)) for file in folder.glob("log.db*")]
        size = sum(file.stat().st_size for file in files)
        with closing(sqlite3.connect(Path(name, "log.db"))) as copy:
            tables = copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            count = "SELECT count(*) FROM "
            return size, sum(copy.execute(count + table).fetchone()[0] for (table,) in tables)


def _watched(counts: Path, log: str, retention_s: float) -> Relay:
    relay = own(path="/v1/chat", log=log, retention_s=f"{retention_s:g}", linger_s="0")
    environ = {**relay.environ, "BENCH_COUNTS": str(counts)}
    environ["BENCH_REMEMBERED_S"] = str(REMEMBERED_S)
    command = (sys.executable, "-m", "bench.watched", "--port", "{port}")
    return replace(relay, command=command, environ=environ)


def _batch(load: Load, target: Target, streams: int) -> None:
    """Some streams to their end, some that are left, some whose upstream goes."""
    some = min(max(10, streams // 50), AT_ONCE)
    whole = {"streams": AT_ONCE, "requests": streams, "tokens": TOKENS, "warmup_requests": 0}
    left = {**whole, "requests": some, "tokens": 200, "rate": 50, "leave": 2}
    cut = {"streams": some, "tokens": TOKENS, "rate": 100}
    for mode, options in (
        ("work", whole),
        ("work", left),
        ("dead", {**cut, "act": "die"}),
        ("dead", {**cut, "act": "reset"}),
    ):
        result = load(mode, target, **options, spread=0.1)
        if result.complaint:
            raise Unavailable(f"the streams of the soak went wrong: {result.complaint}")


def _await_empty(port: int) -> None:
    """Wait until no stream is kept: `RETENTION_S` after the last has ended."""
    limit = time.monotonic() + RETENTION_S + 60
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
            if b"\nseseragi_log_streams 0.0\n" in reply.read():
                return
        if time.monotonic() > limit:
            raise Unavailable("the relay does not forget the streams that have ended")
        time.sleep(0.1)


def _held(target: Target, counts: Path, stored: Stored, forgets_s: float) -> Held:
    """Ask when the relay has had time to forget, until it tells the same twice."""
    if target.pid is None:
        raise Unavailable("the soak needs a relay")
    _await_empty(target.port)
    time.sleep(forgets_s)
    limit = time.monotonic() + 60
    held, same = _told(target.pid, counts, stored), 0
    while same < 2 and time.monotonic() < limit:
        time.sleep(1)
        before, held = held, _told(target.pid, counts, stored)
        alike = (before.files, before.tasks, before.rows) == (held.files, held.tasks, held.rows)
        same = same + 1 if alike else 0
    return held


def _told(pid: int, counts: Path, stored: Stored) -> Held:
    counts.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    limit = time.monotonic() + 60
    while not counts.exists():
        if time.monotonic() > limit:
            raise Unavailable("the relay does not tell what it holds")
        time.sleep(0.02)
    tasks, objects = map(int, counts.read_text().split())
    files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    memory, (size, rows) = int(rollup.split("Pss:")[1].split()[0]), stored()
    return Held(memory, files, tasks, objects, size // 1024, rows)

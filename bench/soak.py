"""Many streams through one relay: nothing of them may stay.

In batches streams come to their end, readers leave, and upstreams die; after each the
relay has time to forget what has ended, and tells what it holds.
"""

import os
import signal
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

from bench.load import Load, Target, Unavailable
from bench.relays import Relay, own, started

SETTLING = 3
"""Batches after which the heap has settled, for good."""
AT_ONCE = 100
TOKENS = 5
RETENTION_S = 4
GROWTH_KIB = 4096
"""What memory may grow from there to the end: 60 bytes a stream of 100,000."""
GROWTH_OBJECTS = 1000


@dataclass(frozen=True)
class Held:
    """What a relay holds when nothing runs; memory in KiB."""

    memory: int
    files: int
    tasks: int
    objects: int


def run(
    load: Load, core: int, *, streams: int, batches: int = 10, retention_s: float = RETENTION_S
) -> int:
    """Print what is held after each batch; 1 if something stayed."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        counts = Path(folder) / "counts"
        with started(_watched(counts, retention_s), load.upstream_port, core) as target:
            _batch(load, target, AT_ONCE)
            held = [_held(target, counts)]
            print(f"{'streams':>8} {'PSS KiB':>9} {'files':>6} {'tasks':>6} {'objects':>8}")
            for number in range(1, batches + 1):
                _batch(load, target, streams // batches)
                held.append(last := _held(target, counts))
                done = number * (streams // batches)
                print(f"{done:8} {last.memory:9} {last.files:6} {last.tasks:6} {last.objects:8}")
                sys.stdout.flush()
    faults = leaks(held)
    print("\n".join(faults) if faults else "nothing stayed")
    return int(bool(faults))


def leaks(held: list[Held]) -> list[str]:
    """Return what has grown."""
    first, settled, last = held[0], held[min(SETTLING, len(held) - 2)], held[-1]
    found = []
    if last.memory > settled.memory + GROWTH_KIB:
        found.append(f"memory grew from {settled.memory} to {last.memory} KiB")
    if last.files > first.files:
        found.append(f"{last.files - first.files} files stayed open")
    if last.tasks > first.tasks:
        found.append(f"{last.tasks - first.tasks} tasks still run")
    if last.objects > settled.objects + GROWTH_OBJECTS:
        found.append(f"objects grew from {settled.objects} to {last.objects}")
    return found


def _watched(counts: Path, retention_s: float) -> Relay:
    relay = own(path="/v1/chat", retention_s=f"{retention_s:g}", linger_s="0")
    environ = {**relay.environ, "BENCH_COUNTS": str(counts)}
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


def _held(target: Target, counts: Path) -> Held:
    """Ask when the relay has had time to forget, until it tells the same twice."""
    if target.pid is None:
        raise Unavailable("the soak needs a relay")
    _await_empty(target.port)
    time.sleep(0.5)
    held = _told(target.pid, counts)
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        before, held = held, _told(target.pid, counts)
        if (before.files, before.tasks) == (held.files, held.tasks):
            break
        time.sleep(0.1)
    return held


def _told(pid: int, counts: Path) -> Held:
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
    return Held(int(rollup.split("Pss:")[1].split()[0]), files, tasks, objects)

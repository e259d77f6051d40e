"""What the Redis log costs: at the owner of a stream, at a reader elsewhere, in Redis itself.

Each part has fresh processes. Relays have one core; Redis shares that of the load generator.
It writes its file, as `compose.yaml` has it do. Its
commands, bytes and events are those of its whole life, by its own count.
"""

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bench.load import Load, Target, Unavailable
from bench.machine import describe, summary
from bench.measures import DENSE_STREAMS, RATE, Figures, Plan, Row, say
from bench.relays import own, redis_server, started

LIGHT, HEAVY = 100, 400
"""Streams at which the share of Redis is measured, to find what the next stream adds."""

READ_STREAMS = 100
PACE: Mapping[str, float] = {"rate": RATE}
KEPT_STREAMS = 200
SHORT, LONG = 100, 1100
"""Tokens of streams whose memory is compared."""


@dataclass(frozen=True)
class Store:
    """A running Redis, as `--log` and for questions."""

    url: str
    pid: int
    client: Any

    def count(self) -> Figures:
        """Return what it was asked, over all that it was given to keep."""
        commands = self.client.info("commandstats")
        stats = self.client.info("stats")
        events = commands["cmdstat_xadd"]["calls"]
        return {
            "events": events,
            "commands": sum(one["calls"] for one in commands.values()) / events,
            "scripts": commands["cmdstat_evalsha"]["calls"] / events,
            "round_trips": stats["total_reads_processed"] / events,
            "bytes_in": stats["total_net_input_bytes"] / events,
            "bytes_out": stats["total_net_output_bytes"] / events,
            "file_bytes": self.client.info("persistence")["aof_current_size"] / events,
        }

    def memory(self) -> int:
        used: int = self.client.info("memory")["used_memory"]
        return used


@contextlib.contextmanager
def running_store(load: Load) -> Iterator[Store]:
    """Run a Redis that is gone afterwards."""
    try:
        from redis import Redis
    except ImportError:
        raise Unavailable("no redis-py: pip install -e '.[redis]'") from None
    with started(redis_server(), load.upstream_port, load.core) as target:
        assert target.pid is not None  # noqa: S101  (for mypy)
        with Redis(port=target.port) as client:
            yield Store(f"redis://127.0.0.1:{target.port}/0", target.pid, client)


@contextlib.contextmanager
def _over_redis(load: Load, core: int) -> Iterator[tuple[Store, Target]]:
    """Run a relay over a Redis, whose CPU is counted second."""
    with (
        running_store(load) as store,
        started(own(path="/v1/chat", log=store.url), load.upstream_port, core) as target,
    ):
        yield store, replace(target, others=(store.pid,))


def _owner(load: Load, core: int, plan: Plan, row: Row) -> Figures:
    """The same load with the log in memory and in Redis."""
    options = {**PACE, "streams": DENSE_STREAMS, "seconds": plan.seconds}
    with started(own(path="/v1/chat"), load.upstream_port, core) as target:
        memory = row.check("memory", load("paced", target, **options))
    with _over_redis(load, core) as (store, target):
        shared = row.check("owner", load("paced", target, **options))
        counts = store.count()
    relay_s, redis_s = shared.each_cpu_s
    if not memory.cpu_s:
        raise Unavailable("the relay got no CPU while it was measured: the machine is too busy")
    cost_us, memory_us = relay_s / shared.tokens * 1e6, memory.cpu_s / memory.tokens * 1e6
    return {
        "memory_us": memory_us,
        "owner_us": cost_us,
        "ratio": cost_us / memory_us,
        "redis_us": redis_s / shared.tokens * 1e6,
        "added_p50_ms": shared.added_ms.p50,
        "added_p99_ms": shared.added_ms.p99,
        "memory_added_p50_ms": memory.added_ms.p50,
        **counts,
    }


def _elsewhere(load: Load, core: int, plan: Plan, row: Row) -> Figures:
    """Readers of each stream at another relay, and without them."""
    options = {**PACE, "streams": READ_STREAMS, "seconds": plan.seconds}
    with _over_redis(load, core) as (store, target):
        alone = row.check("without readers", load("paced", target, **options))
    with (
        _over_redis(load, core) as (store, target),
        started(own(path="/v1/chat", log=store.url), load.upstream_port, core) as other,
    ):
        assert other.pid is not None  # noqa: S101  (for mypy)
        both = replace(target, others=(store.pid, other.pid))
        options |= {"readers": 1, "readers_port": other.port}
        read = row.check("elsewhere", load("paced", both, **options))
        counts = store.count()
    redis_s, other_s = read.each_cpu_s[1:]
    before_us = alone.each_cpu_s[1] / alone.written * 1e6
    return {
        "elsewhere_us": other_s / read.written * 1e6,
        "elsewhere_redis_us": redis_s / read.written * 1e6 - before_us,
        "elsewhere_added_p50_ms": read.added_ms.p50,
        "elsewhere_round_trips": counts["round_trips"],
        "elsewhere_bytes_out": counts["bytes_out"],
    }


def _share(load: Load, core: int, plan: Plan, row: Row) -> Figures:
    """The share of a core that Redis takes at two loads, and what a stream adds to it."""
    shares = []
    with _over_redis(load, core) as (_, target):
        for streams in (LIGHT, HEAVY):
            options = {**PACE, "streams": streams, "seconds": plan.seconds}
            result = row.check(f"{streams} streams", load("paced", target, **options))
            shares.append(result.each_cpu_s[1] / result.seconds)
    light, heavy = shares
    a_stream = (heavy - light) / (HEAVY - LIGHT)
    return {
        "share_light": light,
        "share_heavy": heavy,
        "streams_cautious": HEAVY / heavy,
        "streams_marginal": HEAVY + (1 - heavy) / a_stream if a_stream > 0 else 0,
    }


def _memory(load: Load, core: int, plan: Plan, row: Row) -> Figures:
    """What ended streams take in Redis: some that are short, then some that are longer."""
    used = []
    with _over_redis(load, core) as (store, target):
        used.append((store.memory(), 0))
        for tokens in (SHORT, LONG):
            options = {"streams": 20, "requests": KEPT_STREAMS, "tokens": tokens, "rate": 0}
            row.check(f"{tokens} tokens", load("work", target, **options, warmup_requests=0))
            used.append(
                (store.memory(), store.client.info("commandstats")["cmdstat_xadd"]["calls"])
            )
    (start, _), (short, few), (long, many) = used
    growth = (long - short) - (short - start)
    events = (many - few) - few
    return {
        "event_bytes": growth / events,
        "stream_bytes": ((short - start) - few * growth / events) / KEPT_STREAMS,
    }


PARTS: dict[str, Callable[[Load, int, Plan, Row], Figures]] = {
    "owner": _owner,
    "elsewhere": _elsewhere,
    "share": _share,
    "memory": _memory,
}


def run(load: Load, core: int, plan: Plan) -> Row:
    """Measure all parts in rounds, and print them."""
    row = Row(own("seseragi, Redis", path="/v1/chat", log="redis"))
    for number in range(plan.rounds):
        for name, part in PARTS.items():
            if not plan.parts or name in plan.parts:
                say(f"round {number + 1} of {plan.rounds}: {name}")
                row.add(part(load, core, plan, row))
    for line in render(row):
        print(line)
    print(summary(describe()))
    for complaint in row.complaints:
        print(complaint)
    return row


LINES = (
    ("a token at the owner, log in memory", "memory_us", "{:.1f} us of CPU"),
    ("a token at the owner, log in Redis", "owner_us", "{:.1f} us"),
    ("that over the log in memory", "ratio", "{:.2f} times"),
    ("a token in Redis, without readers elsewhere", "redis_us", "{:.1f} us"),
    ("scripts a token", "scripts", "{:.3f}"),
    ("commands a token, those in scripts counted", "commands", "{:.2f}"),
    ("times that Redis read from its connections, a token", "round_trips", "{:.3f}"),
    ("bytes into Redis, an event", "bytes_in", "{:.0f}"),
    ("bytes in its file, an event", "file_bytes", "{:.0f}"),
    ("delay of a token, log in memory, p50", "memory_added_p50_ms", "{:.2f} ms"),
    ("delay of a token, log in Redis, p50", "added_p50_ms", "{:.2f} ms"),
    ("delay of a token, log in Redis, p99", "added_p99_ms", "{:.2f} ms"),
    ("a token to a reader at another relay, there", "elsewhere_us", "{:.1f} us"),
    ("what it adds in Redis", "elsewhere_redis_us", "{:.1f} us"),
    ("bytes out of Redis for it, an event", "elsewhere_bytes_out", "{:.0f}"),
    (f"share of a core that Redis takes of {LIGHT} streams", "share_light", "{:.3f}"),
    (f"and of {HEAVY}", "share_heavy", "{:.3f}"),
    ("streams a Redis carries, at the cost there", "streams_cautious", "{:.0f}"),
    ("streams a Redis carries, by what a stream adds", "streams_marginal", "{:.0f}"),
    ("memory in Redis, a stream without events", "stream_bytes", "{:.0f} bytes"),
    ("memory in Redis, an event", "event_bytes", "{:.0f} bytes"),
)


def render(row: Row) -> list[str]:
    """Say each figure as the median of its rounds, with the least and the most."""
    lines = []
    for title, name, form in LINES:
        if values := row.rounds.get(name):
            text = form.format(statistics.median(values))
            if len(values) > 1:
                text += f" ({min(values):.3g} to {max(values):.3g})"
            lines.append(f"{title}: {text}")
    return lines

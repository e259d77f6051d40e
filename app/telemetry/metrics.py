"""Prometheus metrics: updated once a stream, never for a token.

No label is text from a client: routes, upstreams and targets are those of the settings, codes
and statuses our own; a model name that passes through is labelled with its upstream's name. So
the number of series is bounded.

The counters of all workers are in shared memory, so that any worker can answer a scrape. Each
worker publishes its gauges there every second; those of a stopped worker are left out.
"""

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Final, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from .. import __version__
from ..dialects.client_formats import CLIENT_FORMATS
from ..errors import CODES
from ..eventlog.stream_ended import ProviderReply, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import Status, TokenCounts
from ..ledger.accounts import Account, AccountState
from ..ledger.rates import NANO
from ..policies.retry import State
from ..upstreams.routes import Upstreams
from . import families as f
from .activity import Load
from .families import FAMILIES, Family
from .observer import AttemptDropped, AttemptFailed, FirstEvent, Observer, ReaderJoined, Refused
from .shared_counters import Series, SharedCounters

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"

NONE: Final = "none"
"""The label if there is no code, format or endpoint."""
OTHER: Final = "other"
"""The label of unknown values: a code of another version, a name of earlier settings."""

STATUSES: Final = frozenset(get_args(Status))
STATES: Final = get_args(State)
METHODS: Final = frozenset(("GET", "HEAD", "POST", "DELETE", "OPTIONS"))
LEVELS: Final = ("debug", "info", "warning", "error", "critical")

BEAT_S: Final = 1.0
SCRAPE_POLL_S: Final = 0.1

_FAMILIES: Final = {family.name: family for family in FAMILIES}

REMEMBERED: Final = 256
"""Cached model names."""

KINDS: Final = (
    ("input", "input_tokens"),
    ("output", "output_tokens"),
    ("reasoning", "reasoning_tokens"),
    ("cached_input", "cached_input_tokens"),
    ("cache_write", "cache_write_tokens"),
)

LOAD: Final = (
    (f.STREAMS, "streams"),
    (f.READERS, "readers"),
    (f.DRAINING, "draining"),
    (f.LOG_HEALTHY, "log_healthy"),
    (f.LOG_STREAMS, "log_streams"),
    (f.LOG_BYTES, "log_bytes"),
    (f.REQUEST_BYTES, "request_bytes"),
)
"""The gauges of fields of `Load`."""

# Created at 0: the first increase of a new series is invisible to `increase()`.
EXPECTED_ENDS: Final = (
    ("completed", NONE, NONE),
    ("cancelled", NONE, "user"),
    ("cancelled", NONE, "reader_gone"),
    ("interrupted", "producer_lost", "relay_lost"),
    ("interrupted", "producer_lost", "shutdown"),
    ("failed", "internal", "relay"),
)


class LabelNames:
    """Maps names to the labels that the settings allow."""

    def __init__(self, upstreams: Upstreams) -> None:
        # 0.1 us instead of 3 for a repeated name.
        self._resolve = lru_cache(REMEMBERED)(upstreams.configured_name)
        self._names = frozenset(upstream.name for upstream in upstreams.all)
        self.routes = (*upstreams.routes, *sorted(self._names - set(upstreams.routes)))
        self.targets = frozenset(upstreams.configured_targets())
        self.route_targets = [
            (name, target.name)
            for name, route in upstreams.routes.items()
            for target in route.targets
        ]
        """Pairs of a route and one of its targets; an upstream is paired with itself."""
        self.route_targets += [(name, name) for name in sorted(self._names)]

    def route(self, name: str) -> str:
        """Return the name of the route, or of the upstream for a name that passes through."""
        return self._resolve(name) or OTHER

    def target(self, name: str | None) -> str:
        """Return `upstream/model` if the settings name the model, else the upstream's name."""
        if name is None:
            return NONE
        if name in self.targets:
            return name
        upstream = name.partition("/")[0]
        return upstream if upstream in self._names else OTHER


class _Offsets(dict[tuple[str, ...], int]):
    """The offsets of one process's series, by their metric and labels; new ones are allocated."""

    def __init__(self, counters: SharedCounters) -> None:
        super().__init__(
            ((series.metric, *series.labels), offset)
            for series, offset in counters.offsets().items()
        )
        self._counters = counters

    def __missing__(self, key: tuple[str, ...]) -> int:
        name, *labels = key
        size = _FAMILIES[name].size
        self[key] = offset = self._counters.allocate(Series(name, tuple(labels), size))
        return offset


class Metrics(Observer):
    """The metrics of this process, which writes to `shared_counters[own]`."""

    def __init__(
        self,
        names: LabelNames,
        shared_counters: Sequence[SharedCounters] = (),
        own: int = 0,
        *,
        process: int,
        rows_waiting: Callable[[], int] | None = None,
    ) -> None:
        self._names = names
        self._shared_counters = tuple(shared_counters) or (SharedCounters(),)
        self._own = self._shared_counters[own]
        self._values = self._own.values
        self._offsets = _Offsets(self._own)
        self._process = process
        self._load: Callable[[], Load] | None = None
        self._rows_waiting = rows_waiting
        self._webhooks: dict[str, Callable[[], tuple[float, float]]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._encoding = threading.Lock()
        self._begin_series()

    def add_webhook(
        self, name: str, measure: Callable[[], tuple[float, float]]
    ) -> Callable[[str], None]:
        """Measure how many ends wait for a webhook, and the age of the oldest.

        Return what counts the outcome of a call.
        """
        self._webhooks[name] = measure
        for outcome in ("delivered", "failed", "dropped"):
            self._add(f.WEBHOOK_CALLS, name, outcome, by=0)
        return partial(self._add, f.WEBHOOK_CALLS, name)

    def rename(self, names: LabelNames) -> None:
        """Use the labels of new settings."""
        self._names = names
        self._begin_series()

    def _begin_series(self) -> None:
        for route in self._names.routes:
            for end in EXPECTED_ENDS:
                self._add(f.ENDED, route, *end, by=0)
        for route, target in self._names.route_targets:
            self._add(f.COST, route, target, by=0)
            for family in (f.RETRIES, f.FALLBACKS, f.UNPRICED):
                self._add(family, target, by=0)
        for code in CODES:
            self._add(f.REFUSALS, code, by=0)
        for family in (f.ORPHANED, f.RESUMES):
            self._add(family, by=0)
        for level in (*LEVELS, OTHER):  # all: threads log too, and only one may create series
            self._add(f.LOG_LINES, level, by=0)

    # Counters

    def _add(self, family: Family, *labels: str, by: float = 1) -> None:
        self._values[self._offsets[family.name, *labels]] += by

    def _set(self, family: Family, *labels: str, to: float) -> None:
        self._values[self._offsets[family.name, *labels]] = to

    def _observe(self, family: Family, seconds: float, *labels: str) -> None:
        offset, buckets = self._offsets[family.name, *labels], family.buckets
        self._values[offset + bisect_left(buckets, seconds)] += 1
        self._values[offset + len(buckets) + 1] += seconds

    def started(self, info: StreamInfo) -> None:
        client_format = info.client_format or NONE
        if client_format not in CLIENT_FORMATS and client_format != NONE:
            client_format = OTHER
        self._add(f.STARTED, self._names.route(info.route), client_format)

    def attempt_failed(self, failed: AttemptFailed) -> None:
        target = self._names.target(failed.target)
        self._add(f.ATTEMPTS, target, _code(failed.error.code))
        again = failed.next_target == failed.target
        self._add(f.RETRIES if again else f.FALLBACKS, target)
        self._count_resent(target, failed.reply)

    def attempt_dropped(self, dropped: AttemptDropped) -> None:
        target = self._names.target(dropped.target)
        self._add(f.ATTEMPTS, target, "cancelled")
        self._add(f.DROPPED, target)
        self._count_resent(target, dropped.reply)

    def _count_resent(self, target: str, reply: ProviderReply | None) -> None:
        """Count the first sending of a request that was sent again."""
        if reply is not None and reply.resent:
            self._add(f.ATTEMPTS, target, "upstream_unavailable")
            self._add(f.RETRIES, target)

    def first_event(self, first: FirstEvent) -> None:
        self._observe(f.FIRST_EVENT, first.after_s, self._names.route(first.info.route))

    def ended(self, ended: StreamEnded) -> None:
        names, end = self._names, ended.end
        route, target = names.route(ended.info.route), names.target(ended.target)
        status = end.status if end.status in STATUSES else OTHER
        code = NONE if end.error is None else _code(end.error.code)
        self._add(f.ENDED, route, status, code, end.ended_by or NONE)
        if ended.lost:
            self._add(f.ORPHANED)
        if ended.target is not None:
            self._add(f.ATTEMPTS, target, status if code == NONE else code)
            self._count_resent(target, ended.reply)
        if ended.first_event_s is not None:
            self._observe(f.LONGEST_GAP, ended.longest_gap_s or 0.0, route)
        self._observe(f.DURATION, ended.duration_s, route)
        if end.usage is not None:
            self._count_usage(end.usage, target)
            if end.cost is None:
                self._add(f.UNPRICED, target)
        if end.cost is not None:
            self._add(f.COST, route, target, by=float(end.cost))

    def _count_usage(self, usage: TokenCounts, target: str) -> None:
        for kind, field in KINDS:
            count: int | None = getattr(usage, field)
            if count:
                self._add(f.TOKENS, target, kind, by=count)

    def refused(self, refused: Refused) -> None:
        self._add(f.REFUSALS, _code(refused.error.code))

    def reader_joined(self, joined: ReaderJoined) -> None:
        if joined.resumed:
            self._add(f.RESUMES)

    def answered(self, endpoint: str | None, method: str, status: int) -> None:
        """Count a request; `endpoint` is the path template of its route."""
        self._add(
            f.HTTP_REQUESTS,
            endpoint or NONE,
            method if method in METHODS else OTHER,
            str(status) if 100 <= status <= 599 else OTHER,
        )

    def logged(self, level: str) -> None:
        """Count a log line."""
        self._add(f.LOG_LINES, level if level in LEVELS else OTHER)

    # Gauges

    def open(self, load: Callable[[], Load]) -> None:
        """Measure the event loop's lag every second, and publish `load` with it."""
        self._load = load
        self._publish()
        self._beat_at(asyncio.get_running_loop().time() + BEAT_S)

    def close(self) -> None:
        """Stop the timer, and withdraw the gauges."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._own.leave()

    def _beat_at(self, due: float) -> None:
        self._timer = asyncio.get_running_loop().call_at(due, self._beat, due)

    def _beat(self, due: float) -> None:
        now = asyncio.get_running_loop().time()
        self._observe(f.LAG, max(0.0, now - due))
        if len(self._shared_counters) > 1:  # else `render` is enough
            self._publish()
        self._beat_at(now + BEAT_S)

    def _publish(self) -> None:
        """Write the gauges of this process to its shared counters."""
        self._own.enter(self._process)
        self._set(f.WORKERS, to=1)
        if self._load is not None:
            self._set_load(self._load())
        if self._rows_waiting is not None:
            self._set(f.RECORDS_WAITING, to=self._rows_waiting())
        for name, measure in self._webhooks.items():
            for family, value in zip((f.WEBHOOK_WAITING, f.WEBHOOK_OLDEST), measure(), strict=True):
                self._set(family, name, to=value)

    def _set_load(self, load: Load) -> None:
        for family, field in LOAD:
            self._set(family, to=float(getattr(load, field)))
        for target, state in load.breakers:
            for one in STATES:
                self._set(f.BREAKERS, target, one, to=float(state == one))

    # Exposition

    async def render(self, accounts: Sequence[tuple[Account, AccountState]] = ()) -> bytes:
        """Return the metrics of all workers, in the format of `PLAIN`.

        `accounts` are those with limits: read from the log, the same in each worker.
        """
        self._publish()
        self._own.scraped_at = time.monotonic_ns()
        return await asyncio.to_thread(self._encode, accounts)

    async def wait_for_scrape(self, within_s: float, *, unless: asyncio.Event) -> None:
        """Wait for the next scrape of any worker, at most `within_s`, or until `unless` is set."""
        since, waited = time.monotonic_ns(), 0.0
        while waited < within_s and not unless.is_set():
            if any(one.scraped_at >= since for one in self._shared_counters):
                return
            await asyncio.sleep(SCRAPE_POLL_S)
            waited += SCRAPE_POLL_S

    def _encode(self, accounts: Sequence[tuple[Account, AccountState]]) -> bytes:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_AllWorkers(self._shared_counters, accounts))
        with self._encoding:  # one at a time: some thousand series take 50 ms
            return generate_latest(registry)


def _code(code: str) -> str:
    return code if code in CODES else OTHER


class _AllWorkers(Collector):
    """Merges the counters of all workers, and adds the accounts."""

    def __init__(
        self,
        shared_counters: Sequence[SharedCounters],
        accounts: Sequence[tuple[Account, AccountState]],
    ) -> None:
        self._shared_counters = shared_counters
        self._accounts = accounts

    def collect(self) -> Iterator[Metric]:
        merged = self._merge()
        for family, labels, value in _usage_of(self._accounts):
            merged.setdefault(family.name, {})[labels] = [value]
        for family in FAMILIES:
            if family.name in merged:
                yield _to_metric(family, merged[family.name])
        yield from self._processes()
        info = Metric("seseragi_build_info", "The version, as a label.", "gauge")
        info.add_sample(info.name, {"version": __version__}, 1)
        yield info

    def _merge(self) -> dict[str, dict[tuple[str, ...], list[float]]]:
        merged: dict[str, dict[tuple[str, ...], list[float]]] = {}
        for counters in self._shared_counters:
            for series, values in counters.read():
                family = _FAMILIES[series.metric]
                if family.kind == "gauge" and not counters.process:
                    continue
                rows = merged.setdefault(family.name, {})
                before = rows.get(series.labels)
                if before is None:
                    rows[series.labels] = values
                elif family.over == "sum":
                    rows[series.labels] = [a + b for a, b in zip(before, values, strict=True)]
                else:
                    pick = min if family.over == "min" else max
                    rows[series.labels] = [pick(before[0], values[0])]
        return merged

    def _processes(self) -> Iterator[Metric]:
        """Yield the process metrics (CPU, memory, file descriptors) of each worker."""
        found: dict[str, Metric] = {}
        for number, counters in enumerate(self._shared_counters, 1):
            if not (process := counters.process):
                continue
            collector = ProcessCollector("seseragi", pid=partial(int, process), registry=None)
            for metric in collector.collect():
                whole = found.setdefault(
                    metric.name, Metric(metric.name, metric.documentation, metric.type)
                )
                for sample in metric.samples:
                    whole.add_sample(sample.name, {"worker": f"{number}"}, sample.value)
        yield from found.values()


def _usage_of(
    accounts: Sequence[tuple[Account, AccountState]],
) -> Iterator[tuple[Family, tuple[str, str], float]]:
    """Yield the spending and the budgets of each account."""
    for account, state in accounts:
        for name, period, limit in (
            ("day", state.day, account.nano_usd_per_day),
            ("month", state.month, account.nano_usd_per_month),
        ):
            labels = (account.name, name)
            yield f.ACCOUNT_USD, labels, period.nano_usd / NANO
            if limit is not None:
                yield f.ACCOUNT_USD_LIMIT, labels, limit / NANO


def _to_metric(family: Family, rows: dict[tuple[str, ...], list[float]]) -> Metric:
    metric, name = Metric(family.name, family.help, family.kind), family.name
    bounds = [*map(floatToGoString, family.buckets), "+Inf"]
    for row, values in rows.items():
        labels = dict(zip(family.labels, row, strict=True))
        if family.kind == "histogram":
            *counts, total = values
            so_far = 0.0
            for bound, count in zip(bounds, counts, strict=True):
                so_far += count
                metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, so_far)
            metric.add_sample(f"{name}_count", labels, so_far)
            metric.add_sample(f"{name}_sum", labels, total)
        else:
            suffix = "_total" if family.kind == "counter" else ""
            metric.add_sample(name + suffix, labels, values[0])
    return metric

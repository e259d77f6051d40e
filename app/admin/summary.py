"""Merges the snapshots of all processes into the response of `GET /v1/admin/summary`. Pure."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import TypeVar

import msgspec

from ..ledger.money import to_usd
from ..ledger.report import Overview
from .process_snapshot import (
    MAX_LAST,
    MAX_STREAMS,
    MINUTES,
    LastError,
    ProcessSnapshot,
    TargetState,
)

T = TypeVar("T")

WORST = ("resting", "open", "half-open", "closed")
"""The states of a target, worst first: the worst of all processes is shown."""


class ProcessView(msgspec.Struct, frozen=True):
    id: str
    host: str
    pid: int
    started_at: float
    at: float
    streams: int
    readers: int
    draining: bool
    log_healthy: bool


class LogView(msgspec.Struct, frozen=True):
    kind: str
    streams: int
    bytes: int


class LiveView(msgspec.Struct, frozen=True):
    id: str
    request_id: str
    owner: str
    tenant: str
    key: str | None
    user: str | None
    route: str
    target: str | None
    attempt: int
    failed_attempts: int
    started_at: float
    first_event_s: float | None
    events: int
    events_per_s: float
    gap_s: float
    longest_gap_s: float | None
    readers: int
    output_tokens: int | None
    cost: str | None
    process: str


class LiveViews(msgspec.Struct, frozen=True):
    total: int
    streams: list[LiveView]


class MoneyView(msgspec.Struct, frozen=True):
    accounts: list[Overview]
    more: int
    """Further accounts that are not listed."""
    known: bool = True
    """False if the log could not be read."""


class Share(msgspec.Struct, frozen=True):
    """The number of processes that skip a target."""

    open: int
    of: int


class TargetView(msgspec.Struct, frozen=True):
    target: str
    routes: list[str]
    state: str
    failures: int
    retry_at: float | None
    rests_until: float | None
    last_error: LastError | None
    processes: Share


class CodeView(msgspec.Struct, frozen=True):
    code: str
    count: int
    minutes: list[int]


class TroubleView(msgspec.Struct, frozen=True):
    at: float
    kind: str
    code: str
    message: str
    model: str | None
    request_id: str
    stream: str | None
    owner: str


class HourView(msgspec.Struct, frozen=True):
    since: float
    refused: list[CodeView]
    failed: list[CodeView]
    last: list[TroubleView]


class RecentView(msgspec.Struct, frozen=True):
    id: str
    ended_at: float
    status: str
    code: str | None
    route: str
    target: str | None
    cost: str | None
    output_tokens: int | None
    duration_s: float
    owner: str
    tenant: str
    key: str | None
    user: str | None


class RecordsView(msgspec.Struct, frozen=True):
    kind: str
    waiting: int


class Summary(msgspec.Struct, frozen=True):
    """The response; see PROTOCOL.md."""

    at: float
    version: str
    processes: list[ProcessView]
    log: LogView
    live: LiveViews
    money: MoneyView
    targets: list[TargetView]
    hour: HourView
    recent: list[RecentView]
    records: RecordsView | None


class Merged:
    """Merges snapshots one by one: each takes less than about a millisecond."""

    def __init__(self, routes: dict[str, list[str]]) -> None:
        """Prepare for the configured targets, each with its routes."""
        self._routes = routes
        self._snapshots: list[ProcessSnapshot] = []
        self._live: list[tuple[float, str, LiveView]] = []
        self._readers: Counter[str] = Counter()
        self._targets: dict[str, list[TargetState]] = {}
        self._refused: dict[str, Counter[int]] = {}
        self._failed: dict[str, Counter[int]] = {}
        self._last: list[TroubleView] = []
        self._recent: list[RecentView] = []

    def add(self, snapshot: ProcessSnapshot) -> None:
        """Add the snapshot of one process."""
        self._snapshots.append(snapshot)
        self._readers.update(snapshot.readers)
        self._add_live(snapshot)
        for target in snapshot.targets:
            if target.target in self._routes:
                self._targets.setdefault(target.target, []).append(target)
        for counted, minutes_of in (
            (self._refused, snapshot.refused),
            (self._failed, snapshot.failed),
        ):
            for code, minutes in minutes_of.items():
                counted.setdefault(code, Counter()).update(minutes)
        self._last += [
            TroubleView(
                t.at,
                "failed" if t.failed else "refused",
                t.code,
                t.message,
                t.model,
                t.request_id,
                t.stream,
                t.owner,
            )
            for t in snapshot.last[:MAX_LAST]
        ]
        self._recent += [
            RecentView(
                r.id,
                r.ended_at,
                r.status,
                r.code,
                r.route,
                r.target,
                r.cost,
                r.output_tokens,
                r.duration_s,
                r.owner,
                r.tenant,
                r.key or None,
                r.user or None,
            )
            for r in snapshot.recent[:MAX_LAST]
        ]
        self._last = _newest(self._last, "at")
        self._recent = _newest(self._recent, "ended_at")

    def _add_live(self, snapshot: ProcessSnapshot) -> None:
        self._live += [
            (
                s.started_at,
                s.id,
                LiveView(
                    s.id,
                    s.request_id,
                    s.owner,
                    s.tenant,
                    s.key or None,
                    s.user or None,
                    s.route,
                    s.target or None,
                    s.attempt,
                    s.attempt - 1,
                    s.started_at,
                    s.first_event_s,
                    s.events,
                    s.events_per_s,
                    s.gap_s,
                    s.longest_gap_s,
                    0,
                    s.output_tokens,
                    None if s.nano_usd is None else to_usd(s.nano_usd),
                    snapshot.process.id,
                ),
            )
            for s in snapshot.live[:MAX_STREAMS]
        ]
        if len(self._live) > MAX_STREAMS:
            self._live.sort(key=lambda row: row[:2])
            del self._live[MAX_STREAMS:]

    def summary(
        self, *, at: float, version: str, log: str, money: MoneyView, records: str | None
    ) -> Summary:
        """Return the summary; `log` and `records` are their kinds."""
        processes = [snapshot.process for snapshot in self._snapshots]
        self._live.sort(key=lambda row: row[:2])
        readers = self._readers
        waiting = [b.rows_waiting for b in self._snapshots if b.rows_waiting is not None]
        minute = int(at // 60)
        return Summary(
            at=round(at, 3),
            version=version,
            processes=[
                ProcessView(
                    p.id,
                    p.host,
                    p.pid,
                    p.started_at,
                    p.at,
                    p.streams,
                    p.readers,
                    p.draining,
                    p.log_healthy,
                )
                for p in sorted(processes, key=attrgetter("started_at", "id"))
            ],
            log=LogView(
                log, sum(p.log_streams for p in processes), sum(p.log_bytes for p in processes)
            ),
            live=LiveViews(
                sum(p.streams for p in processes),
                [
                    msgspec.structs.replace(view, readers=readers[view.id])
                    if view.id in readers
                    else view
                    for *_, view in self._live
                ],
            ),
            money=money,
            targets=[self._target(name, routes) for name, routes in self._routes.items()],
            hour=HourView(
                (minute - MINUTES + 1) * 60,
                _codes(self._refused, minute),
                _codes(self._failed, minute),
                self._last,
            ),
            recent=self._recent,
            records=None if records is None else RecordsView(records, max(waiting, default=0)),
        )

    def _target(self, name: str, routes: list[str]) -> TargetView:
        states = self._targets.get(name, [])
        worst = min((s.state for s in states), key=WORST.index, default="closed")
        errors = [s.last_error for s in states if s.last_error is not None]
        skipped = sum(s.state in ("open", "resting") for s in states)
        return TargetView(
            name,
            routes,
            worst.replace("-", "_"),
            sum(s.failures for s in states),
            _latest(s.retry_at for s in states),
            _latest(s.rests_until for s in states),
            max(errors, key=attrgetter("at"), default=None),
            Share(skipped, len(states)),
        )


def _newest(rows: list[T], when: str) -> list[T]:
    return sorted(rows, key=attrgetter(when), reverse=True)[:MAX_LAST]


def _latest(times: Iterable[float | None]) -> float | None:
    return max((time for time in times if time is not None), default=None)


def _codes(counted: dict[str, Counter[int]], minute: int) -> list[CodeView]:
    """Return the codes, most frequent first, with counts by minute, the current one last."""
    views = []
    for code, minutes in counted.items():
        row = [minutes[minute - MINUTES + 1 + at] for at in range(MINUTES)]
        if total := sum(row):
            views.append(CodeView(code, total, row))
    return sorted(views, key=attrgetter("count"), reverse=True)


_encode = msgspec.json.Encoder().encode


def render(summary: Summary) -> bytes:
    """Encode a summary as JSON."""
    return _encode(summary)

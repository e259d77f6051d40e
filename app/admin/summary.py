"""Merges the snapshots of all processes into the response of `GET /v1/admin/summary`. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from ..ledger.report import Overview
from .snapshot import (
    MAX_LAST,
    MAX_STREAMS,
    EndedStream,
    LastTrouble,
    LiveStream,
    Process,
    ProcessSnapshot,
    Share,
    TargetHealth,
    Trouble,
)

T = TypeVar("T")

MINUTES: Final = 60

WORST = ("resting", "open", "half-open", "closed")
"""The states of a target, worst first: the worst of all processes is shown."""


class Log(msgspec.Struct, frozen=True):
    kind: str
    streams: int
    bytes: int


class Live(msgspec.Struct, frozen=True):
    total: int
    streams: list[LiveStream]


class Money(msgspec.Struct, frozen=True):
    accounts: list[Overview]
    more: int
    """Further accounts that are not listed."""
    known: bool
    """False if the log could not be read."""


class CodeCount(msgspec.Struct, frozen=True):
    code: str
    count: int
    minutes: list[int]


class Hour(msgspec.Struct, frozen=True):
    since: float
    refused: list[CodeCount]
    failed: list[CodeCount]
    last: list[LastTrouble]


class Records(msgspec.Struct, frozen=True):
    kind: str
    waiting: int


class Summary(msgspec.Struct, frozen=True):
    """The response; see PROTOCOL.md."""

    at: float
    version: str
    processes: list[Process]
    log: Log
    live: Live
    money: Money
    targets: list[TargetHealth]
    hour: Hour
    recent: list[EndedStream]
    records: Records | None


class Merged:
    """Merges snapshots one by one: each takes less than about a millisecond."""

    def __init__(self, routes: Mapping[str, list[str]]) -> None:
        """Prepare for the configured targets, each with its routes."""
        self._routes = routes
        self._targets: dict[str, list[TargetHealth]] = {name: [] for name in routes}
        self._processes: list[Process] = []
        self._live: list[LiveStream] = []
        self._readers: Counter[str] = Counter()
        self._counts: dict[Trouble, dict[str, Counter[int]]] = {"refused": {}, "failed": {}}
        self._last: list[LastTrouble] = []
        self._recent: list[EndedStream] = []
        self._rows_waiting = 0

    def add(self, snapshot: ProcessSnapshot) -> None:
        """Add the snapshot of one process."""
        self._processes.append(snapshot.process)
        streams = sorted(self._live + snapshot.live, key=attrgetter("started_at", "id"))
        self._live = streams[:MAX_STREAMS]
        self._readers.update(snapshot.readers)
        for target in snapshot.targets:
            if target.target in self._targets:
                self._targets[target.target].append(target)
        for kind, counts in snapshot.counts.items():
            for code, minutes in counts.items():
                self._counts[kind].setdefault(code, Counter()).update(minutes)
        self._last = _newest(self._last + snapshot.last, "at")
        self._recent = _newest(self._recent + snapshot.recent, "ended_at")
        self._rows_waiting = max(self._rows_waiting, snapshot.rows_waiting)

    def summary(
        self, *, at: float, version: str, log: str, money: Money, records: str | None
    ) -> Summary:
        """Return the summary; `log` and `records` are their kinds."""
        processes, targets, readers = self._processes, self._targets, self._readers
        minute = int(at // 60)
        return Summary(
            at=round(at, 3),
            version=version,
            processes=sorted(processes, key=attrgetter("started_at", "id")),
            log=Log(
                log, sum(p.log_streams for p in processes), sum(p.log_bytes for p in processes)
            ),
            live=Live(
                sum(p.streams for p in processes),
                [msgspec.structs.replace(one, readers=readers[one.id]) for one in self._live],
            ),
            money=money,
            targets=[_merge(name, names, targets[name]) for name, names in self._routes.items()],
            hour=Hour(
                (minute - MINUTES + 1) * 60,
                _codes(self._counts["refused"], minute),
                _codes(self._counts["failed"], minute),
                self._last,
            ),
            recent=self._recent,
            records=None if records is None else Records(records, self._rows_waiting),
        )


def _merge(target: str, routes: list[str], seen: Sequence[TargetHealth]) -> TargetHealth:
    """Merge the health of a target in all processes."""
    errors = [one.last_error for one in seen if one.last_error is not None]
    return TargetHealth(
        target=target,
        routes=routes,
        state=min((one.state for one in seen), key=WORST.index, default="closed"),
        failures=sum(one.failures for one in seen),
        retry_at=max((one.retry_at or 0 for one in seen), default=0) or None,
        rests_until=max((one.rests_until or 0 for one in seen), default=0) or None,
        last_error=max(errors, key=attrgetter("at"), default=None),
        processes=Share(sum(one.processes.open for one in seen), len(seen)),
    )


def _newest(rows: list[T], when: str) -> list[T]:
    return sorted(rows, key=attrgetter(when), reverse=True)[:MAX_LAST]


def _codes(counted: Mapping[str, Counter[int]], minute: int) -> list[CodeCount]:
    """Return the codes, most frequent first, with counts by minute, the current one last."""
    rows = []
    for code, minutes in counted.items():
        row = [minutes[minute - MINUTES + 1 + at] for at in range(MINUTES)]
        if total := sum(row):
            rows.append(CodeCount(code, total, row))
    return sorted(rows, key=attrgetter("count"), reverse=True)

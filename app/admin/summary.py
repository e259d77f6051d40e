"""Merges the snapshots of processes, and the response of `GET /v1/admin/summary`. Pure."""

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Final, TypeVar

import msgspec

from ..ledger.usage import AccountUsage
from .snapshot import MAX_LAST, MAX_STREAMS, Minutes, Share, Snapshot, TargetHealth

T = TypeVar("T")

WORST: Final = ("open", "half-open", "closed")
"""The states of a target, worst first: the worst of all processes is shown."""


class Money(msgspec.Struct, frozen=True):
    accounts: list[AccountUsage]
    more: int
    """Further accounts that are not listed."""
    known: bool
    """False if the log could not be read."""


class Summary(Snapshot, frozen=True, kw_only=True):
    """The response: the merged snapshot, and facts that are the same in all processes."""

    at: float
    version: str
    log: str
    """The kind of the log."""
    records: str | None
    """The kind of the records' database."""
    money: Money


def merge(own: Snapshot, other: Snapshot) -> Snapshot:
    """Merge a snapshot into that of the answering process, whose targets are those shown."""
    streams = sorted(own.live + other.live, key=attrgetter("started_at", "id"))
    targets = {target.target: target for target in other.targets}
    return Snapshot(
        processes=sorted(own.processes + other.processes, key=attrgetter("started_at", "id")),
        live=streams[:MAX_STREAMS],
        readers=Counter(own.readers) + Counter(other.readers),
        targets=[_merge_target(target, targets.get(target.target)) for target in own.targets],
        counts={
            kind: _merge_counts(codes, other.counts.get(kind, {}))
            for kind, codes in own.counts.items()
        },
        last=_newest(own.last + other.last, "at"),
        recent=_newest(own.recent + other.recent, "ended_at"),
        rows_waiting=max(own.rows_waiting, other.rows_waiting),
    )


def _merge_target(own: TargetHealth, other: TargetHealth | None) -> TargetHealth:
    if other is None:
        return own
    errors = [one.last_error for one in (own, other) if one.last_error is not None]
    return TargetHealth(
        target=own.target,
        routes=own.routes,
        state=min(own.state, other.state, key=WORST.index),
        failures=own.failures + other.failures,
        retry_at=max(own.retry_at or 0, other.retry_at or 0) or None,
        last_error=max(errors, key=attrgetter("at"), default=None),
        processes=Share(
            own.processes.open + other.processes.open, own.processes.of + other.processes.of
        ),
    )


def _merge_counts(own: Mapping[str, Minutes], other: Mapping[str, Minutes]) -> dict[str, Minutes]:
    return {
        code: Counter(own.get(code, {})) + Counter(other.get(code, {}))
        for code in own.keys() | other.keys()
    }


def _newest(rows: list[T], when: str) -> list[T]:
    return sorted(rows, key=attrgetter(when), reverse=True)[:MAX_LAST]

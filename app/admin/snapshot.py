"""The snapshot of one process or, merged, of several: the admin summary shows it as it is. Pure.

Text from clients is truncated to `MAX_TEXT`, and is never a key. Times are unix seconds, money is
decimal US dollars.
"""

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, Literal, TypeVar

import msgspec

from ..eventlog.stream_info import StreamInfo
from ..ledger.usage import AccountUsage
from ..policies.retry import State
from ..telemetry.activity import Progress

MAX_STREAMS: Final = 500
"""Running streams in a snapshot, and in a summary: the oldest."""

MAX_LAST: Final = 50
"""Errors, and ended streams, in a snapshot."""

MINUTES: Final = 60
"""How long errors are counted."""

MAX_TEXT: Final = 200
MAX_MESSAGE: Final = 300
"""Characters of a name, and of an error message."""

Trouble = Literal["refused", "failed"]
"""A refused request, or a failed stream."""

Minutes = dict[int, int]
"""Counts by minute since 1970."""


class Value(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A part of a snapshot. New fields need a default: processes differ in version."""


class Process(Value, frozen=True, kw_only=True):
    """The process itself."""

    id: str
    host: str
    pid: int
    started_at: float
    at: float
    """When the snapshot was taken."""
    streams: int
    readers: int
    draining: bool
    log_healthy: bool
    log_streams: int
    log_bytes: int


class Stream(Value, frozen=True, kw_only=True):
    """A stream with its owner."""

    id: str
    request_id: str
    owner: str
    tenant: str
    key: str | None
    user: str | None
    route: str
    target: str | None


class LiveStream(Stream, frozen=True, kw_only=True):
    """A running stream."""

    process: str
    attempt: int
    started_at: float
    first_event_s: float | None
    events: int
    gap_s: float
    longest_gap_s: float | None


class EndedStream(Stream, frozen=True, kw_only=True):
    """An ended stream."""

    output_tokens: int | None
    cost: str | None
    ended_at: float
    status: str
    code: str | None
    duration_s: float


class LastTrouble(Value, frozen=True, kw_only=True):
    """A refused request or a failed stream."""

    at: float
    kind: Trouble
    code: str
    message: str
    model: str | None
    """A configured name."""
    request_id: str
    stream: str | None
    owner: str


class LastError(Value, frozen=True, kw_only=True):
    """The last error of a target."""

    code: str
    at: float


class Share(msgspec.Struct, frozen=True):
    """The number of processes that skip a target."""

    open: int
    of: int


class TargetHealth(Value, frozen=True, kw_only=True):
    """The health of a target, in one process or in all."""

    target: str
    routes: list[str]
    state: State
    """The worst of all processes."""
    failures: int
    retry_at: float | None
    last_error: LastError | None
    processes: Share


class Snapshot(Value, frozen=True, kw_only=True):
    """The state of one process, or of several."""

    processes: list[Process]
    live: list[LiveStream] = []
    """The oldest."""
    readers: dict[str, int] = {}
    """The readers of streams, which may run in another process."""
    targets: list[TargetHealth] = []
    counts: dict[Trouble, dict[str, Minutes]] = {}
    """By the code of the error."""
    last: list[LastTrouble] = []
    recent: list[EndedStream] = []
    """Both newest first."""
    rows_waiting: int = 0
    """Rows for the records, of all processes."""


_decode = msgspec.msgpack.Decoder(Snapshot).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_snapshot(snapshot: Snapshot, *, most: int) -> bytes:
    """Encode a snapshot in at most `most` bytes, with fewer streams if necessary.

    All but the streams take no more than 100 KB.
    """
    while len(packed := _encode(snapshot)) > most and (snapshot.live or snapshot.readers):
        live = snapshot.live[: len(snapshot.live) // 2]
        readers = dict(list(snapshot.readers.items())[: len(snapshot.readers) // 2])
        snapshot = msgspec.structs.replace(snapshot, live=live, readers=readers)
    return packed


def unpack_snapshot(data: bytes) -> Snapshot:
    """Decode a snapshot encoded by `pack_snapshot`.

    Raises:
        msgspec.MsgspecError, ValueError: it is invalid, or of an incompatible version.
    """
    return _decode(data)


def describe_running(progress: Progress, *, process: str) -> LiveStream:
    """Return the row of a running stream of a process."""
    longest, gap_s = progress.longest_gap_s, progress.silent_s
    return LiveStream(
        **describe_stream(progress.info),
        process=process,
        target=cut(progress.target) or None,
        attempt=progress.attempt,
        started_at=round(progress.info.created_at, 3),
        first_event_s=_rounded(progress.first_event_s),
        events=progress.events,
        gap_s=round(gap_s, 3),
        longest_gap_s=_rounded(None if longest is None else max(longest, gap_s)),
    )


def describe_stream(info: StreamInfo) -> dict[str, Any]:
    """Return the fields of a `Stream` that are known from its start."""
    return {
        "id": info.id,
        "request_id": cut(info.request_id),
        "owner": cut(info.owner),
        "tenant": cut(info.tenant),
        "key": cut(info.key_name) or None,
        "user": cut(info.user) or None,
        "route": cut(info.route),
    }


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Truncate a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


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

"""The snapshot of one process or, merged, of several: the admin summary shows it as it is. Pure.

Text from clients is truncated to `MAX_TEXT`, and is never a key. Times are unix seconds, money is
decimal US dollars.
"""

from typing import Any, Final, Literal

import msgspec

from ..eventlog.stream_info import StreamInfo
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

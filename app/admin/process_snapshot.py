"""The snapshot of one process for the admin summary. Pure values.

Text from clients is truncated to `MAX_TEXT`, and is never a key. Times are unix seconds, money is
nano-USD.
"""

from typing import Final

import msgspec

from ..generation.retry import State

MAX_STREAMS: Final = 500
"""Running streams in a snapshot, and in a summary: the oldest."""

MAX_LAST: Final = 50
"""Errors, and ended streams, in a snapshot."""

MINUTES: Final = 60

MAX_TEXT: Final = 200
MAX_MESSAGE: Final = 300
"""Characters of a name, and of an error message."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a snapshot. New fields need a default: processes differ in version."""


class Process(Value, frozen=True, kw_only=True):
    """The process itself."""

    id: str
    host: str
    pid: int
    started_at: float
    at: float
    """When the snapshot was taken."""
    streams: int = 0
    readers: int = 0
    draining: bool = False
    log_healthy: bool = True
    log_streams: int = 0
    log_bytes: int = 0


class Who(Value, frozen=True, kw_only=True):
    """The owner of a stream."""

    owner: str = ""
    tenant: str = ""
    user: str = ""
    key: str = ""


class Live(Who, frozen=True, kw_only=True):
    """A running stream."""

    id: str
    request_id: str = ""
    route: str = ""
    target: str = ""
    attempt: int = 1
    started_at: float
    first_event_s: float | None = None
    events: int = 0
    events_per_s: float = 0.0
    gap_s: float = 0.0
    longest_gap_s: float | None = None
    output_tokens: int | None = None
    nano_usd: int | None = None


class Recent(Who, frozen=True, kw_only=True):
    """An ended stream."""

    id: str
    ended_at: float
    status: str
    code: str | None = None
    route: str = ""
    target: str | None = None
    cost: str | None = None
    output_tokens: int | None = None
    duration_s: float = 0.0


class Trouble(Value, frozen=True, kw_only=True):
    """A refused request or a failed stream."""

    at: float
    failed: bool
    code: str
    message: str
    model: str | None = None
    """A configured name."""
    request_id: str = ""
    stream: str | None = None
    owner: str = ""


class LastError(Value, frozen=True, kw_only=True):
    """The last error of a target."""

    code: str
    at: float


class TargetState(Value, frozen=True, kw_only=True):
    """The state of a target in one process."""

    target: str
    state: State
    failures: int = 0
    retry_at: float | None = None
    rests_until: float | None = None
    last_error: LastError | None = None


Minutes = dict[int, int]
"""Counts by minute since 1970."""


class ProcessSnapshot(Value, frozen=True, kw_only=True):
    """The state of one process."""

    process: Process
    live: list[Live] = []
    readers: dict[str, int] = {}
    """The readers in this process by stream, which may run in another one."""
    targets: list[TargetState] = []
    refused: dict[str, Minutes] = {}
    failed: dict[str, Minutes] = {}
    """By the code of the error."""
    last: list[Trouble] = []
    recent: list[Recent] = []
    """Both newest first."""
    rows_waiting: int | None = None
    """Rows for the records, of all processes; None without records."""


_decode = msgspec.msgpack.Decoder(ProcessSnapshot).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_snapshot(snapshot: ProcessSnapshot, *, most: int) -> bytes:
    """Encode a snapshot in at most `most` bytes, with fewer streams if necessary.

    All but the streams take no more than 100 KB.
    """
    while len(packed := _encode(snapshot)) > most and (snapshot.live or snapshot.readers):
        live = snapshot.live[: len(snapshot.live) // 2]
        readers = dict(list(snapshot.readers.items())[: len(snapshot.readers) // 2])
        snapshot = msgspec.structs.replace(snapshot, live=live, readers=readers)
    return packed


def unpack_snapshot(data: bytes) -> ProcessSnapshot:
    """Decode a snapshot encoded by `pack_snapshot`.

    Raises:
        msgspec.MsgspecError, ValueError: it is invalid, or of an incompatible version.
    """
    return _decode(data)


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Truncate a text."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

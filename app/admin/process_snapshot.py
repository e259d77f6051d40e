"""What one process shows of itself to whoever looks: its board. Pure values.

Strings that clients have chosen are values here and never names, and are cut: see `MAX_TEXT`.
Times are unix seconds, money is in nano-USD.
"""

from typing import Final

import msgspec

from ..generation.retry import State

MAX_STREAMS: Final = 500
"""How many running streams a board tells of, and a summary; the first that began."""

MAX_LAST: Final = 50
"""How many refusals and failures, and how many ended streams, are told of one by one."""

MINUTES: Final = 60

MAX_TEXT: Final = 200
MAX_MESSAGE: Final = 300
"""Characters of a name, and of a message of an error."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a board; whoever adds a field gives it a default: processes differ in version."""


class Process(Value, frozen=True, kw_only=True):
    """The process itself."""

    id: str
    host: str
    pid: int
    started_at: float
    at: float
    """When the board was made."""
    streams: int = 0
    readers: int = 0
    draining: bool = False
    log_healthy: bool = True
    log_streams: int = 0
    log_bytes: int = 0


class Who(Value, frozen=True, kw_only=True):
    """Whose a stream is."""

    owner: str = ""
    tenant: str = ""
    user: str = ""
    key: str = ""


class Live(Who, frozen=True, kw_only=True):
    """A stream that runs."""

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
    """A stream that has ended."""

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
    """A request that was refused, or a stream that has failed."""

    at: float
    failed: bool
    code: str
    message: str
    model: str | None = None
    """A name of the settings."""
    request_id: str = ""
    stream: str | None = None
    owner: str = ""


class LastError(Value, frozen=True, kw_only=True):
    """What went wrong last at a target."""

    code: str
    at: float


class TargetState(Value, frozen=True, kw_only=True):
    """How a target fares, as one process knows it."""

    target: str
    state: State
    failures: int = 0
    retry_at: float | None = None
    rests_until: float | None = None
    last_error: LastError | None = None


Minutes = dict[int, int]
"""How many there were, by the minute since 1970."""


class ProcessSnapshot(Value, frozen=True, kw_only=True):
    """All that a process shows."""

    process: Process
    live: list[Live] = []
    readers: dict[str, int] = {}
    """Of streams, wherever they run."""
    targets: list[TargetState] = []
    refused: dict[str, Minutes] = {}
    failed: dict[str, Minutes] = {}
    """By the code of the error."""
    last: list[Trouble] = []
    recent: list[Recent] = []
    """Each the newest first."""
    rows_waiting: int | None = None
    """For the records, of all processes; None where there are none."""


_decode = msgspec.msgpack.Decoder(ProcessSnapshot).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_board(board: ProcessSnapshot, *, most: int) -> bytes:
    """Return a board as the bytes that `unpack_board` reads, with fewer streams if they are more.

    `most` is how many bytes it may have; all but the streams take no more than 100 KB.
    """
    while len(packed := _encode(board)) > most and (board.live or board.readers):
        live = board.live[: len(board.live) // 2]
        readers = dict(list(board.readers.items())[: len(board.readers) // 2])
        board = msgspec.structs.replace(board, live=live, readers=readers)
    return packed


def unpack_board(data: bytes) -> ProcessSnapshot:
    """Read back what `pack_board` wrote.

    Raises:
        msgspec.MsgspecError, ValueError: it is none, or of a version that shows other things.
    """
    return _decode(data)


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return a text, or its beginning if it is long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"

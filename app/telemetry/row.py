"""The row of an ended stream in the records: a projection of `StreamEnded`. Pure."""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec

from ..eventlog.stream_ended import StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import StreamEnd, TokenCounts

MAX_VERSION: Final = 256
"""Characters of the column."""


class StreamRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stream; times in unix seconds, money in nano-USD.

    New fields need a default: logs return rows that an older version wrote.
    """

    stream: str
    request_id: str = ""
    tenant: str = ""
    user: str = ""
    key: str = ""
    """The name of the key."""
    route: str = ""
    model: str = ""
    """As the client named it."""
    client_format: str = ""
    target: str | None = None
    """`upstream/model` of the last attempt; None if there was no attempt."""
    answered_model: str | None = None
    """As the upstream names it."""
    started_at: float
    ended_at: float
    first_event_s: float | None = None
    longest_gap_s: float | None = None
    """Between two pieces of the answer on arrival."""
    status: str
    finish_reason: str = ""
    code: str | None = None
    attempts: int = 1
    readers: int = 0
    """In the process that ran it, until the end."""
    resumes: int = 0
    """Readers that joined with a cursor."""
    events: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    usage_from: Literal["provider", "estimate", "none"] = "none"
    nano_usd: int | None = None
    """None: a price is unknown."""
    price_version: str = ""
    trace_id: str = ""
    lost: bool = False
    """Whether another process ended it for a dead producer."""
    ended_by: str | None = None
    """The cause of an incomplete answer."""
    content: bytes = b""
    """JSON, if the route records content."""


_COUNTS: Final = tuple(name for name in StreamRow.__struct_fields__ if name.endswith("_tokens"))
_RENAMED: Final = {"stream": "info.id", "key": "info.key_name"}


def _find_paths() -> Iterator[tuple[str, str]]:
    """Yield the fields that a row has by name from an ended stream, its info or its end."""
    sources = (("", StreamEnded), ("info.", StreamInfo), ("end.", StreamEnd))
    for name in StreamRow.__struct_fields__:
        found = (f"{path}{name}" for path, source in sources if hasattr(source, name))
        if path := _RENAMED.get(name) or next(found, ""):
            yield name, path


_NAMES, _PATHS = zip(*_find_paths(), strict=True)
_values = attrgetter(*_PATHS)


def row_of(ended: StreamEnded) -> StreamRow:
    """Return the row of a stream, with the token counts of all attempts."""
    end, charges = ended.end, ended.charges
    counted = [charge.counts for charge in charges if charge.counts is not None]
    versions = sorted({charge.price_version for charge in charges} - {""})
    estimated = any(counts.estimated for counts in counted)
    fields: dict[str, Any] = dict(zip(_NAMES, _values(ended), strict=True))
    fields |= {name: _sum(counted, name) for name in _COUNTS}
    return StreamRow(
        code=end.error.code if end.error else None,
        usage_from="estimate" if estimated else "provider" if counted else "none",
        price_version=", ".join(versions)[:MAX_VERSION],
        **fields,
    )


def _sum(counted: Sequence[TokenCounts], name: str) -> int | None:
    """Add up the known counts of one kind; None if none is known."""
    known = [number for counts in counted if (number := getattr(counts, name)) is not None]
    return sum(known) if known else None


_decode = msgspec.msgpack.Decoder(StreamRow).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_row(row: StreamRow) -> bytes:
    """Encode a row."""
    return _encode(row)


def unpack_row(data: bytes) -> StreamRow:
    """Decode a row encoded by `pack_row`.

    Raises:
        msgspec.MsgspecError, ValueError: the bytes are no row.
    """
    return _decode(data)

"""What is recorded of a stream that has ended: one row. Pure values."""

from typing import Literal

import msgspec


class StreamRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stream; times in unix seconds, money in nano-USD.

    Whoever adds a field gives it a default: logs hand on rows that an older version wrote.
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
    """`upstream/model` that answered, or was asked last; None where nobody was."""
    answered_model: str | None = None
    """As the upstream names it."""
    started_at: float
    ended_at: float
    first_event_s: float | None = None
    longest_gap_s: float | None = None
    """Between two pieces of the answer, as they came."""
    status: str
    finish_reason: str = ""
    code: str | None = None
    attempts: int = 1
    readers: int = 0
    """Until the end, in the process that ran it."""
    resumes: int = 0
    """Readers that came with a cursor."""
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
    """Whether it was ended for a producer that was lost."""
    ended_by: str | None = None
    """Who or what ended an answer that is not complete."""
    content: bytes = b""
    """JSON, where the route is set to record it."""


_decode = msgspec.msgpack.Decoder(StreamRow).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_row(row: StreamRow) -> bytes:
    """Return a row as the bytes that `unpack_row` reads."""
    return _encode(row)


def unpack_row(data: bytes) -> StreamRow:
    """Read back what `pack_row` wrote.

    Raises:
        msgspec.MsgspecError, ValueError: it is none.
    """
    return _decode(data)

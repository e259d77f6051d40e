"""What is known of a stream from its start on, beside its events.

A log keeps the info as long as the stream, over restarts and for every process that shares
the log: whoever ends a stream for a process that is lost can say whose it was.
"""

from typing import NewType

import msgspec

from ..ledger.accounts import ReservationRequest

Scoped = NewType("Scoped", str)
"""An idempotency key or a name, as a log knows it: of one owner."""

_OVERHEAD = 50
"""What a text takes of memory beside its characters, in bytes."""

_RESERVE = 300
_ACCOUNT = 250
"""What is kept of what was reserved, and of each account, in bytes."""


def scoped(owner: str, name: str) -> Scoped:
    """Return a key or name of an owner as a log knows it, which is that of no other owner.

    Without identity there is one owner, "", whose names are as they are. None of those begins
    with a control character: keys are printable, and names have a prefix that says of what.
    """
    return Scoped(f"\x1f{len(owner)}\x1f{owner}{name}" if owner else name)


class StreamInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One stream, as it was started. Whoever adds a field gives it a default: logs have older ones.

    `owner` is who started it, an opaque text, and "" without identity.
    """

    id: str
    owner: str = ""
    request_id: str = ""
    """What the client was given as the id of the request that started it."""
    route: str = ""
    key: str | None = None
    """The idempotency key, as the client sent it."""
    digest: str = ""
    """Of the body that it was asked for with."""
    names: tuple[str, ...] = ()
    """What it is found by too, among the streams of its owner."""
    labels: dict[str, str] | None = None
    """What its `stream.start` says."""
    created_at: float = 0.0
    """In unix seconds."""
    request: bytes = b""
    """What it keeps of the request, which no reader of its events is given."""
    reserve: ReservationRequest | None = None
    """What has to be reserved for it; None: nothing, and nothing is counted."""
    tenant: str = ""
    user: str = ""
    key_name: str = ""
    """Who has started it; `owner` is made of some of these."""
    model: str = ""
    """As the request names it."""
    client_format: str = ""
    traceparent: str = ""
    """The span of the request that started it (W3C Trace Context); "" without traces."""
    request_digest: str = ""
    """What its cassette says it was asked; "" where there are none."""

    @property
    def trace_id(self) -> str:
        """The trace that it belongs to, in hexadecimal; "" without one."""
        return self.traceparent[3:35]

    @property
    def scoped_key(self) -> Scoped | None:
        """The idempotency key as a log knows it; None without one."""
        return None if self.key is None else scoped(self.owner, self.key)

    @property
    def size(self) -> int:
        """The memory that its contents take, in bytes, estimated."""
        size = len(self.request) + len(self.digest) + (len(self.key) if self.key else 0)
        if self.request_id:
            size += _OVERHEAD + len(self.request_id)
        for name in self.names:
            size += _OVERHEAD + len(name)
        for text in (
            self.tenant,
            self.user,
            self.key_name,
            self.model,
            self.traceparent,
            self.request_digest,
        ):
            if text:
                size += _OVERHEAD + len(text)
        if self.reserve is not None:
            size += _RESERVE + _ACCOUNT * len(self.reserve.accounts)
        if self.labels:
            for name, value in self.labels.items():
                size += 2 * _OVERHEAD + len(name) + len(value)
        return size

    def without_request(self) -> "StreamInfo":
        """Return the info without what it keeps of the request, which may be large."""
        return msgspec.structs.replace(self, request=b"") if self.request else self


_decode = msgspec.msgpack.Decoder(StreamInfo).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_info(info: StreamInfo) -> bytes:
    """Return the info as the bytes that `unpack_info` reads."""
    return _encode(info)


def unpack_info(data: bytes | None, stream: str, *, started_at: float) -> StreamInfo:
    """Return a stream's info; the least that can be said where none, or no whole one, is kept."""
    try:
        return _decode(data or b"")
    except (ValueError, msgspec.MsgspecError):
        return StreamInfo(stream, created_at=started_at)

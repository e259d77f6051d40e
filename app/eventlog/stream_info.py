"""The facts of a stream at its start, stored beside its events.

They survive restarts and are readable by every process that shares the log, so that an orphaned
stream can be ended and settled for its owner.
"""

from typing import Final, NewType

import msgspec

from ..ledger.accounts import ReservationRequest

Scoped = NewType("Scoped", str)
"""An idempotency key or a name with its owner prefixed."""

HIDDEN: Final = "\x1fcall"
"""The owner of streams without readers: owners of principals have other prefixes. No list of
streams is for it."""

_MEMORY_FACTOR = 3
"""How much more memory an info takes than its MessagePack, without the request."""


def scoped(owner: str, name: str) -> Scoped:
    """Prefix a key or name with its owner, so that owners cannot collide.

    The owner "" (authentication is off) has no prefix; its names cannot begin with a control
    character, since keys are printable and names have a prefix of their own.
    """
    return Scoped(f"\x1f{len(owner)}\x1f{owner}{name}" if owner else name)


class StreamInfo(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One stream as it was started. New fields need a default: logs have older infos.

    `owner` is opaque, and "" if authentication is off.
    """

    id: str
    owner: str = ""
    request_id: str = ""
    """The id of the request that started it, as the client received it."""
    route: str = ""
    key: str | None = None
    """The idempotency key, as the client sent it."""
    digest: str = ""
    """The digest of the request body."""
    names: tuple[str, ...] = ()
    """Further names of the stream, unique to its owner."""
    alone: bool = False
    """Whether `create` refuses while another stream with one of the names runs."""
    labels: dict[str, str] | None = None
    """The labels of its `stream.start`."""
    metadata: dict[str, str] | None = None
    """What the client has given it to be found by, in lists."""
    created_at: float = 0.0
    """In unix seconds."""
    request: bytes = b""
    """The stored part of the request; readers of events do not receive it."""
    reserve: ReservationRequest | None = None
    """The reservation to make; None: nothing is counted."""
    tenant: str = ""
    user: str = ""
    key_name: str = ""
    """The principal that started it; `owner` derives from some of these."""
    model: str = ""
    """The model that the request names."""
    client_format: str = ""
    traceparent: str = ""
    """The span of the request that started it (W3C Trace Context); "" if tracing is off."""
    request_digest: str = ""
    """The digest of the request in its cassette; "" without cassettes."""
    takeover: bytes = b""
    """What another process needs to go on with it, packed; empty if none may."""

    @property
    def trace_id(self) -> str:
        """Its trace id in hexadecimal; "" without one."""
        return self.traceparent[3:35]

    @property
    def scoped_key(self) -> Scoped | None:
        """The idempotency key with its owner; None without one."""
        return None if self.key is None else scoped(self.owner, self.key)

    @property
    def scoped_names(self) -> list[Scoped]:
        """The names, each with its owner."""
        return [scoped(self.owner, name) for name in self.names]

    @property
    def size(self) -> int:
        """The estimated memory of its contents, in bytes."""
        large = len(self.request) + len(self.takeover)
        facts = self.without_request() if large else self
        return _MEMORY_FACTOR * len(_encode(facts)) + large

    def without_request(self) -> "StreamInfo":
        """Return the info without what is stored of the request, which may be large."""
        if not (self.request or self.takeover):
            return self
        return msgspec.structs.replace(self, request=b"", takeover=b"")


_decode = msgspec.msgpack.Decoder(StreamInfo).decode
_encode = msgspec.msgpack.Encoder().encode


def pack_info(info: StreamInfo) -> bytes:
    """Encode an info for `unpack_info`."""
    return _encode(info)


def unpack_info(data: bytes | None, stream: str, *, started_at: float) -> StreamInfo:
    """Decode an info; if it is missing or broken, return one with the id and time alone."""
    try:
        return _decode(data or b"")
    except (ValueError, msgspec.MsgspecError):
        return StreamInfo(stream, created_at=started_at)

"""Limits per client address: streams, starts, readers, and memory for requests.

An address is an IPv4 address, or the /64 network of an IPv6 one, which providers assign to a
household or a host. A peer on this machine that forwards no client address is `LOCAL`: a test, a
benchmark, or a proxy without such a header. It may use half of the process's limits instead of
the limits per address. A request with a credential has the share of its user or key instead of
its address, which an office or a backend shares. Requests and their memory are also limited per
owner: a user, or a key without users. Pure: the clock is passed in.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Final

import msgspec

from ..addresses import name_customer, parse_address
from ..bounds import MAX_VALUES
from ..errors import RelayError, RequestError, ServiceError
from ..requests import ChatRequest

LOCAL: Final = "local"
BACKEND: Final = "backend "
"""The beginning of the share of a key without users, which may use half of the process's limits."""
UNKNOWN: Final = "unknown"
"""The shared address of clients whose proxy sends an invalid one."""

MAX_ADDRESS = 64
"""The maximum characters of an address, including its zone."""

MAX_ADDRESSES = 10_000
"""The maximum number of tracked addresses that have nothing open: about 200 bytes each."""

AGAIN_S = 2
"""`Retry-After` of a refusal, if it cannot be computed."""

MAX_UNUSED_S: Final = 1800
"""How long a conversation stays in memory without being used."""

# The memory of a parsed request, in bytes; a test compares the estimate with the allocator.
VALUE_BYTES = 110
"""Per JSON value, counted by commas and brackets; an object counts as two."""

NARROW_FACTOR = 3
"""Per byte of an ASCII body: the parsed text, and the upstream's body."""

WIDE_FACTOR = 6
"""Per byte of any other body: with one wide character, a text has four bytes per character."""


Names = tuple[str, ...]
"""An address, and an owner if there is one."""

Forget = Callable[[], object] | None


class Shares(msgspec.Struct, frozen=True):
    """Limits of one address, and of the memory for all requests."""

    max_streams_per_address: int = 200
    """Running streams, and separately requests whose body is being received, also of one owner;
    WebSocket connections count as these."""
    max_starts_per_minute_per_address: int = 600
    max_readers_per_address: int = 400
    max_request_memory_bytes: int = 256 * 2**20
    """Memory for bodies that are being received and for retained requests."""


def address_of(client: tuple[str, int] | None, share: str = "") -> str:
    """Return the address of a client, by the `client` of an ASGI scope.

    Its `share` if it has a credential: see `Principal.share`.
    """
    if share:
        return share
    if client is None:  # not an IP socket: the client is local
        return LOCAL
    host, port = client
    if len(host) > MAX_ADDRESS:
        return UNKNOWN
    # Without a port the address comes from a proxy's header, not from the socket.
    return _address(host, is_peer=bool(port))


@lru_cache(4096)
def _address(host: str, *, is_peer: bool) -> str:
    address = parse_address(host)
    if address is None:
        return UNKNOWN
    return LOCAL if is_peer and address.is_loopback else name_customer(address)


def estimate_memory(body: bytes) -> int:
    """Estimate the memory of a body that is parsed, and of the call to an upstream."""
    values = body.count(b",") + body.count(b"[") + 2 * body.count(b"{")
    values = min(values, 2 * MAX_VALUES)  # more are refused; other commas are in texts
    wide = not body.isascii() or b"\\u" in body
    return len(body) * (WIDE_FACTOR if wide else NARROW_FACTOR) + VALUE_BYTES * values


class _Share(msgspec.Struct):
    """The open items of one address or owner, and an address's recent starts."""

    bodies: int = 0
    bytes: int = 0
    readers: int = 0
    streams: int = 0
    free_at: float = 0.0
    """The time from which its starts no longer count."""


class _ShareTable(OrderedDict[str, _Share]):
    """The shares of all addresses and owners; looking one up with `[]` adds it."""

    def __missing__(self, address: str) -> _Share:
        share = self[address] = _Share()
        if len(self) > MAX_ADDRESSES:
            self._forget_oldest()
        return share

    def _forget_oldest(self) -> None:
        """Remove the oldest address without open items; the limits bound the number of others."""
        for _ in range(2):
            address, share = next(iter(self.items()))
            if self.tidy(address, share, now=math.inf):
                return
            self.move_to_end(address)

    def tidy(self, address: str, share: _Share, *, now: float) -> bool:
        """Remove an address without open items and recent starts; return whether it was removed."""
        if share.bodies or share.bytes or share.readers or share.streams or share.free_at > now:
            return False
        del self[address]
        return True


class Admission:
    """Counts the open items of every address, and refuses those above its limits.

    Every refusal is a `ServiceError`: `rate_limited` for a limit of the address, `overloaded` for
    a limit of the process.
    """

    def __init__(self, shares: Shares, *, max_streams: int, clock: Callable[[], float]) -> None:
        self._shares = shares
        self._max_streams = max_streams
        self._clock = clock
        self._table = _ShareTable()
        self.streams = 0
        """The number of running and starting streams."""
        self.bytes = 0
        """The memory of all requests."""
        self.max_bytes = shares.max_request_memory_bytes
        """The maximum memory of all requests."""
        self.reclaimable: dict[RequestMemory, float] = {}
        """The memory that requests may take from others, and when it was last used, in order."""

    def __len__(self) -> int:
        return len(self._table)

    # Starts

    def check_streams(self, address: str) -> None:
        """Refuse an address that may not start a stream now."""
        if self.streams >= self._max_streams:
            raise ServiceError(
                "overloaded",
                f"{self._max_streams} streams are running, which is the limit; try again shortly",
                retry_after_s=AGAIN_S,
            )
        share = self._table.get(address)
        if share is not None and share.streams >= (most := self._most_streams(address)):
            raise _limited(f"{most} streams of your address or key are running")

    def count_start(self, address: str) -> None:
        """Count a request to start a stream; refuse it above the limit per minute.

        The limit is also the size of a burst; after that, starts are allowed at an even rate.
        """
        if address == LOCAL or address.startswith(BACKEND):
            return
        share, now = self._table[address], self._clock()
        most = self._shares.max_starts_per_minute_per_address
        free_at = max(share.free_at, now) + 60 / most
        if (wait_s := free_at - now - 60) > 1e-3:
            raise _limited(
                f"{most} streams were started by your address or user within a minute",
                retry_after_s=math.ceil(wait_s),
            )
        share.free_at = free_at

    def enter(self, address: str) -> None:
        """Count a stream until `leave`; refuse it at the limit."""
        self.check_streams(address)
        self._table[address].streams += 1
        self.streams += 1

    def leave(self, address: str) -> None:
        """Stop counting a stream."""
        share = self._table[address]
        share.streams -= 1
        self.streams -= 1
        self._table.tidy(address, share, now=self._clock())

    # Readers

    def check_readers(self, address: str) -> None:
        """Refuse an address with the maximum number of readers."""
        share = self._table.get(address)
        most = self._shares.max_readers_per_address
        if address == LOCAL or address.startswith(BACKEND):
            return
        if share is not None and share.readers >= most:
            raise _limited(f"{most} streams are being read by your address or user")

    def add_reader(self, address: str) -> None:
        """Count a reader until `remove_reader`, without a check."""
        self._table[address].readers += 1

    def remove_reader(self, address: str) -> None:
        """Stop counting a reader."""
        share = self._table[address]
        share.readers -= 1
        self._table.tidy(address, share, now=self._clock())

    # Requests

    def receive(self, address: str, owner: str = "", *, socket: bool = False) -> "RequestMemory":
        """Count a request whose body will be received; refuse it if there are too many.

        A `socket` is a WebSocket connection, which counts until its end. Its requests count too, so
        there may be half as many.
        """
        names = (address, owner) if owner and not address.endswith(owner) else (address,)
        for name in names:
            most = max(1, self._most_streams(name) // (1 + socket))
            if self._table[name].bodies >= most:
                raise _limited(f"{most} requests or WebSocket connections of yours are unfinished")
        for name in names:
            self._table[name].bodies += 1
        return RequestMemory(self, names)

    def received(self, names: Names) -> None:
        """Stop counting a body as being received."""
        for name in names:
            share = self._table[name]
            share.bodies -= 1
            if not share.bytes:
                self._table.tidy(name, share, now=self._clock())

    def grow(self, memory: "RequestMemory", by: int) -> None:
        """Change the memory of a request by so many bytes; refuse what exceeds a limit.

        An address or owner may use a quarter of the memory; its only request may use more.
        Conversations that are not in use are dropped before a request is refused.
        """
        if by > 0:
            most, may_reclaim = self.max_bytes, True
            for name in memory.names:
                share, part = self._table[name], most // 2 if name == LOCAL else most // 4
                excess = share.bytes + by - part
                if excess > 0 and not self._reclaim(excess, name):
                    # Else one large request could drop the memory of all others.
                    may_reclaim = False
                    if share.bytes > memory.size:
                        raise _limited(
                            "your requests use all the memory for one address or key, a part of "
                            "max_request_memory_bytes"
                        )
            excess = self.bytes + by - most
            if excess > 0 and not (may_reclaim and self._reclaim(excess)):
                raise ServiceError(
                    "overloaded",
                    "the memory for requests is full (max_request_memory_bytes); try again shortly",
                    retry_after_s=AGAIN_S,
                )
        self.bytes += by
        for name in memory.names:
            share = self._table[name]
            share.bytes += by
            if not share.bytes:
                self._table.tidy(name, share, now=self._clock())

    def keep(self, memory: "RequestMemory") -> None:
        """Let requests take this memory; drop what was not used for too long."""
        self.reclaimable[memory] = now = self._clock()
        while (oldest := next(iter(self.reclaimable.items())))[1] < now - MAX_UNUSED_S:
            oldest[0].drop()

    def _reclaim(self, excess: int, name: str | None = None) -> bool:
        """Drop reclaimable memory, of one share or of all; return whether that frees enough."""
        for memory in [one for one in self.reclaimable if name is None or name in one.names]:
            if excess <= 0:
                break
            excess -= memory.size
            memory.drop()
        return excess <= 0

    def _most_streams(self, name: str) -> int:
        if name == LOCAL or name.startswith(BACKEND):
            return max(1, self._max_streams // 2)
        return self._shares.max_streams_per_address


class RequestMemory:
    """The memory of one request, from its first byte to its release."""

    __slots__ = ("_admission", "_forget", "_receiving", "names", "retained", "size")

    def __init__(self, admission: Admission, names: Names, forget: Forget = None) -> None:
        """Count a request, or with `forget` what its client can send again; see `keep`."""
        self._admission = admission
        self.names = names
        self._forget = forget
        self._receiving = forget is None
        self.size = 0
        self.retained = False
        """Whether a stream owns it now, and will release it."""

    def __enter__(self) -> "RequestMemory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.retained:
            self.release()

    def resize(self, size: int) -> None:
        """Set the memory to so many bytes.

        Raises:
            RequestError: `request_too_large`, it exceeds the memory for all requests.
            ServiceError: `overloaded` or `rate_limited`, so much is not free now.
        """
        if size > self._admission.max_bytes:
            raise RequestError(
                "request_too_large",
                f"the request needs about {size} bytes of memory; the limit for all requests is "
                f"{self._admission.max_bytes} (max_request_memory_bytes)",
            )
        self._admission.grow(self, size - self.size)
        self.size = size

    def add(self, size: int) -> None:
        """Add so many bytes; see `resize`."""
        self.resize(self.size + size)

    def expect(self, body: bytes, *, parsed: bool = True) -> None:
        """Set the memory for a complete body, and stop counting it as being received.

        One that is not `parsed` is only copied.
        """
        self.resize(estimate_memory(body) if parsed else 2 * len(body))
        if self._receiving:
            self._received()

    def shrink(self, size: int) -> None:
        """Reduce the memory to so many bytes, if it is more."""
        if size < self.size:
            self.resize(size)

    def keep(self, size: int) -> None:
        """Set the memory to so many bytes, which others may take; drop it if they are not free."""
        self._admission.reclaimable.pop(self, None)  # `resize` must not reclaim it
        try:
            self.resize(size)
        except RelayError:
            self.drop()
        if self.size:
            self._admission.keep(self)

    def drop(self) -> None:
        """Release the memory, and forget what it is for."""
        self._admission.reclaimable.pop(self, None)
        self.release()
        if self._forget is not None:
            self._forget()

    def release(self) -> None:
        """Free all memory; further calls do nothing."""
        if self._receiving:
            self._received()
        if self.size:
            size, self.size = self.size, 0
            self._admission.grow(self, -size)

    def for_answer(self) -> "RequestMemory":
        """Return the memory of what a provider sends to this request, released by itself."""
        memory = RequestMemory(self._admission, self.names)
        memory._receiving = False
        return memory

    def _received(self) -> None:
        self._receiving = False
        self._admission.received(self.names)


class RetainedRequest:
    """A request and its memory, retained while another attempt may need them.

    An answer may run for half an hour, and its request may be megabytes.
    """

    __slots__ = ("_chat", "_memory")

    def __init__(self, chat: ChatRequest, memory: RequestMemory | None) -> None:
        self._chat: ChatRequest | None = chat
        self._memory = memory
        if memory is not None:
            memory.retained = True

    @property
    def chat(self) -> ChatRequest:
        assert self._chat is not None  # noqa: S101  (there is no attempt after `drop`)
        return self._chat

    def shrink(self, size: int) -> None:
        """Drop the request; `size` bytes of the call built from it remain."""
        self._chat = None
        if self._memory is not None:
            self._memory.shrink(size)

    def drop(self) -> None:
        """Drop the request; further calls do nothing."""
        self._chat = None
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.release()


def _limited(what: str, *, retry_after_s: float = AGAIN_S) -> ServiceError:
    return ServiceError(
        "rate_limited",
        f"{what}, which is the limit; try again later",
        retry_after_s=retry_after_s,
    )

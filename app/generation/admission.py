"""Shares of this process by client: streams, starts, readers, and memory for requests.

A client is the address that it comes from: an IPv4 address, or the /64 network of an IPv6
one, which is what a household or a host is given. A peer on this machine that speaks for
nobody else is `LOCAL`: a test, a benchmark, or a proxy that does not tell its clients. It may
take half of what there is instead of one client's share. Pure: the clock is passed in.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from ..addresses import name_customer, parse_address
from ..errors import RequestError, ServiceError
from ..requests import ChatRequest

LOCAL: Final = "local"
UNKNOWN: Final = "unknown"
"""All whose proxy says something else than an address: they share one share."""

MAX_ADDRESS = 64
"""The longest text that is looked at as an address, zone and all."""

MAX_ADDRESSES = 10_000
"""How many addresses are remembered that have nothing open: about 200 bytes each."""

AGAIN_S = 2
"""When a client that was refused may try again, where it cannot be computed."""

# What a parsed request takes, in bytes; a test holds the estimate against the allocator.
VALUE_BYTES = 110
"""One JSON value, which a comma follows or brackets begin with; an object is worth two."""

NARROW_FACTOR = 3
"""A byte of a body that is ASCII: in the parsed text, and in the upstream's body."""

WIDE_FACTOR = 6
"""A byte of any other body: one wide character makes a text take four bytes for each."""


class Shares(msgspec.Struct, frozen=True):
    """How much of this process one address may take, and all requests together."""

    max_streams_per_address: int = 200
    """Streams that run, and requests whose body is being received."""
    max_starts_per_minute_per_address: int = 600
    max_readers_per_address: int = 400
    max_request_memory_bytes: int = 256 * 2**20
    """Memory for the bodies that are being received and for the requests that are kept."""


def address_of(client: tuple[str, int] | None) -> str:
    """Return whose share a client takes, by the `client` of an ASGI scope."""
    if client is None:  # no socket of the internet: it is on this machine
        return LOCAL
    host, port = client
    if len(host) > MAX_ADDRESS:
        return UNKNOWN
    # A proxy's header gives no port: whoever it names is not the peer.
    return _address(host, is_peer=bool(port))


@lru_cache(4096)
def _address(host: str, *, is_peer: bool) -> str:
    address = parse_address(host)
    if address is None:
        return UNKNOWN
    return LOCAL if is_peer and address.is_loopback else name_customer(address)


def estimate_memory(body: bytes) -> int:
    """Estimate what a body takes once it is parsed and the call to an upstream is built."""
    values = body.count(b",") + body.count(b"[") + 2 * body.count(b"{")
    wide = not body.isascii() or b"\\u" in body
    return len(body) * (WIDE_FACTOR if wide else NARROW_FACTOR) + VALUE_BYTES * values


class Taken(NamedTuple):
    """What one address has open."""

    bodies: int
    """Those that are being received."""
    bytes: int
    readers: int
    streams: int


class _Share:
    """What one address has open, and when its starts are forgotten."""

    __slots__ = ("bodies", "bytes", "free_at", "readers", "streams")

    def __init__(self) -> None:
        self.bodies = self.bytes = self.readers = self.streams = 0
        self.free_at = 0.0
        """When all of its starts are forgotten."""


class _ShareTable(OrderedDict[str, _Share]):
    """What every address has open; one that is looked up with `[]` is remembered from then on."""

    def __missing__(self, address: str) -> _Share:
        share = self[address] = _Share()
        if len(self) > MAX_ADDRESSES:
            self._forget_oldest()
        return share

    def _forget_oldest(self) -> None:
        """Forget the oldest address that has nothing open; the others are bounded by the limits."""
        for _ in range(2):
            address, share = next(iter(self.items()))
            if self.tidy(address, share, now=math.inf):
                return
            self.move_to_end(address)

    def tidy(self, address: str, share: _Share, *, now: float) -> bool:
        """Forget an address that has nothing open, and whose starts are forgotten by now."""
        if share.bodies or share.bytes or share.readers or share.streams or share.free_at > now:
            return False
        del self[address]
        return True


class Admission:
    """Counts what every address has open, and refuses what is more than its share.

    Every refusal is a `ServiceError`: `rate_limited` where the address has its share,
    `overloaded` where nothing is left at all.
    """

    def __init__(self, shares: Shares, *, max_streams: int, clock: Callable[[], float]) -> None:
        self._shares = shares
        self._max_streams = max_streams
        self._clock = clock
        self._table = _ShareTable()
        self.streams = 0
        """Streams that run or are about to."""
        self.bytes = 0
        """What all requests take."""
        self.max_bytes = shares.max_request_memory_bytes
        """The memory that all requests may take."""

    def __len__(self) -> int:
        return len(self._table)

    def taken_by(self, address: str) -> Taken:
        """Return what an address has open."""
        share = self._table.get(address) or _Share()
        return Taken(share.bodies, share.bytes, share.readers, share.streams)

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
            raise _limited(f"{most} streams of your address are running")

    def count_start(self, address: str) -> None:
        """Count a request that is to start a stream; refuse more than there may be a minute.

        So many may come at once; after that they may come as often as they are forgotten.
        """
        if address == LOCAL:
            return
        share, now = self._table[address], self._clock()
        most = self._shares.max_starts_per_minute_per_address
        free_at = max(share.free_at, now) + 60 / most
        if (wait_s := free_at - now - 60) > 1e-3:
            raise _limited(
                f"{most} streams were started from your address within a minute",
                retry_after_s=math.ceil(wait_s),
            )
        share.free_at = free_at

    def enter(self, address: str) -> None:
        """Count a stream until `leave`; refuse it if there may be no more."""
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
        """Refuse an address that has as many readers as it may."""
        share = self._table.get(address)
        most = self._shares.max_readers_per_address
        if share is not None and address != LOCAL and share.readers >= most:
            raise _limited(f"{most} streams are being read from your address")

    def add_reader(self, address: str) -> None:
        """Count a reader, which was checked or comes with its stream, until `remove_reader`."""
        self._table[address].readers += 1

    def remove_reader(self, address: str) -> None:
        """Stop counting a reader."""
        share = self._table[address]
        share.readers -= 1
        self._table.tidy(address, share, now=self._clock())

    # Requests

    def receive(self, address: str) -> "RequestMemory":
        """Count a request whose body is to be received; refuse it if there are too many."""
        share = self._table[address]
        most = self._most_streams(address)
        if share.bodies >= most:
            raise _limited(f"{most} requests of your address are being received")
        share.bodies += 1
        return RequestMemory(self, address)

    def received(self, address: str) -> None:
        """Stop counting a body as being received."""
        share = self._table[address]
        share.bodies -= 1
        if not share.bytes:
            self._table.tidy(address, share, now=self._clock())

    def grow(self, address: str, by: int) -> None:
        """Count bytes that a request takes more, or less; refuse what does not fit.

        An address has a quarter of the memory; one request may have more if it is the only one.
        """
        share, most = self._table[address], self.max_bytes
        if by > 0:
            if self.bytes + by > most:
                raise ServiceError(
                    "overloaded",
                    "the memory for requests is full (max_request_memory_bytes); try again shortly",
                    retry_after_s=AGAIN_S,
                )
            part = most // 2 if address == LOCAL else most // 4
            if share.bytes + by > part and share.bodies + share.streams > 1:
                raise _limited("your address has its part of the memory for requests in use")
        share.bytes += by
        self.bytes += by
        if not share.bytes:
            self._table.tidy(address, share, now=self._clock())

    def _most_streams(self, address: str) -> int:
        if address == LOCAL:
            return max(1, self._max_streams // 2)
        return self._shares.max_streams_per_address


class RequestMemory:
    """What one request takes of the memory for requests, from its first byte to its release."""

    __slots__ = ("_address", "_admission", "_receiving", "_size", "kept")

    def __init__(self, admission: Admission, address: str) -> None:
        self._admission = admission
        self._address = address
        self._receiving = True
        self._size = 0
        self.kept = False
        """Whether a stream has it now, which will release it."""

    def __enter__(self) -> "RequestMemory":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.kept:
            self.release()

    def resize(self, size: int) -> None:
        """Take so many bytes from now on.

        Raises:
            RequestError: `request_too_large`, there will never be so many.
            ServiceError: `overloaded` or `rate_limited`, there are not enough now.
        """
        if size > self._admission.max_bytes:
            raise RequestError(
                "request_too_large",
                f"the request would take about {size} bytes of memory, of which there are "
                f"{self._admission.max_bytes} for all requests (max_request_memory_bytes)",
            )
        self._admission.grow(self._address, size - self._size)
        self._size = size

    def add(self, size: int) -> None:
        """Take so many bytes more; see `resize`."""
        self.resize(self._size + size)

    def expect(self, body: bytes) -> None:
        """Take the memory that a whole body will need, and stop counting it as being received."""
        self.resize(estimate_memory(body))
        if self._receiving:
            self._received()

    def shrink(self, size: int) -> None:
        """Take so many bytes from now on, if they are fewer."""
        if size < self._size:
            self.resize(size)

    def release(self) -> None:
        """Give everything back; done twice, it does nothing."""
        if self._receiving:
            self._received()
        if self._size:
            size, self._size = self._size, 0
            self._admission.grow(self._address, -size)

    def _received(self) -> None:
        self._receiving = False
        self._admission.received(self._address)


class RetainedRequest:
    """A request and its memory, retained for as long as another attempt may need them.

    An answer may run for half an hour, and its request may be megabytes.
    """

    __slots__ = ("_chat", "_memory")

    def __init__(self, chat: ChatRequest, memory: RequestMemory | None) -> None:
        self._chat: ChatRequest | None = chat
        self._memory = memory
        if memory is not None:
            memory.kept = True

    @property
    def chat(self) -> ChatRequest:
        assert self._chat is not None  # noqa: S101  (after `drop` no attempt is made)
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
        f"{what}, which is the limit for one; try again later",
        retry_after_s=retry_after_s,
    )

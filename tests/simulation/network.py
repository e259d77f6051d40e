"""Connections in memory: latency, chunks, back-pressure, resets and silence, drawn by the seed."""

import asyncio
import contextvars
import os
import random
from collections.abc import Callable
from typing import Any, Final

Address = tuple[str, int]

HIGH: Final = 2048
"""Bytes that wait to be taken until a protocol is told to pause, or a 16th: little, so that it happens."""

_QUIET, _QUIET_END = os.pipe()
_READABLE, _READABLE_END = os.pipe()
os.write(_READABLE_END, b"!")


class _Socket:
    """The socket of a simulated connection: its file is readable if there is something to read."""

    def __init__(self, transport: "Transport") -> None:
        self._transport = transport

    def getpeername(self) -> Address:
        return self._transport.peer_address

    def getsockname(self) -> Address:
        return self._transport.own_address

    def fileno(self) -> int:
        return _READABLE if self._transport.has_arrived else _QUIET

    def setsockopt(self, *_: Any) -> None: ...


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: "Network", protocol: Any, own: Address, peer: Address) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self._protocol = protocol
        self._context = contextvars.copy_context()
        self.own_address, self.peer_address = own, peer
        self.other: Transport
        self.latency_s = 0.0
        self.delivered = 0
        """Bytes that the other end has received before it closed."""
        self._unsent = bytearray()
        self._ends = False
        """Whether the end of the data follows the unsent bytes."""
        self._end_sent = False
        self._pumping = False
        self._made = self._closing = self._lost = False
        self._reading = True
        self._told_to_pause = False
        self._high = HIGH
        self.silent = False
        """Whether nothing sent from here arrives any more, and nobody is told."""

    def _begin(self, made: "asyncio.Future[None] | None") -> None:
        self._made = True
        self._protocol.connection_made(self)
        if made is not None and not made.done():
            made.set_result(None)

    # Writing

    def write(self, data: Any) -> None:
        if self._closing or self._lost or not data:
            return
        self._unsent += data
        self._pump_later()
        if len(self._unsent) > self._high and not self._told_to_pause:
            self._told_to_pause = True
            self._protocol.pause_writing()

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._ends = True
        self._pump_later()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH if high is None else high

    def close(self) -> None:
        if not self._closing:
            self._closing = self._ends = True
            self._pump_later()
            if not self._unsent:
                self._call_soon(self._lose, None)

    def abort(self) -> None:
        """Close at once; the other end finds its end of data, or a reset."""
        self._closing = True
        if self._lost:
            return
        self._unsent.clear()
        if self._network.dice.random() < 0.5:
            self._ends = True
            self._pump_later()
        else:
            self._reset_other()
        self._call_soon(self._lose, None)

    def reset(self) -> None:
        """Close at once with a reset, which overtakes what the other end has not read."""
        self._closing = True
        self._unsent.clear()
        self._reset_other()
        self._call_soon(self._lose, None)

    def break_off(self) -> None:
        """Lose the connection by a fault of the way."""
        self._call_soon(self._receive_reset)

    def _reset_other(self) -> None:
        if not self.silent:
            other = self.other
            self._loop.call_later(self.latency_s, other._receive_reset, context=other._context)

    def _receive_reset(self) -> None:
        self._unsent.clear()
        self._lose(ConnectionResetError("reset by the other end"))

    def is_closing(self) -> bool:
        return self._closing

    # Reading

    @property
    def has_arrived(self) -> bool:
        """Whether a read would return something: it may not have arrived, by chance."""
        other = self.other
        waits = other._unsent or (other._ends and not other._end_sent)
        return bool(waits) and self._network.dice.random() < 0.5

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.other._pump_later()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    # Other parts of the interface

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        match name:
            case "socket":
                return _Socket(self)
            case "peername":
                return self.peer_address
            case "sockname":
                return self.own_address
        return default

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    # The wire

    def _call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_soon(callback, *arguments, context=self._context)

    def _pump_later(self, delay_s: float | None = None) -> None:
        """Let the next piece arrive; there is one step at a time, so that order is kept."""
        if not self._pumping and not self.silent:
            self._pumping = True
            # In the other end's process: it lives on if this one is killed.
            delay_s = self.latency_s if delay_s is None else delay_s
            self._loop.call_later(delay_s, self._pump, context=self.other._context)

    def _pump(self) -> None:
        self._pumping = False
        if self.silent:
            return
        other, dice = self.other, self._network.dice
        if not other._made:
            self._pump_later()
            return
        if self._unsent and not other._reading and not other._lost:
            return
        if other._lost:
            if self._unsent:
                self._call_soon(self._receive_reset)
            elif self._closing:
                self._call_soon(self._lose, None)
            return
        if self._unsent:
            size = len(self._unsent)
            if dice.random() < 0.3:
                size = dice.randint(1, size)
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            self.delivered += 0 if other._closing else size
            self._call_soon(self._taken)
            other._protocol.data_received(piece)
        if self._unsent:
            self._pump_later(0.0)
        elif self._ends and not self._end_sent:
            self._end_sent = True
            keeps = other._protocol.eof_received()
            if not keeps:
                other.close()

    def _taken(self) -> None:
        if self._told_to_pause and len(self._unsent) <= self._high // 4:
            self._told_to_pause = False
            if not self._lost:
                self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._made:
            self._call_soon(self._lose, error)
            return
        if self._lost:
            return
        self._lost = self._closing = True
        self._network.open.discard(self)
        self._protocol.connection_lost(error)
        if self.other._unsent:  # a closed socket answers with a reset
            self.other._pump_later()


class _Listener:
    """A server as asyncio returns one."""

    def __init__(self, network: "Network", address: Address) -> None:
        self._network, self._address = network, address
        self.sockets: tuple[Any, ...] = ()

    def close(self) -> None:
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None: ...


class Network:
    """The hosts of a simulation, and the faults of the way to them."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.loop: Any = None
        self.listeners: dict[Address, tuple[Callable[[], Any], contextvars.Context]] = {}
        self.unreachable: set[Address] = set()
        """Hosts that do not answer, not even with a refusal."""
        self.open: set[Transport] = set()
        self._ports = 40_000

    def listen(self, address: Address, factory: Callable[[], Any]) -> _Listener:
        self.listeners[address] = factory, contextvars.copy_context()
        return _Listener(self, address)

    async def await_connection(self, address: Address) -> None:
        """Wait until a host has answered.

        Raises:
            ConnectionRefusedError: nobody listens.
        """
        await asyncio.sleep(self.dice.random() * 0.02)
        while address in self.unreachable:  # noqa: ASYNC110
            await asyncio.sleep(1)
        if address not in self.listeners:
            raise ConnectionRefusedError(111, f"nobody listens at {address[0]}:{address[1]}")

    async def connect(self, address: Address, protocol: Any) -> Transport:
        """Connect a protocol to one of the listener."""
        if address not in self.listeners:
            raise ConnectionRefusedError(111, f"nobody listens at {address[0]}:{address[1]}")
        factory, context = self.listeners[address]
        self._ports += 1
        own = ("10.9.0.1", self._ports)
        here = Transport(self, protocol, own, address)
        there = context.copy().run(self._accept, factory, address, own)
        here.other, there.other = there, here
        here.latency_s = there.latency_s = self.dice.choice((0.0001, 0.001, 0.03))
        here._high = there._high = self.dice.choice((HIGH // 16, HIGH))
        self.open |= {here, there}
        made = self.loop.create_future()
        here._call_soon(here._begin, made)
        there._call_soon(there._begin, None)
        await made
        return here

    def _accept(self, factory: Callable[[], Any], address: Address, peer: Address) -> Transport:
        return Transport(self, factory(), address, peer)

    def close(self) -> None:
        """Break all connections off."""
        for transport in self.all():
            transport.reset()

    def all(self) -> list[Transport]:
        return sorted(self.open, key=lambda one: (one.own_address, one.peer_address))

    def kill(self, dead: Callable[[contextvars.Context], bool]) -> None:
        """Reset all connections of a dead process, as the system does."""
        for transport in self.all():
            if dead(transport._context):
                transport._lost = transport._closing = True
                transport._unsent.clear()
                transport._reset_other()
                self.open.discard(transport)

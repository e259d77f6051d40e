"""WebSocket frames from clients: messages as wsproto reads them, and one close, which is last."""

import struct
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import RemoteProtocolError

from app.server.socket_protocol import SocketProtocol
from tests.fuzz.coroutines import run_now
from tests.fuzz.target import CUTS, Target, in_pieces, split

MAX_MESSAGE = 4096
HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
OPCODES = (0, 1, 1, 1, 2, 8, 9, 10, 3, 11)
MASK = b"\x01\x02\x03\x04"


class Transport:
    """Keeps what is written, and carries on reading: what was read before a pause comes too."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        if data:
            assert not self.closed, "nothing is written once it is closed"
            self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading


class Task:
    def add_done_callback(self, callback: object) -> None: ...


class Loop:
    """A loop whose clock stands still, and which runs no task: `accept` does its work."""

    def time(self) -> float:
        return 1.0

    def create_task(self, coroutine: Any) -> Task:
        coroutine.close()
        return Task()


class Flow:
    def watch_reader(self) -> None: ...

    forget_reader = pause_writing = resume_writing = watch_reader


class Heard(NamedTuple):
    """What the app has of a client, and the client of the server."""

    messages: list[bytes]
    closed: bool
    close_codes: list[int]
    pongs: list[bytes]


def check(data: bytes) -> None:
    choice, script = split(data)
    for wire in (script, b"".join(build(script))):
        whole, cut = hear([wire]), hear(in_pieces(wire, CUTS[choice % len(CUTS)]))
        if whole.close_codes and whole.close_codes != [1000]:
            # Of a client that breaks the protocol, what it sent before may be dropped.
            assert whole.closed == cut.closed
            assert whole.messages == cut.messages[: len(whole.messages)]
        else:
            assert whole == cut, CUTS[choice % len(CUTS)]
        check_peer(wire, whole)
        check_peer(wire, cut)


def hear(pieces: Iterable[bytes]) -> Heard:
    config: Any = SimpleNamespace(
        **{"loaded": True, "loaded_app": None, "root_path": "", "asgi_version": "3.0"},
        **{"ws_per_message_deflate": False, "ws_max_size": MAX_MESSAGE},
        **{"ws_ping_interval": None, "ws_ping_timeout": None},
    )
    state: Any = SimpleNamespace(connections=set(), tasks=set(), default_headers=[])
    reserved: list[int] = []
    loop: Any = Loop()
    flow: Any = Flow()
    protocol = SocketProtocol(config, state, {}, _loop=loop, flow=flow, on_lost=lambda: None)
    protocol.reserve = reserved.append
    transport: Any = Transport()
    protocol.connection_made(transport)
    protocol.data_received(HANDSHAKE)
    run_now(protocol.receive())
    run_now(protocol.send({"type": "websocket.accept"}))
    assert transport.written[0].startswith(b"HTTP/1.1 101 ")
    del transport.written[:]
    for piece in pieces:
        if transport.closed:
            break
        protocol.data_received(piece)
        held = sum(map(len, protocol.frames))
        assert held <= MAX_MESSAGE, held
        assert protocol._received <= MAX_MESSAGE * 20 + len(piece)
    messages: list[bytes] = []
    ended = False
    while not protocol.queue.empty():
        message: Any = protocol.queue.get_nowait()
        if message["type"] == "websocket.receive":
            assert not ended, "a message after the end"
            messages.append(message["bytes"])  # a text too: it comes as checked bytes
        else:
            ended = True
    codes, pongs = list[int](), list[bytes]()
    for opcode, payload in frames_of(b"".join(transport.written)):
        assert not codes, "a frame after the close"
        if opcode == 8:
            codes.append(struct.unpack(">H", payload[:2])[0] if payload else 1005)
        elif opcode == 10:
            pongs.append(payload)
    assert ended == transport.closed
    assert len(codes) == transport.closed or not codes
    return Heard(messages, transport.closed, codes, pongs)


def frames_of(written: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the frames that a server has written: short ones, without a mask."""
    at = 0
    while at < len(written):
        size = written[at + 1]
        assert size < 126
        yield written[at] & 15, written[at + 2 : at + 2 + size]
        at += 2 + size


def check_peer(wire: bytes, heard: Heard) -> None:
    """Assert that wsproto reads the same messages; the stricter one stops earlier."""
    peer = Connection(ConnectionType.SERVER)
    expected, current, closed = list[bytes](), b"", False
    try:
        peer.receive_data(wire)
        for event in peer.events():
            if isinstance(event, TextMessage | BytesMessage):
                data = event.data.encode() if isinstance(event, TextMessage) else bytes(event.data)
                current += data
                if len(current) > MAX_MESSAGE:
                    closed = True
                    break
                if event.message_finished:
                    expected.append(current)
                    current = b""
            elif isinstance(event, CloseConnection):
                closed = True
                if event.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA:
                    assert len(heard.messages) <= len(expected), "a text that is not UTF-8"
                break
    except RemoteProtocolError:
        closed = True
    both = min(len(expected), len(heard.messages))
    assert expected[:both] == heard.messages[:both]
    assert closed or heard.closed or expected == heard.messages
    assert heard.closed or len(heard.messages) >= len(expected)


def build(script: bytes) -> Iterator[bytes]:
    """Yield frames that a script names: opcode, whether it is the last of a message, payload."""
    at = 0
    while at + 2 <= len(script):
        kind, size = script[at : at + 2]
        payload = script[at + 2 : at + 2 + size]
        at += 2 + size
        yield frame(OPCODES[kind % len(OPCODES)], payload, final=kind < 200, masked=kind % 97 != 96)


def frame(opcode: int, payload: bytes, *, final: bool = True, masked: bool = True) -> bytes:
    size = len(payload)
    length = bytes([size | 0x80 * masked]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    if not masked:
        return bytes([opcode | 0x80 * final]) + length + payload
    hidden = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))
    return bytes([opcode | 0x80 * final]) + length + MASK + hidden


TARGET = Target(
    check,
    seeds=(
        b"\x00" + frame(1, b'{"type":"response.create"}'),
        b"\x01" + frame(1, b"\xe3\x81", final=False) + frame(9, b"p") + frame(0, b"\x9b"),
        b"\x02" + frame(2, b"\xff") + frame(8, struct.pack(">H", 1000) + b"bye"),
        b"\x03" + b"\x01\x05hello\xc9\x02ab\x09\x01p\x00\x01c\x05\x00",
        b"\x04" + frame(1, b"a" * 300) + frame(3, b""),
        b"\x05" + b"\x81\xff" + struct.pack(">Q", 2**62) + MASK,
    ),
    tokens=(
        *(frame(1, b"a"), frame(0, b""), frame(8, b""), frame(9, b""), frame(1, b"", final=False)),
        *(b"\xff", b"\x81\xfe\x01\x00", b"\xf1", b"\xed\xa0\x80", b"\x88\x81", MASK),
    ),
)

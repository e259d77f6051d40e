"""HTTP/1.1 server on a loopback port: plays the answers of one case, then acts as a relay.

One thread a connection. Bodies are chunked, one HTTP chunk for each piece, so that a client's
HTTP library hands over the pieces as they were cut, however TCP joins them.
"""

import json
import socket
import socketserver
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .wire import STREAM, Body, number_of, render, streams

HOLD_S = 20.0
"""The longest time that a held connection stays open."""

HEAD_BYTES = 65_536

CURSORS = ("after", "lastEventId", "lastEventID", "last-event-id", "Last-Event-ID")


@dataclass
class Asked:
    """A request that a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    query: dict[str, list[str]]
    body: bytes
    at: float
    """Seconds of the monotonic clock."""

    @property
    def cursor(self) -> int | None:
        """The newest cursor of the request, 0 without one, None if it is malformed."""
        found = [value for name in CURSORS for value in self.query.get(name, [])]
        if header := self.headers.get("last-event-id"):
            found.append(header)
        numbers = [number_of(cursor) for cursor in found]
        known = [number for number in numbers if number is not None]
        return None if len(known) < len(numbers) else max(known, default=0)


@dataclass
class Exchange:
    """The server's side of one run of a case."""

    answers: list[dict[str, Any]]
    stream: str
    bodies: dict[int, Body] = field(default_factory=dict)
    """Bodies that replace those of answers, by their place."""
    asked: list[Asked] = field(default_factory=list)
    ended_at: dict[int, float] = field(default_factory=dict)
    """When each answer ended or was cut, by its place."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, request: Asked) -> int:
        """Note a request and return its place."""
        with self.lock:
            self.asked.append(request)
            return len(self.asked) - 1

    def answer(self, request: Asked, place: int) -> tuple[dict[str, Any], Body]:
        """Return the answer to a request: the next that is scripted, or a relay's."""
        if place < len(self.answers):
            answer = self.answers[place]
            return answer, self.bodies.get(place) or render(answer, stream=self.stream)
        return self._as_relay(request)

    def _as_relay(self, request: Asked) -> tuple[dict[str, Any], Body]:
        """Answer as a relay that has the whole stream."""
        if not request.path.endswith((f"/v1/streams/{STREAM}/events", "/v1/chat")):
            return problem(404, "not_found")
        cursor, last = request.cursor, len(streams()[self.stream])
        if cursor is None:
            return problem(400, "invalid_request")
        if cursor == last:
            return {"status": 204}, Body()
        if cursor > last:
            return problem(409, "conflict")
        answer = {"json_lines": "x-ndjson" in request.headers.get("accept", "")}
        return answer, render(answer, stream=self.stream, after=cursor)


def problem(status: int, code: str) -> tuple[dict[str, Any], Body]:
    text = json.dumps({"status": status, "code": code, "detail": code, "retryable": False})
    headers = {"content-type": "application/problem+json"}
    return {"status": status, "headers": headers}, Body([(0, text.encode())])


class Loopback(socketserver.ThreadingTCPServer):
    """The server of a run, with an exchange for each case, by the first part of its path."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.exchanges: dict[str, Exchange] = {}
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "Loopback":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that leave."""


class Connection(socketserver.BaseRequestHandler):
    server: Loopback

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request.settimeout(HOLD_S)
        self._rest = b""

    def handle(self) -> None:
        while (request := self._read()) is not None:
            exchange = self.server.exchanges.get(request.path.split("/")[1])
            if exchange is None:
                self._answer(*problem(404, "not_found"))
                return
            place = exchange.add(request)
            try:
                if not self._answer(*exchange.answer(request, place)):
                    return
            finally:
                exchange.ended_at[place] = time.monotonic()

    def _read(self) -> Asked | None:
        """Read a request; None at the end of the connection."""
        while b"\r\n\r\n" not in self._rest:
            data = self.request.recv(65_536)
            if not data or len(self._rest) > HEAD_BYTES:
                return None
            self._rest += data
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        body = self._read_body(headers)
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        return Asked(method, parts.path, headers, query, body, time.monotonic())

    def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while size := int(self._until(b"\r\n"), 16):
                body += self._exactly(size)
                self._exactly(2)
            self._until(b"\r\n")
            return body
        return self._exactly(int(headers.get("content-length", "0")))

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def _more(self) -> None:
        data = self.request.recv(65_536)
        if not data:
            raise ConnectionResetError("the client left within its request")
        self._rest += data

    def _answer(self, answer: dict[str, Any], body: Body) -> bool:
        """Send an answer; return whether the connection can be used again."""
        end = answer.get("end", "close")
        if end == "unanswered":
            self._reset()
            return False
        status = answer.get("status", 200)
        lines = answer.get("json_lines")
        kind = "application/x-ndjson" if lines else "text/event-stream; charset=utf-8"
        headers = {
            "cache-control": "no-store, no-transform",
            "content-type": kind,
            "content-location": f"/v1/streams/{STREAM}/events",
            "stream-id": STREAM,
        }
        if status != 200:
            headers = {}
        headers |= answer.get("headers", {})
        is_chunked = not answer.get("until_close")
        if status != 204:
            name, value = (
                ("transfer-encoding", "chunked") if is_chunked else ("connection", "close")
            )
            headers[name] = value
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        self.request.sendall(f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode("latin-1"))
        if status == 204:
            return True
        for wait, data in body.chunks:
            time.sleep(wait)
            if data:
                self.request.sendall(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data)
        if end == "hold":
            self.request.recv(1)  # the client leaves
            return False
        if end == "cut" or not is_chunked:
            return False
        if end == "reset":
            time.sleep(0.03)  # or the reset overtakes the bytes before it
            self._reset()
            return False
        self.request.sendall(b"0\r\n\r\n")
        return True

    def _reset(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()

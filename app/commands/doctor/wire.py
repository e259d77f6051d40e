"""HTTP/1.1 client of the doctor: one connection for each request, and the time of every read.

HTTP clients for programs hide both. The framing is h11's. Faults of the other side are in the
reply; none raises.
"""

import asyncio
import contextlib
import math
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import h11
import msgspec

READ_BYTES = 65_536
BAD_GATEWAY = (502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
TRIES = 7
AT_ONCE_S = 0.8
PAUSE_S = 0.05
"""Before a second try; it doubles."""
MAX_BODY = 8 * 2**20

Ending = Literal["whole", "cut", "left", "silent", "refused", "tls", "malformed"]
"""`whole`: ended as HTTP requires. `cut`: the connection was lost before that. `left`: by `until`.
`silent`: timed out. `refused`: no connection. `tls`: no TLS. `malformed`: no HTTP."""

Piece = tuple[float, bytes]
"""One read: its time and its bytes."""


@dataclass(frozen=True)
class Url:
    """The public URL of a relay, without a trailing slash."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> "Url":
        """Parse a URL; the default scheme is `https`.

        Raises:
            ValueError: it is not a URL of http or https, or has more than a path.
        """
        parts = urlsplit(text if "://" in text else f"https://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{text!r} is not a URL of http or https")
        if parts.query or parts.fragment or parts.username:
            raise ValueError(f"{text!r}: give the address of the relay alone, without ? # or @")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, prefix=parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.scheme == "https" else 80)
        return host if usual else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return f"{self.origin}{self.prefix}"


@dataclass
class Reply:
    """One request and its answer."""

    asked: str
    """The method and the path."""
    began: float
    """Start of the connection. All times are of the monotonic clock."""
    connected: float | None = None
    headed: float | None = None
    """End of the head."""
    ended: float = 0
    ending: Ending = "cut"
    error: str = ""
    status: int = 0
    """0 without a head."""
    version: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    """The reads of the body."""
    size: int = 0

    @property
    def span(self) -> tuple[float, float]:
        return self.began, self.ended or math.inf

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]

    def header(self, name: str) -> str:
        """Return the value of a header, or ""."""
        return ", ".join(self.all(name))

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def coding(self) -> str:
        """The compression of the body, or ""."""
        coding = self.header("content-encoding").strip().lower()
        return "" if coding == "identity" else coding

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    def json(self) -> dict[str, Any]:
        """Return the body's object; empty if there is none."""
        try:
            value = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def code(self) -> str:
        """The code of a relay's error, or ""."""
        body = self.json()
        code = body.get("code") if "request_id" in body else None
        return code if isinstance(code, str) else ""

    @property
    def own(self) -> bool:
        """Return whether this is an error of the relay, in any dialect."""
        return bool(self.code) or isinstance(self.json().get("error"), dict)

    @property
    def bad_gateway(self) -> bool:
        """Return whether a proxy did not reach the relay."""
        return self.status in BAD_GATEWAY and not self.code

    @property
    def fails_at_once(self) -> bool:
        """Return whether a gateway fails, or the connection closes, at once."""
        gone = not self.status and self.ending in ("cut", "refused")
        return (self.bad_gateway or gone) and self.ended - self.began <= AT_ONCE_S

    @property
    def limited(self) -> bool:
        """Return whether a proxy refused one request too many.

        nginx answers 503 for `limit_req` and `limit_conn` by default, and 502 for a failed
        upstream.
        """
        refused = self.status == 429 or (self.status == 503 and "nginx" in self.header("server"))
        return refused and not self.own

    @property
    def redirects(self) -> bool:
        return self.status in REDIRECTS and bool(self.header("location"))

    @property
    def is_page(self) -> bool:
        """Return whether this is an HTML page."""
        return self.media_type == "text/html" or self.body[:200].lstrip().lower().startswith(
            (b"<!doctype html", b"<html")
        )

    @property
    def seconds(self) -> float:
        """Seconds to the head, or to the end without one."""
        return (self.headed if self.headed is not None else self.ended) - self.began

    def describe(self) -> str:
        if self.status:
            kind = self.code or ("an HTML page" if self.is_page else self.media_type)
            text = f"{self.status} ({kind})" if kind else f"{self.status}"
            if self.ending == "cut":
                text += ", cut off"
            return text
        if self.ending == "silent":
            return f"nothing within {self.ended - self.began:.0f} s"
        if self.ending == "cut":
            return "the connection was closed without an answer"
        return self.error or "no answer"


class Client:
    """Sends requests to one relay."""

    def __init__(
        self,
        url: Url,
        *,
        credential: tuple[tuple[str, str], ...] = (),
        trust: ssl.SSLContext,
        timeout_s: float,
    ) -> None:
        self.url = url
        self.credential = credential
        self.trust = trust
        self.trust.set_alpn_protocols(["http/1.1"])
        self.timeout_s = timeout_s
        self.replies: list[Reply] = []
        self.most_retries = TRIES - 1
        """None once all were in vain."""

    @property
    def limited(self) -> bool:
        """Return whether a proxy limits the rate of requests."""
        return any(reply.limited for reply in self.replies)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Iterable[tuple[str, str]] = (),
        until: Callable[[Reply], bool] | None = None,
        within_s: float | None = None,
        anonymous: bool = False,
        once: bool = False,
        tries: int = TRIES,
    ) -> Reply:
        """Send a request over a new connection and read to the end, `until`, or `within_s`.

        A `body` that is not bytes is sent as JSON. `until` is called after each read. A request
        is sent again if a limit on the rate refuses it and, unless `once`, if a gateway fails or
        the connection closes at once: such failures are findings of their own.
        """
        request = (method, path, body, headers, anonymous)
        for number in range(tries):
            reply = await self._ask(request, until=until, within_s=within_s or self.timeout_s)
            again = reply.limited or (reply.fails_at_once and not once)
            if not again or number >= self.most_retries:
                break
            await asyncio.sleep(PAUSE_S * 2**number)
        if reply.limited and tries > 1:
            self.most_retries = 0
        return reply

    async def _ask(
        self,
        request: tuple[str, str, object, Iterable[tuple[str, str]], bool],
        *,
        until: Callable[[Reply], bool] | None,
        within_s: float,
    ) -> Reply:
        method, path, body, headers, anonymous = request
        reply = Reply(f"{method} {path.partition('?')[0]}", time.monotonic())
        self.replies.append(reply)
        content = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            content = msgspec.json.encode(body)
        fields = [
            ("host", self.url.authority),
            ("user-agent", "seseragi-doctor"),
            *(() if anonymous else self.credential),
            *([] if body is None else [("content-type", "application/json")]),
            *([("content-length", str(len(content)))] if content or method == "POST" else []),
            *headers,
        ]
        head = h11.Request(method=method, target=f"{self.url.prefix}{path}", headers=fields)
        writer = None
        try:
            async with asyncio.timeout(within_s):
                reader, writer = await self.connect()
                reply.connected = time.monotonic()
                connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=65_536)
                writer.write(connection.send(head) or b"")
                sending = asyncio.ensure_future(_send(writer, connection, content))
                try:
                    await _read(reader, connection, reply, until)
                finally:
                    sending.cancel()
        except TimeoutError:
            reply.ending = "silent"
        except h11.RemoteProtocolError as error:
            reply.ending, reply.error = "malformed", f"invalid HTTP: {error}"
        except OSError as error:
            reply.error = _reason_of(error)
            # Without an errno the peer closed in the handshake: it does not speak TLS, or not 1.2.
            tls = isinstance(error, ssl.SSLError) or (self._tls is not None and not error.errno)
            reply.ending = "cut" if reply.connected else "tls" if tls else "refused"
        finally:
            if writer is not None:
                writer.transport.abort()
        reply.ended = time.monotonic()
        return reply

    @property
    def _tls(self) -> ssl.SSLContext | None:
        return self.trust if self.url.scheme == "https" else None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        name = self.url.host if self._tls else None
        return await asyncio.open_connection(
            self.url.host, self.url.port, ssl=self._tls, server_hostname=name
        )


async def _send(writer: asyncio.StreamWriter, connection: h11.Connection, content: bytes) -> None:
    data = connection.send(h11.Data(data=content)) or b"" if content else b""
    data += connection.send(h11.EndOfMessage()) or b""
    with contextlib.suppress(OSError):  # a refusal may come before all is sent
        for start in range(0, len(data), READ_BYTES):
            writer.write(data[start : start + READ_BYTES])
            await writer.drain()


async def _read(
    reader: asyncio.StreamReader,
    connection: h11.Connection,
    reply: Reply,
    until: Callable[[Reply], bool] | None,
) -> None:
    await asyncio.sleep(0)  # the body is on its way first
    while True:
        data = await reader.read(READ_BYTES)
        connection.receive_data(data)
        try:
            over = _take(connection, reply, time.monotonic())
        except h11.RemoteProtocolError:
            if data:
                raise
            reply.ending = "cut"
            return
        if over:
            reply.ending = "whole" if reply.status else "cut"
            return
        if (until is not None and reply.status and until(reply)) or reply.size > MAX_BODY:
            reply.ending = "left"
            return


def _take(connection: h11.Connection, reply: Reply, now: float) -> bool:
    """Add what has arrived to the reply; return whether the answer is complete."""
    piece = b""
    over = False
    while not over:
        event = connection.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            break
        if isinstance(event, h11.Response):
            reply.headed = now
            reply.status = event.status_code
            reply.version = event.http_version.decode()
            reply.headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in event.headers]
        elif isinstance(event, h11.Data):
            piece += bytes(event.data)
        over = isinstance(event, h11.EndOfMessage | h11.ConnectionClosed)
    if piece:
        reply.pieces.append((now, piece))
        reply.size += len(piece)
    return over


def _reason_of(error: OSError) -> str:
    """Return why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.lower()
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or str(error)).replace("_", " ").lower()

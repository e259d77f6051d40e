"""One request over a connection of its own: what came, when, in which reads and chunks.

An HTTP client for programs hides all of that. The framing is h11's. Nothing here raises for
what the other side does: it is in the reply.
"""

import asyncio
import contextlib
import math
import ssl
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import h11
import msgspec

READ_BYTES = 65_536
BAD_GATEWAY = (502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
TRIES = 3
AT_ONCE_S = 0.8
PAUSE_S = 0.1
LIMIT_S = 1.1
"""After so long nginx, which says 503 by default, takes a request where it takes one a second."""
LIMITED_TRIES = 5
LIMITED_PAUSE_S = 0.5
LIMITED_MOST_S = 4.0
"""What refuses too many requests is asked again after a pause, which doubles up to this."""
SPACING_S = 0.2
"""Between two requests, once one was refused for being one too many."""
MAX_BODY = 8 * 2**20
"""More of a body is not read."""

Ending = Literal["whole", "cut", "left", "silent", "refused", "tls", "malformed"]
"""`whole`: ended as HTTP says. `cut`: the connection was lost before that. `left`: by us, who had
seen enough. `silent`: by us, in vain. `refused`: no connection. `tls`: no TLS. `malformed`: no
HTTP."""

Piece = tuple[float, bytes]
"""When some bytes came, and these."""


@dataclass(frozen=True)
class Url:
    """The public URL of a relay, without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> "Url":
        """Parse a URL; `https` if it does not say.

        Raises:
            ValueError: it is none of `http` or `https`.
        """
        parts = urlsplit(text if "://" in text else f"https://{text}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{text!r} is no URL of http or https")
        if parts.query or parts.fragment or parts.username:
            raise ValueError(f"{text!r}: give the address of the relay alone, without ? # or @")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        return cls(parts.scheme, parts.hostname, port, parts.path.rstrip("/"))

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
    """What came for one request."""

    asked: str
    """The method and the path."""
    began: float
    """When the connection was begun, by the monotonic clock like all other times."""
    connected: float | None = None
    headed: float | None = None
    """When the head had come."""
    ended: float = 0
    ending: Ending = "cut"
    error: str = ""
    status: int = 0
    """0 where no head came."""
    version: str = ""
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    """The body, by reads."""
    chunks: list[int] = field(default_factory=list)
    """The sizes of the body's chunks."""
    size: int = 0
    """Bytes of the body so far, compressed if they are."""

    @property
    def span(self) -> tuple[float, float]:
        """From when to when it was waited for."""
        return self.began, self.ended or math.inf

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]

    def header(self, name: str) -> str:
        """Return the value of a header; "" where there is none."""
        return ", ".join(self.all(name))

    @property
    def media_type(self) -> str:
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def coding(self) -> str:
        """How the body is compressed; "" if it is not."""
        coding = self.header("content-encoding").strip().lower()
        return "" if coding == "identity" else coding

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.decoded())

    def decoded(self) -> list[Piece]:
        """Return the body without its compression, as far as that can be undone here."""
        if self.coding not in ("gzip", "x-gzip", "deflate"):
            return [] if self.coding else self.pieces
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        pieces: list[Piece] = []
        with contextlib.suppress(zlib.error):
            for at, data in self.pieces:
                pieces.append((at, inflate.decompress(data, MAX_BODY)))
        return pieces

    def json(self) -> dict[str, Any]:
        """Return the body as an object; an empty one if it is none."""
        try:
            value = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def code(self) -> str:
        """The code of the relay's error; "" if the answer is none of the relay's errors."""
        body = self.json()
        code = body.get("code") if "request_id" in body else None
        return code if isinstance(code, str) else ""

    @property
    def own(self) -> bool:
        """Return whether this is an error in the relay's words, in whichever dialect."""
        return bool(self.code) or isinstance(self.json().get("error"), dict)

    @property
    def bad_gateway(self) -> bool:
        """Return whether a proxy says that it did not reach the relay."""
        return self.status in BAD_GATEWAY and not self.code

    def fails_at_once(self, *, closed: bool) -> bool:
        """Return whether a gateway fails; `closed`: or whatever closes the connection at once."""
        gone = closed and not self.status and self.ending in ("cut", "refused")
        return (self.bad_gateway or gone) and self.ended - self.began <= AT_ONCE_S

    @property
    def limited(self) -> bool:
        """Return whether a proxy says that there were too many requests."""
        return self.status == 429 and not self.own

    @property
    def redirects(self) -> bool:
        """Return whether it leads elsewhere."""
        return self.status in REDIRECTS and bool(self.header("location"))

    @property
    def is_page(self) -> bool:
        """Return whether this is a page for people."""
        return self.media_type == "text/html" or self.body[:200].lstrip().lower().startswith(
            (b"<!doctype html", b"<html")
        )

    @property
    def seconds(self) -> float:
        """How long it took to the head, or to the end where no head came."""
        return (self.headed if self.headed is not None else self.ended) - self.began

    def describe(self) -> str:
        """Say in some words what came."""
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
    """Asks one relay."""

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
        """The headers that say who asks."""
        self.trust = trust
        self.trust.set_alpn_protocols(["http/1.1"])
        self.timeout_s = timeout_s
        self.replies: list[Reply] = []
        """All there were, in the order of their requests."""
        self.limited = False
        """Whether requests were refused for being too many."""
        self._patience = LIMITED_TRIES
        """How often such a one is asked again; not at all once that was in vain."""

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
        patient: bool = True,
        once: bool = False,
    ) -> Reply:
        """Ask on a new connection, and read to the end, to `until`, or for so many seconds.

        `path` is below the URL. A `body` that is not bytes is sent as JSON. `until` is asked
        after each read. Where a gateway fails at once, it is asked again, and where it closes
        the connection or counts requests, unless `patient` is false: that it does so now and
        then is one fault, and not one of whatever was just looked at. `once`: nothing is asked
        again.
        """
        request = (method, path, body, headers, anonymous)
        failed = limited = 0
        while True:
            if self.limited and patient and not once:
                await asyncio.sleep(SPACING_S)
            reply = await self._ask(request, until=until, within_s=within_s)
            if once:
                return reply
            if reply.limited and patient:
                self.limited = True
                if limited >= self._patience:
                    self._patience = 0
                    return reply
                await asyncio.sleep(min(LIMITED_PAUSE_S * 2**limited, LIMITED_MOST_S))
                limited += 1
            elif reply.fails_at_once(closed=patient) and failed < TRIES - 1:
                last = failed == TRIES - 2 and reply.status == 503 and patient
                await asyncio.sleep(LIMIT_S if last else PAUSE_S * 2**failed)
                failed += 1
            else:
                return reply

    async def _ask(
        self,
        request: tuple[str, str, object, Iterable[tuple[str, str]], bool],
        *,
        until: Callable[[Reply], bool] | None,
        within_s: float | None,
    ) -> Reply:
        method, path, body, headers, anonymous = request
        reply = Reply(f"{method} {path.partition('?')[0]}", time.monotonic())
        self.replies.append(reply)
        content = b"" if body is None else _encode(body)
        fields = [
            ("host", self.url.authority),
            ("user-agent", "seseragi-doctor"),
            *(() if anonymous else self.credential),
            *([] if body is None else [("content-type", "application/json")]),
            *([("content-length", str(len(content)))] if content or method == "POST" else []),
            *headers,
        ]
        try:
            async with asyncio.timeout(self.timeout_s if within_s is None else within_s):
                target = f"{self.url.prefix}{path}"
                await self._exchange(reply, (method, target, fields, content), until)
        except TimeoutError:
            reply.ending = "silent"
        reply.ended = time.monotonic()
        return reply

    async def _exchange(
        self,
        reply: Reply,
        request: tuple[str, str, list[tuple[str, str]], bytes],
        until: Callable[[Reply], bool] | None,
    ) -> None:
        writer = None
        try:
            reader, writer = await self.connect()
            reply.connected = time.monotonic()
            method, target, fields, content = request
            connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=65_536)
            head = connection.send(h11.Request(method=method, target=target, headers=fields))
            writer.write(head or b"")
            sending = asyncio.ensure_future(_send(writer, connection, content))
            try:
                await _read(reader, connection, reply, until)
            finally:
                sending.cancel()
        except h11.RemoteProtocolError as error:
            reply.ending = "malformed"
            reply.error = f"no proper HTTP: {error}"
        except ssl.SSLError as error:
            reply.ending = "cut" if reply.connected else "tls"
            reply.error = reason_of(error)
        except OSError as error:
            reply.ending = "cut" if reply.connected else "refused"
            reply.error = reason_of(error)
            if not reply.connected and self.url.scheme == "https" and not error.errno:
                reply.ending = "tls"  # a connection came about, and was closed in the handshake
                reply.error = "closed in the handshake, as by what knows no TLS 1.2 or none at all"
        finally:
            if writer is not None:
                writer.transport.abort()

    async def connect(
        self, *, address: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection, to one of the addresses of the name if it is given."""
        host = address or self.url.host
        if self.url.scheme == "http":
            return await asyncio.open_connection(host, self.url.port)
        return await asyncio.open_connection(
            host, self.url.port, ssl=self.trust, server_hostname=self.url.host
        )


async def _send(writer: asyncio.StreamWriter, connection: h11.Connection, content: bytes) -> None:
    data = connection.send(h11.Data(data=content)) or b"" if content else b""
    data += connection.send(h11.EndOfMessage()) or b""
    with contextlib.suppress(OSError):  # what is refused may be refused before it is sent
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
    """Take what has come; return whether it is all."""
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
            if event.chunk_start or not reply.chunks:
                reply.chunks.append(0)
            reply.chunks[-1] += len(event.data)
        over = isinstance(event, h11.EndOfMessage | h11.ConnectionClosed)
    if piece:
        reply.pieces.append((now, piece))
        reply.size += len(piece)
    return over


def _encode(body: object) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def reason_of(error: OSError) -> str:
    """Say why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message.lower()
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return (error.strerror or str(error)).lower()

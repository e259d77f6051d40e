"""HTTP/1.1 client of the doctor, one connection for each request, and event stream frames.

Faults of the other side are in the reply; none raises.
"""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import msgspec

BAD_GATEWAY = (502, 503, 504)
REDIRECTS = (301, 302, 303, 307, 308)
REPETITIONS = 6
AT_ONCE_S = 0.8
PAUSE_S = 0.05
"""Before the first repetition; it doubles."""
MAX_BODY = 8 * 2**20

Ending = Literal["whole", "cut", "left", "silent"]
"""`whole`: ended as HTTP requires. `cut`: the connection was lost before that. `left`: by `until`.
`silent`: timed out."""

Piece = tuple[float, bytes]
"""A part of a body and the time of its arrival."""


def parse_url(text: str) -> httpx2.URL:
    """Parse the public URL of a relay; the default scheme is `https`.

    Raises:
        ValueError: it is not a URL of http or https, or has more than a path.
    """
    try:
        url = httpx2.URL(text if "://" in text else f"https://{text}")
    except httpx2.InvalidURL as error:
        raise ValueError(f"{text!r} is not a URL of http or https: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{text!r} is not a URL of http or https")
    if url.query or url.fragment or url.userinfo:
        raise ValueError(f"{text!r}: give the address of the relay alone, without ? # or @")
    return url


@dataclass
class Reply:
    """One request and its answer."""

    asked: str
    """The method and the path."""
    began: float
    """Start of the request. All times are of the monotonic clock."""
    headed: float | None = None
    """End of the head."""
    ended: float = 0
    ending: Ending = "cut"
    error: str = ""
    status: int = 0
    """0 without a head."""
    version: str = ""
    headers: httpx2.Headers = field(default_factory=httpx2.Headers)
    pieces: list[Piece] = field(default_factory=list)

    def header(self, name: str) -> str:
        """Return the value of a header, or ""."""
        return self.headers.get(name, "")

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
        gone = not self.status and self.ending == "cut"
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

    def describe(self) -> str:
        if self.status:
            kind = self.code or ("an HTML page" if self.is_page else self.media_type)
            text = f"{self.status} ({kind})" if kind else f"{self.status}"
            if self.ending == "cut":
                text += ", cut off"
            return text
        if self.ending == "silent":
            return f"nothing within {self.ended - self.began:.0f} s"
        return f"no answer: {self.error}" if self.error else "no answer"


class Client:
    """Sends requests to one relay."""

    def __init__(
        self, url: httpx2.URL, *, key: str = "", trust: ssl.SSLContext, timeout_s: float
    ) -> None:
        self.url = str(url).rstrip("/")
        self.origin = f"{url.scheme}://{url.netloc.decode()}"
        self.prefix = url.path.rstrip("/")
        self.host = url.host
        self.port = url.port or (443 if url.scheme == "https" else 80)
        self.key = key
        self.timeout_s = timeout_s
        self.replies: list[Reply] = []
        self._trust = trust
        self._tls = url.scheme == "https"
        self._repetitions = REPETITIONS
        """0 once all were in vain."""

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        until: Callable[[Reply], bool] | None = None,
        within_s: float | None = None,
        anonymous: bool = False,
    ) -> Reply:
        """Send a request over a new connection and read to the end, `until`, or `within_s`.

        A `body` that is not bytes is sent as JSON. `until` is called after each piece. A request
        is sent again if a limit on the rate refuses it, a gateway fails, or the connection closes
        at once: such failures are findings of their own.
        """
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        fields = {"user-agent": "seseragi-doctor", "accept-encoding": "identity"}
        if content is not None:
            fields["content-type"] = "application/json"
        if self.key and not anonymous:
            fields["authorization"] = f"Bearer {self.key}"
        request = httpx2.Request(
            method, f"{self.url}{path}", headers={**fields, **(headers or {})}, content=content
        )
        within_s = within_s or self.timeout_s
        reply = await self._send(request, until=until, within_s=within_s)
        for number in range(self._repetitions):
            if not (reply.limited or reply.fails_at_once):
                return reply
            await asyncio.sleep(PAUSE_S * 2**number)
            reply = await self._send(request, until=until, within_s=within_s)
        if reply.limited:
            self._repetitions = 0
        return reply

    async def _send(
        self,
        request: httpx2.Request,
        *,
        until: Callable[[Reply], bool] | None,
        within_s: float,
    ) -> Reply:
        path = request.url.path.removeprefix(self.prefix)
        reply = Reply(f"{request.method} {path}", time.monotonic())
        self.replies.append(reply)
        try:
            async with (
                asyncio.timeout(within_s),
                httpx2.AsyncClient(verify=self._trust, trust_env=False, timeout=None) as client,
            ):
                response = await client.send(request, stream=True)
                reply.headed = time.monotonic()
                reply.status, reply.headers = response.status_code, response.headers
                reply.version = response.http_version.removeprefix("HTTP/")
                await _read(response, reply, until)
        except TimeoutError:
            reply.ending = "silent"
        except httpx2.TransportError as error:
            reply.error = str(error)
        reply.ended = time.monotonic()
        return reply

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection."""
        return await asyncio.open_connection(
            self.host, self.port, ssl=self._trust if self._tls else None
        )


async def _read(
    response: httpx2.Response, reply: Reply, until: Callable[[Reply], bool] | None
) -> None:
    size = 0
    async for data in response.aiter_raw():
        reply.pieces.append((time.monotonic(), data))
        size += len(data)
        if (until is not None and until(reply)) or size > MAX_BODY:
            reply.ending = "left"
            return
    reply.ending = "whole"


@dataclass
class Frame:
    """The fields between two blank lines."""

    at: float
    """Arrival of the blank line that ends it."""
    fields: dict[str, str]

    @property
    def event(self) -> dict[str, Any]:
        """The object in `data:`; empty if there is none."""
        try:
            value = msgspec.json.decode(self.fields.get("data", ""))
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass
class Frames:
    """A parsed event stream."""

    frames: list[Frame] = field(default_factory=list)
    comments: list[float] = field(default_factory=list)
    """Arrival of each."""

    @property
    def deltas(self) -> list[Frame]:
        return [frame for frame in self.frames if frame.event.get("type") == "text.delta"]

    @property
    def text(self) -> str:
        return "".join(str(frame.event.get("text", "")) for frame in self.deltas)

    @property
    def ended(self) -> bool:
        return bool(self.frames) and self.frames[-1].event.get("type") == "stream.end"


def read_frames(pieces: Iterable[tuple[float, bytes]]) -> Frames:
    """Parse a body; a frame arrived when its last byte did."""
    found = Frames()
    fields: dict[str, str] = {}
    buffer = b""
    for at, data in pieces:
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").decode("utf-8", "replace").partition(":")
            if line.startswith(b":"):
                found.comments.append(at)
            elif name:
                fields[name] = value.removeprefix(" ")
            elif fields:
                found.frames.append(Frame(at, fields))
                fields = {}
    return found

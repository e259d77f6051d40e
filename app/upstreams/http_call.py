"""HTTP calls to upstreams, and the replies to them, as values."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import NamedTuple, Self

import httpx2
import msgspec

from ..framing.content_coding import name_coding
from .connection import HttpBody


class Origin(NamedTuple):
    """Where connections of a call lead (RFC 6454)."""

    scheme: str
    host: str
    """A name (IDNA) or an IP address without brackets."""
    port: int


class CallUrl(NamedTuple):
    """A URL, taken apart once: parsing takes 30 us. The path and query are sent as they are."""

    parsed: httpx2.URL
    text: str
    origin: Origin
    authority: str
    """The value of `host`: without the port if it is the scheme's."""
    target: str
    """The path and query."""

    @classmethod
    def of(cls, url: httpx2.URL) -> Self:
        """Return a URL of the scheme http or https, taken apart."""
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.raw_host.decode().strip("[]").rstrip(".")
        origin = Origin(url.scheme, host, port)
        return cls(url, str(url), origin, url.netloc.decode(), url.raw_path.decode())


class HttpCall(msgspec.Struct, frozen=True):
    """One HTTP call."""

    method: str
    url: CallUrl
    headers: dict[str, str]
    """With lower-case names."""
    content: bytes = b""
    connect_timeout_s: float | None = None
    redact: Callable[[str], str] = str
    """Replaces the secrets of the call in an error reply, which may quote them."""
    on_resend: Callable[[], None] = lambda: None
    """Called before the call is sent again, as the upstream may have taken it before."""

    def render_head(self, target: str, more: Mapping[str, str]) -> bytes:
        """Render the head for a request target (RFC 9112, 3.2), with additional headers.

        Raises:
            ValueError: a header has a line end.
        """
        headers = self.headers
        lines = [f"{self.method} {target} HTTP/1.1"]
        if "host" not in headers:
            lines.append(f"host: {self.url.authority}")
        for name, value in (*headers.items(), *more.items()):
            lines.append(f"{name}: {value}")
        if self.content:
            lines.append(f"content-length: {len(self.content)}")
        head = "\r\n".join(lines)
        if head.count("\n") >= len(lines) or head.count("\r") >= len(lines):
            raise ValueError("a header has a line end")
        return f"{head}\r\n\r\n".encode()


class HttpReply(msgspec.Struct, frozen=True):
    """The response to a call, once its head arrived."""

    status: int
    headers: Mapping[str, str]
    """Read them by lower-case names; those of a mounted transport are in any case."""
    body: HttpBody | AsyncGenerator[bytes]
    """As sent; the caller closes it."""

    @property
    def coding(self) -> str:
        """The content coding of the body, "identity" for none."""
        value = self.headers.get("content-encoding")
        return name_coding(value) if value else "identity"

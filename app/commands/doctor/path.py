"""Proxies on the path, by the headers they add and the error pages they send.

A program is known by its own name only; one behind another often sends none.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .wire import Client, Reply

PAGE_BYTES = 16_384


@dataclass(frozen=True)
class Hop:
    """A program between the client and the relay."""

    program: str
    """As in `advice.toml`."""
    shown: str
    """Its own name and version."""
    evidence: str


NAMES: Sequence[tuple[str, str]] = (
    ("cloudflare", r"cloudflare"),
    ("cloudfront", r"cloudfront"),
    ("api_gateway", r"\bapigw\b|api ?gateway"),
    ("alb", r"awselb"),
    ("heroku", r"\bvegur\b|heroku"),
    ("vercel", r"vercel"),
    ("fastly", r"fastly"),
    ("nginx", r"nginx|openresty|tengine|angie"),
    ("haproxy", r"haproxy"),
    ("caddy", r"caddy"),
    ("traefik", r"traefik"),
    ("envoy", r"envoy|istio"),
    ("apache", r"apache(?!-coyote)"),
    ("varnish", r"varnish"),
)
"""Names in headers and error pages."""

NAMING = ("server", "via", "x-served-by", "x-powered-by", "x-cache", "server-timing")
"""Headers of answers whose values name programs; of others the name may."""

HAPROXY_PAGE = (
    r"<h1>4\d\d [\w -]+</h1>\s*Your browser sent an invalid request"
    r"|<h1>50\d [\w -]+</h1>\s*(No server is available|The server|Gateway)"
)
"""Its error pages do not name it."""


def from_reply(reply: Reply) -> list[Hop]:
    """Return the programs that an answer names."""
    hops: list[Hop] = []
    for name in NAMING:
        value = reply.header(name)
        hops += _named(value, f"the header {name}: {value[:80]}")
    for name in reply.headers:
        hops += _named(name, f"the header {name}")
    if reply.is_page:
        hops += from_page(reply.body)
    return join(hops)


def from_page(body: bytes) -> list[Hop]:
    """Return the programs that an error page shows."""
    text = body[:4096].decode("utf-8", "replace")
    if re.search(HAPROXY_PAGE, text, re.DOTALL | re.IGNORECASE):
        return [Hop("haproxy", "haproxy", "its error page")]
    tail = re.findall(r"<(?:center|address|p|i)>([^<]{2,80})</", text)
    return [hop for line in tail for hop in _named(line, f"its error page: {line.strip()!r}")]


def _named(value: str, evidence: str) -> list[Hop]:
    """Return the programs in a value such as `1.1 varnish (Varnish/7.1), 1.1 vegur`."""
    hops = []
    for part in value.split(","):
        for program, pattern in NAMES:
            if shown := re.search(rf"[\w.-]*(?:{pattern})[\w./-]*", part, re.IGNORECASE):
                hops.append(Hop(program, shown[0], evidence))
                break
    return hops


def join(*hops: Iterable[Hop]) -> list[Hop]:
    """Return the first hop of each program."""
    programs: dict[str, Hop] = {}
    for some in hops:
        for hop in some:
            programs.setdefault(hop.program, hop)
    return list(programs.values())


async def provoke_error_page(client: Client) -> list[Hop]:
    """Send an invalid header line: some programs, as HAProxy, show themselves in no answer.

    Raises:
        OSError: there is no connection, or TLS fails.
    """
    page = b""
    async with asyncio.timeout(client.timeout_s):
        reader, writer = await client.connect()
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nno header\r\n\r\n")
        with contextlib.suppress(OSError):  # also a timeout
            async with asyncio.timeout(client.timeout_s):
                while len(page) < PAGE_BYTES and (data := await reader.read(4096)):
                    page += data
    finally:
        writer.transport.abort()
    return from_page(page)

"""Only what a proxy lets through reaches the relay, whatever is packed into it.

The proxies let `GET /healthz` through and nothing else, with no more configuration than that
takes; nginx also has the lines for WebSockets that are in everybody's.
"""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from app.testing.upstream import answer
from tests.hostile import BODY, SMUGGLED, in_chunks, pieces, statuses, tell
from tests.needs import missing, program
from tests.ports import free_port
from tests.proxies import programs
from tests.proxies.programs import Proxy

pytestmark = pytest.mark.proving

CADDY = """{{
	admin off
	auto_https off
}}
http://:{port} {{
	bind 127.0.0.1
	handle {path} {{
		reverse_proxy 127.0.0.1:{relay}
	}}
	respond 403
}}
"""

NGINX = """
location = {path} {{
    proxy_pass http://relay;
    proxy_http_version 1.1;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header Connection "upgrade";
    proxy_set_header Host $host;
}}
location / {{ return 403; }}
"""

HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 10s
    timeout server 10s
frontend all
    bind 127.0.0.1:{port}
    http-request deny unless {{ path {path} }}
    default_backend relay
backend relay
    http-reuse always
    server one 127.0.0.1:{relay}
"""


@contextlib.asynccontextmanager
async def caddy(folder: Path, relay: int, path: str) -> AsyncIterator[Proxy]:
    port = free_port()
    text = CADDY.format(port=port, relay=relay, path=path)
    async with programs.caddy(folder, text, port):
        yield Proxy(f"http://127.0.0.1:{port}")


@contextlib.asynccontextmanager
async def nginx(folder: Path, relay: int, path: str) -> AsyncIterator[Proxy]:
    upstream = f"upstream relay {{ server 127.0.0.1:{relay}; keepalive 4; }}"
    async with programs.nginx_with(folder, NGINX.format(path=path), upstream) as proxy:
        yield proxy


@contextlib.asynccontextmanager
async def haproxy(folder: Path, relay: int, path: str) -> AsyncIterator[Proxy]:
    port = free_port()
    text = HAPROXY.format(port=port, relay=relay, path=path)
    async with programs.haproxy(folder, text, port):
        yield Proxy(f"http://127.0.0.1:{port}")


Run = Callable[[Path, int, str], contextlib.AbstractAsyncContextManager[Proxy]]
PROXIES = pytest.mark.parametrize(
    "proxy", [caddy, nginx, haproxy], ids=lambda proxy: proxy.__name__
)

ALLOWED = b"%b /healthz HTTP/1.1\r\nhost: localhost\r\n"
OFFERS = {
    "websocket": b"connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
    "only upgrade": b"upgrade: websocket\r\n",
    "only connection": b"connection: upgrade\r\n",
    "several": b"upgrade: a\r\nupgrade: websocket, h2c\r\nconnection: keep-alive, upgrade\r\n",
    "none": b"",
}
LATE = b"\r\n" * 100_000 + SMUGGLED
"""More than a proxy sends in one packet with the head."""

PACKED = {
    "late": b"content-length: %d\r\n\r\n%b" % (len(LATE), LATE),
    "with a length": b"content-length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED),
    "in chunks": b"transfer-encoding: chunked\r\n\r\n" + in_chunks(SMUGGLED),
    "after it": b"a: b\r\n\r\n" + SMUGGLED,
    "after a body": b"content-length: 3\r\n\r\nabc" + SMUGGLED,
    "after chunks": b"transfer-encoding: chunked\r\n\r\n" + in_chunks(b"abc") + SMUGGLED,
    "in trailers": b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" + SMUGGLED,
    "after a coding": b"transfer-encoding: gzip, chunked\r\n\r\n" + in_chunks(b"abc") + SMUGGLED,
    "after a length and chunks": b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
    + in_chunks(b"abc")
    + SMUGGLED,
    "after two lengths": b"content-length: 3\r\ncontent-length: 0\r\n\r\nabc" + SMUGGLED,
}


AT_ONCE = 60


async def attack(port: int, head: bytes, packed: bytes, pause_s: float) -> bytes:
    """Send a head and what is packed with it, in one or one after the other."""
    parts = [head + packed]
    if pause_s:
        fields, end, rest = packed.partition(b"\r\n\r\n")
        parts = [head + fields + end, *pieces(rest, 1 << 16)]
    with contextlib.suppress(TimeoutError):  # the proxy may keep the connection
        return await tell(port, *parts, within_s=0.3, pause_s=pause_s)
    return b""


@PROXIES
@pytest.mark.parametrize("method", [b"GET", b"POST", b"CONNECT"])
async def test_what_the_proxy_did_not_let_through_is_not_run(
    proxy: Run, method, tmp_path, upstream, relay
):
    upstream.script = answer("fine")
    async with proxy(tmp_path, relay.port, "/healthz") as front:
        port = int(front.http.rpartition(":")[2])
        attacks = [
            attack(port, ALLOWED % method + offer, packed, pause_s)
            for offer in OFFERS.values()
            for packed in PACKED.values()
            for pause_s in (0, 0.05)
        ]
        for start in range(0, len(attacks), AT_ONCE):
            await asyncio.gather(*attacks[start : start + AT_ONCE])
        through = await tell(port, ALLOWED % b"GET" + b"connection: close\r\n\r\n")

    assert b'"ok"' in through
    assert [] == upstream.calls


@PROXIES
@pytest.mark.parametrize("offer", OFFERS)
async def test_chat_with_an_upgrade_runs_once_through_a_proxy(
    proxy: Run, offer, tmp_path, upstream, relay
):
    headers = b"POST /v1/chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    asked = headers + OFFERS[offer] + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    upstream.script = answer("fine")
    async with proxy(tmp_path, relay.port, "/v1/chat") as front:
        port = int(front.http.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for part in pieces(asked, 100):
            writer.write(part)
            await asyncio.sleep(0.005)
        try:
            received = await asyncio.wait_for(reader.readuntil(b'"completed"'), 30)
        finally:
            writer.close()

    assert [200] == statuses(received)
    assert 1 == len(upstream.calls)


JAVA = """
import java.net.URI;
import java.net.http.*;
public class Ask {
    public static void main(String[] given) throws Exception {
        HttpClient client = HttpClient.newHttpClient();  // offers h2c
        for (int number = 0; number < 2; number++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(given[0]))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(given[1])).build();
            var reply = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(reply.statusCode() + " " + reply.body());
        }
    }
}
"""


async def test_javas_own_client_may_offer_http_2(tmp_path, upstream, relay):
    java = program("java")
    (tmp_path / "Ask.java").write_text(JAVA)
    upstream.script = answer("fine")
    ran = await asyncio.to_thread(
        subprocess.run,
        [java, "Ask.java", f"{relay.url}/v1/chat", BODY.decode()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    if "compiler" in ran.stderr:
        missing("no compiler beside java")
    assert 2 == ran.stdout.count("200 "), ran
    assert 2 == ran.stdout.count('"completed"')

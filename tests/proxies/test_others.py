"""Caddy, HAProxy and Vite as `docs/proxies.md` shows them."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx2
import pytest

from app.testing.upstream import Hold, answer, head, send, text
from tests.needs import file, program
from tests.ports import answers, free_port
from tests.proxies import programs
from tests.proxies.programs import ROOT, Proxy, certify, replace, running
from tests.proxies.reading import TOKENS, Timed, curl, delays, post
from tests.serving import HELLO
from tests.test_docs import block

pytestmark = pytest.mark.proving

CADDY = "{\n\tadmin off\n\tauto_https disable_redirects\n}\n"
VITE = Path(__file__).parents[1] / "examples/node_modules/vite/bin/vite.js"
HEALTHY_S = 30
CUT = (18, 56)
"""What curl ends with when an answer is cut off; 28 when its own time is over."""


def relays(snippet: str, relay: int, before: int | None = None) -> str:
    """Put the address of a relay into it, and before that another, by default where there is none."""
    snippet = snippet.replace("relay-1:8000", f"127.0.0.1:{before or free_port()}")
    return snippet.replace("relay-2:8000", f"127.0.0.1:{relay}")


@contextlib.asynccontextmanager
async def caddy(folder: Path, relay: int) -> AsyncIterator[Proxy]:
    port, tls = free_port(), folder / "tls"
    authority = certify(tls)
    site = f"localhost:{port} {{\n\ttls {tls}/fullchain.pem {tls}/privkey.pem"
    text = replace(block("caddy", "docs/proxies.md"), "chat.example.com {", site)
    async with programs.caddy(folder, CADDY + relays(text, relay), port):
        yield Proxy("", f"https://localhost:{port}", authority)


@contextlib.asynccontextmanager
async def haproxy(
    folder: Path, relay: int, *, before: int | None = None, check: str = "2s"
) -> AsyncIterator[Proxy]:
    port, tls = free_port(), folder / "tls"
    authority = certify(tls)
    pem = tls / "both.pem"
    pem.write_bytes((tls / "fullchain.pem").read_bytes() + (tls / "privkey.pem").read_bytes())
    text = replace(block("haproxy", "docs/proxies.md"), "bind :8443", f"bind 127.0.0.1:{port}")
    text = replace(text, "/etc/haproxy/seseragi.pem", str(pem))
    text = replace(text, "check inter 2s", f"check inter {check}")
    async with programs.haproxy(folder, relays(text, relay, before), port):
        yield Proxy("", f"https://localhost:{port}", authority)


@contextlib.asynccontextmanager
async def vite(folder: Path, relay: int) -> AsyncIterator[Proxy]:
    port, how = free_port(), "run npm ci --ignore-scripts --prefix tests/examples"
    text = replace(block("vite", "docs/proxies.md"), "127.0.0.1:8000", f"127.0.0.1:{relay}")
    (folder / "vite.config.mjs").write_text(text)
    (folder / "node_modules").mkdir()
    (folder / "node_modules/seseragi").symlink_to(ROOT / "static")
    command = [
        program("node"),
        str(file(VITE, how=how)),
        "--host",
        "127.0.0.1",
        "--port",
        f"{port}",
    ]
    async with running([*command, "--strictPort"], folder, port, is_up=answers):
        yield Proxy(f"http://127.0.0.1:{port}")


PROXIES = pytest.mark.parametrize("proxy", [caddy, haproxy], ids=lambda proxy: proxy.__name__)
Run = Callable[[Path, int], contextlib.AbstractAsyncContextManager[Proxy]]


@PROXIES
async def test_each_token_comes_within_100_ms(proxy: Run, tmp_path, upstream, relay):
    upstream.choose = lambda call: Timed()
    async with proxy(tmp_path, relay.port) as front:
        options = ("--http2", "--compressed", "--cacert", str(front.authority))
        taken, head = await delays(tmp_path, front.https, *options)

    assert TOKENS == len(taken)
    assert max(taken) < 0.1, taken
    assert "http/2 200" in head
    assert "content-encoding" not in head


@PROXIES
async def test_client_that_leaves_is_seen_by_the_relay(proxy: Run, tmp_path, upstream, relay):
    upstream.script = [head(), send(text("one")), Hold()]
    async with proxy(tmp_path, relay.port) as front:
        options = ("--cacert", str(front.authority), *post(on_disconnect="cancel"))
        async with curl(tmp_path, f"{front.https}/v1/chat", *options) as reply:
            await reply.first("text.delta")

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


@PROXIES
async def test_relay_that_is_gone_is_passed_over(proxy: Run, tmp_path, upstream, relay):
    upstream.script = answer("fine")
    async with proxy(tmp_path, relay.port) as front:
        trust = ssl.create_default_context(cafile=str(front.authority))
        async with httpx2.AsyncClient(verify=trust, timeout=30, trust_env=False) as client:
            url = f"{front.https}/v1/chat"
            replies = [await client.post(url, json=HELLO) for _ in range(4)]

    assert [200] * 4 == [reply.status_code for reply in replies]


async def test_haproxy_sends_eventsource_back_when_no_relay_is_ready(tmp_path):
    async with haproxy(tmp_path, free_port(), check="100ms") as front:
        options = ("--cacert", str(front.authority), "-H", "Accept: text/event-stream")
        async with asyncio.timeout(HEALTHY_S):
            while True:
                url = f"{front.https}/v1/streams/st_1/events"
                async with curl(tmp_path, url, *options) as reply:
                    out, _ = await reply.process.communicate()
                if "200 " in reply.head:
                    break

    assert b"retry: 2000\n\n" == out


async def test_vite_passes_on_that_either_side_is_gone(tmp_path, upstream, relay):
    upstream.choose = lambda _: [head(), send(text("one")), Hold()]
    async with vite(tmp_path, relay.port) as front:
        url = f"{front.http}/v1/chat"
        async with curl(tmp_path, url, *post(on_disconnect="cancel")) as reply:
            await reply.first("text.delta")
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)

        async with curl(tmp_path, url, *post()) as reply:
            await reply.first("text.delta")
            for connection in [*relay.server.server_state.connections]:
                connection.transport.abort()
            await reply.process.communicate()

    assert reply.process.returncode in CUT

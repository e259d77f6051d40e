"""Answers in pages with React's StrictMode, each cut at another byte: none lost, none doubled.

Of each adapter's stream some bytes are tried; `EVERY_BYTE=1` tries all of them.
"""

import asyncio
import contextlib
import json
import os
import re
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.testing.upstream import answer, serve_upstream
from tests.e2e.engines import Engine
from tests.e2e.react_page import build_with_package, serve_page
from tests.e2e.test_adapters import ADAPTERS, Chromium
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
WORDS = ["せせ", "らぎ🌊", "\n`id: 1`"]
WHOLE = "".join(WORDS)
STEP = 1 if os.environ.get("EVERY_BYTE") else 61
ASK = """
  while (!window.ask) await new Promise((done) => setTimeout(done, 20)); // it comes by an effect
  window.ask(%s);
"""
WAIT = """
  const until = Date.now() + %d;
  while (Object.keys(window.results ?? {}).length < %d) {
    if (Date.now() > until) break;
    await new Promise((done) => setTimeout(done, 20));
  }
  return window.results;
"""


class Proxy:
    """Cuts the first answer to a POST below `/cut-NUMBER/` after so many bytes of its body."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.sizes: dict[str, int] = {}
        self.cut: set[str] = set()
        self.serving: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self.serving.add(task)
            task.add_done_callback(self.serving.discard)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, place = head.split(" ", 2)[:2]
        found = re.match(r"/cut-(\w+)(/.*)", place)
        at, path = (found[1], found[2]) if found else ("none", place)
        head = re.sub(r"(?im)^connection:.*\r\n", "", head.replace(place, path, 1))
        size = re.search(r"(?im)^content-length: (\d+)", head)
        body = await reader.readexactly(int(size[1])) if size else b""
        above, upward = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            upward.write(head[:-2].encode("latin-1") + b"connection: close\r\n\r\n" + body)
            answered = await above.readuntil(b"\r\n\r\n")
            writer.write(answered)
            said = await above.read()
        finally:
            upward.transport.abort()
        if method != "POST" or at == "none" or place in self.cut:
            if method == "POST":
                self.sizes[path] = len(said)
            writer.write(said)
            await writer.drain()
            return
        self.cut.add(place)
        writer.write(said[: int(at)])
        await writer.drain()
        if int(at) % 2:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await asyncio.sleep(0.01)  # what is on its way may yet be read
            writer.transport.abort()


@contextlib.asynccontextmanager
async def serve_proxy(port: int) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        left = [*proxy.serving]  # browsers open connections that they may come to need
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture(scope="module")
def script() -> str:
    return build_with_package("every_byte.jsx")


async def cut_everywhere(engine: Engine, script: str) -> None:
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, retry_ms=500) as relay,
        serve_proxy(relay.port) as (proxy, address),
        serve_page(script) as url,
    ):
        upstream.script = answer(*WORDS)

        async def ask(items: list[dict[str, Any]], total: int) -> Any:
            await engine.run(ASK % json.dumps(items))
            for _ in range(4 + len(items) // 10):  # WebDriver waits 60 s for one script
                found = await engine.run(WAIT % (5000, total))
                if len(found) == total:
                    break
            return found

        await engine.open(f"{url}/#{address}")
        first: list[dict[str, Any]] = [{"adapter": adapter, "at": "none"} for adapter in ADAPTERS]
        await ask(first, len(first))
        paths = {"hook": "/v1/chat", "sdk": "/v1/ui/chat", "agent": "/v1/ag-ui"}
        cuts: list[dict[str, Any]] = [
            {"adapter": adapter, "at": at}
            for adapter in ADAPTERS
            for at in range(0, proxy.sizes[paths[adapter]], STEP)
        ]
        found = await ask(cuts, len(first) + len(cuts))

        names = {f"{item['adapter']} {item['at']}" for item in (*first, *cuts)}
        assert set() == names - set(found)
        lost = {name: seen for name, seen in found.items() if seen[-1] != WHOLE}
        assert {} == lost
        doubled = [
            (name, shown) for name, seen in found.items() for shown in seen if shown not in WHOLE
        ]
        assert [] == doubled
        assert len(cuts) == len(proxy.cut)
        assert len(first) + len(cuts) == len(upstream.calls)


async def test_answers_cut_at_any_byte_are_whole_in_chromium(page, script):
    await cut_everywhere(Chromium(page), script)


async def test_answers_cut_at_any_byte_are_whole_in_firefox(firefox, script):
    await cut_everywhere(firefox, script)

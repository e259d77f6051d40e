"""A real browser behind nginx: HTTP/2 lifts its limit of six connections."""

import asyncio

import pytest
from playwright.async_api import async_playwright

from app.testing.upstream import Hold, head, send, serve_upstream, text
from tests.e2e.conftest import FLAGS
from tests.needs import program
from tests.proxies.programs import nginx
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

STREAMS = 12
OPEN = """async () => {
  const reply = await fetch("/v1/chat", {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "respond-async" },
    body: JSON.stringify({ messages: [{ role: "user", content: "hello" }] }),
  });
  const { events_url } = await reply.json();
  const source = new EventSource(events_url);
  await new Promise((resolve) => source.addEventListener("text.delta", resolve));
}"""


async def test_twelve_streams_are_read_at_once_over_http2(tmp_path):
    executable = program("chromium", "chromium-browser", variable="CHROMIUM")
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream) as relay,
        nginx(tmp_path, relay.port) as proxy,
        async_playwright() as playwright,
    ):
        upstream.script = [head(), send(text("one")), Hold()]
        browser = await playwright.chromium.launch(
            executable_path=executable, args=[*FLAGS, "--no-sandbox"], timeout=120_000
        )
        page = await browser.new_page(ignore_https_errors=True)
        await page.goto(proxy.https)
        async with asyncio.timeout(60):
            for _ in range(STREAMS):
                await page.evaluate(OPEN)
        await browser.close()

    assert STREAMS == len(upstream.calls)

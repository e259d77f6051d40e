"""The page outlives its connections: a cut, a reload, a second tab, a proxy that cuts at random."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, Route

from app.testing.upstream import Until
from tests.cutting import cutting_proxy, randomly
from tests.e2e.talk import BUSY, IDLE, answer, ask, paced, status
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
WORDS = [f"{number} せせらぎ🌊 " for number in range(40)]
WHOLE = "".join(WORDS).strip()


@contextlib.asynccontextmanager
async def kept_away(page: Page) -> AsyncIterator[None]:
    """Let no connection to a stream's events be made before the end of the block."""
    over = asyncio.Event()

    async def later(route: Route) -> None:
        await over.wait()
        await route.continue_()

    await page.route("**/v1/streams/*/events*", later)
    try:
        yield
    finally:
        over.set()


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_reload_and_a_second_tab_go_on_in_mid_sentence(page, upstream, relay, transport):
    go_on = Until()
    upstream.script = paced(WORDS, go_on)
    await page.goto(relay.url)
    await ask(page, "count", transport=transport)
    await page.wait_for_selector(f"{BUSY}:has-text('{WORDS[3].strip()}')")
    await page.reload()
    link = await page.get_attribute("#tab:not([hidden])", "href")
    other = await page.context.new_page()
    await other.goto(f"{relay.url}/{link}")
    await other.wait_for_selector(BUSY)
    go_on.told.set()
    for tab in (page, other):
        assert WHOLE == (await answer(tab)).strip()
        assert "completed" == await status(tab)
    assert "count" in (await page.locator(".message.user").last.text_content() or "")
    assert 1 == len(upstream.calls)


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_network_that_cuts_loses_and_doubles_nothing(page, upstream, transport):
    """Only streams are cut, after their head: see test_eventsource."""
    async with serve_relay(upstream, retry_ms=500) as relay:
        upstream.script = paced(WORDS)
        async with cutting_proxy(relay.port, randomly(5, least=900, most=2500)) as proxy:
            proxy.mercy = b"event: stream.end"
            proxy.delay_s = 0.1

            async def through_proxy(route):
                await route.continue_(
                    url=route.request.url.replace(str(relay.port), str(proxy.port))
                )

            await page.goto(relay.url)
            await page.route("**/v1/chat", through_proxy)
            await page.route("**/v1/streams/*/events*", through_proxy)
            await ask(page, "count", transport=transport)
            await page.wait_for_selector(IDLE, timeout=40_000)

            assert WHOLE == (await answer(page)).strip()
            assert "completed" == await status(page)
            assert proxy.cuts > 1
        assert 1 == len(upstream.calls)

"""The page outlives its connections: a cut, a reload, a second tab, a proxy that cuts at random."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, Route

from app.testing.upstream import DONE, FINISH, Step, Until, head, send, serve_upstream, text, wait
from tests.cutting import cutting_proxy, randomly
from tests.e2e.test_page import IDLE, answer, ask, status
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
WORDS = [f"{number} せせらぎ🌊 " for number in range(40)]
PACED: list[Step] = [
    head(),
    *(step for word in WORDS for step in (send(text(word)), wait(0.05))),
    send(FINISH + DONE),
]
BUSY = "body[data-state=busy] .message.assistant .text"


def paced(go_on: Until) -> list[Step]:
    """Return the answer that stands still in its midst until the test goes on."""
    return [*PACED[:13], go_on, *PACED[13:]]


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
async def test_cut_connection_comes_back_by_itself(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream, retry_ms=500) as relay:
        go_on = Until()
        upstream.script = paced(go_on)
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        await page.wait_for_selector(BUSY)
        async with kept_away(page):
            await page.click("#cut")
            await page.wait_for_selector("body[data-ready=reconnecting]")
        go_on.told.set()

        assert "".join(WORDS).strip() == (await answer(page)).strip()
        assert "completed" == await status(page)
        assert 1 == len(upstream.calls)
        shown = await page.locator("#events li").evaluate_all(
            "rows => rows.map(row => row.dataset.type)"
        )
        assert len(WORDS) == shown.count("text.delta")


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_reload_goes_on_in_mid_sentence(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        go_on = Until()
        upstream.script = paced(go_on)
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        await page.wait_for_selector(f"{BUSY}:has-text('{WORDS[3].strip()}')")
        await page.reload()
        go_on.told.set()

        assert "".join(WORDS).strip() == (await answer(page)).strip()
        assert "completed" == await status(page)
        assert "count" in (await page.locator(".message.user").last.text_content() or "")
        assert 1 == len(upstream.calls)


async def test_second_tab_shows_the_same_stream(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        go_on = Until()
        upstream.script = paced(go_on)
        await page.goto(relay.url)
        await ask(page, "count")
        await page.wait_for_selector("#tab:not([hidden])")
        link = await page.get_attribute("#tab", "href")
        other = await page.context.new_page()
        await other.goto(f"{relay.url}/{link}")
        await other.wait_for_selector(BUSY)
        go_on.told.set()
        for tab in (page, other):
            assert "".join(WORDS).strip() == (await answer(tab)).strip()
            assert "completed" == await status(tab)
        assert 1 == len(upstream.calls)


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_page_behind_a_network_that_cuts_loses_and_doubles_nothing(page, transport):
    """Only streams are cut, after their head: see test_eventsource."""
    async with serve_upstream() as upstream, serve_relay(upstream, retry_ms=500) as relay:
        upstream.script = PACED
        plan = randomly(5, least=900, most=2500)
        async with cutting_proxy(relay.port, plan) as proxy:
            proxy.mercy = b"event: stream.end"

            async def through_proxy(route):
                await route.continue_(
                    url=route.request.url.replace(str(relay.port), str(proxy.port))
                )

            await page.goto(relay.url)
            await page.route("**/v1/chat", through_proxy)
            await page.route("**/v1/streams/*/events*", through_proxy)
            await ask(page, "count", transport=transport)
            await page.wait_for_selector(IDLE, timeout=40_000)

            assert "".join(WORDS).strip() == (await answer(page)).strip()
            assert "completed" == await status(page)
            assert proxy.cuts > 1
        assert 1 == len(upstream.calls)

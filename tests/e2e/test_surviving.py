"""The page outlives its connections: a cut, a reload, a second tab, a proxy that cuts at random."""

import pytest

from tests.cutting import cutting_proxy, randomly
from tests.e2e.test_page import IDLE, answer, ask, status
from tests.serving import serve_relay
from tests.upstream import DONE, FINISH, Step, head, send, serve_upstream, text, wait

pytestmark = pytest.mark.browser

EXPECTED_ERRORS = ("net::ERR_",)
WORDS = [f"{number} せせらぎ🌊 " for number in range(40)]
PACED: list[Step] = [
    head(),
    *(step for word in WORDS for step in (send(text(word)), wait(0.05))),
    send(FINISH + DONE),
]
BUSY = "body[data-state=busy] .message.assistant .text"


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_cut_connection_comes_back_by_itself(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream, retry_ms=500) as relay:
        upstream.script = PACED
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        await page.wait_for_selector(BUSY)
        await page.click("#cut")
        await page.wait_for_selector("body[data-ready=reconnecting]")

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
        upstream.script = PACED
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        await page.wait_for_selector(BUSY)
        await page.wait_for_timeout(300)
        await page.reload()

        assert "".join(WORDS).strip() == (await answer(page)).strip()
        assert "completed" == await status(page)
        assert "count" in (await page.locator(".message.user").last.text_content() or "")
        assert 1 == len(upstream.calls)


async def test_second_tab_shows_the_same_stream(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = PACED
        await page.goto(relay.url)
        await ask(page, "count")
        await page.wait_for_selector("#tab:not([hidden])")
        link = await page.get_attribute("#tab", "href")
        other = await page.context.new_page()
        await other.goto(f"{relay.url}/{link}")
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

"""Stop, Escape, the offline state, and where the focus is: the page does what its user says, at once."""

import asyncio
import re

import pytest

from app.testing.upstream import Hold, Until, head, send, text
from tests.e2e.axe import check_accessible
from tests.e2e.talk import IDLE, answer, ask, rest, says, status
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
STATUS = "document.querySelector('#status').textContent"


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_stop_is_at_once_where_the_relay_is_slow_to_confirm(page, transport, upstream, relay):
    upstream.script = [head(), send(text("half an ans")), Hold()]
    confirmed = asyncio.Event()

    async def slowly(route):
        await confirmed.wait()
        await route.continue_()

    await page.route("**/cancel", slowly)
    await page.goto(relay.url)
    assert "prompt" == await page.evaluate("document.activeElement.id")
    await ask(page, "hello", transport=transport)
    await page.wait_for_selector(".message.assistant .text")
    await page.click("#open-history")
    await page.keyboard.press("Escape")
    assert "busy" == await page.get_attribute("body", "data-state")
    await page.keyboard.press("Escape")
    assert "idle" == await page.get_attribute("body", "data-state")
    assert "cancelled" == await status(page)
    assert "half an ans" == await answer(page)
    assert "telling the relay" in await page.evaluate(STATUS)
    assert not upstream.calls[0].closed.is_set()

    upstream.script = says("the next")
    await ask(page, "and now?", transport=transport)
    assert "the next" == await answer(page)
    confirmed.set()
    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
    await page.wait_for_selector(".answer-foot .usage >> nth=0")
    await page.reload()
    assert ["cancelled", "completed"] == await page.locator(".message.assistant").evaluate_all(
        "all => all.map((it) => it.dataset.status)"
    )


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_connection_that_is_away_is_told_of_and_tried_again_now(page, upstream, transport):
    """With no press it would take the relay's 30 s, or what an EventSource waits."""
    async with serve_relay(upstream, retry_ms=30_000) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, *rest("whole")]
        await page.goto(relay.url)
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector(".message.assistant .text")
        await page.route("**/v1/streams/*/events*", lambda route: route.abort())
        await page.click("#cut")
        await page.wait_for_selector("#connection:not([hidden])")
        if transport == "fetch":
            told = await page.inner_text("#connection-next")
            (seconds,) = re.findall(r"Next attempt in (\d+) s", told)
            assert 20 < int(seconds) <= 45
            await page.locator("#connection-next", has_not_text=told).wait_for()
        await check_accessible(page)
        await page.click("#retry-now")
        if transport == "fetch":
            await page.wait_for_selector("text=The relay cannot be reached.")
        await page.context.set_offline(True)
        await page.wait_for_selector("text=You are offline.")
        await page.unroute_all()
        await page.context.set_offline(False)
        go_on.told.set()

        async def idle_after_a_press() -> bool:
            """Press again: a press while an attempt is being made changes nothing."""
            await page.evaluate("document.querySelector('#retry-now').click()")
            return "idle" == await page.get_attribute("body", "data-state")

        await until(idle_after_a_press)

        assert "half whole" == await answer(page)
        assert not await page.is_visible("#connection")
        assert 1 == len(upstream.calls)


async def test_offline_is_said_where_nothing_is_asked_and_models_are_tried_again(
    page, upstream, relay
):
    upstream.script = says("here")
    await page.route("**/v1/models", lambda route: route.abort())
    await page.goto(relay.url)
    await page.wait_for_selector("text=The relay cannot be reached.")
    await page.unroute_all()
    await page.click("#retry-now")
    await page.wait_for_selector("#prompts button")
    assert not await page.is_visible("#connection")
    await page.context.set_offline(True)
    await page.wait_for_selector("text=You are offline.")
    assert not await page.is_visible("#retry-now")
    await page.context.set_offline(False)
    await page.wait_for_selector("#connection[hidden]", state="attached")

    # A suggested prompt is sent on one click.
    words = await page.locator("#prompts .words").first.text_content()
    await page.locator("#prompts button").first.click()
    await page.wait_for_selector(IDLE)
    assert words == await page.locator(".message.user > p").text_content()
    assert "prompt" == await page.evaluate("document.activeElement.id")

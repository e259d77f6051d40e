"""Stop, Escape, a connection that is away, and where the focus is."""

import asyncio

import pytest

from app.testing.upstream import Hold, Until, head, send, text
from tests.e2e.axe import check_accessible
from tests.e2e.talk import IDLE, answer, ask, rest, says, status
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_escape_stops_soon_where_the_relay_does_not_answer(page, transport, upstream, relay):
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
    await page.click("#show-code")
    await page.keyboard.press("Escape")
    assert "busy" == await page.get_attribute("body", "data-state")
    await page.keyboard.press("Escape")
    await page.wait_for_selector("#status:has-text('Stopping')")
    assert "half an ans" == await answer(page)
    assert "cancelled" == await status(page)
    assert not upstream.calls[0].closed.is_set()

    upstream.script = says("the next")
    await ask(page, "and now?", transport=transport)
    await page.wait_for_selector(".message.assistant >> nth=1")
    assert "the next" == await answer(page)
    confirmed.set()
    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
    await page.reload()
    await page.wait_for_function(STATUSES, arg="cancelled completed")


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
@pytest.mark.parametrize("begun", [True, False])
async def test_a_new_chat_stops_the_answer_that_nobody_will_see(
    page, transport, begun, upstream, relay
):
    upstream.script = [head(), send(text("half")), Hold()] if begun else [Hold()]
    await page.goto(relay.url)
    await ask(page, "hello", transport=transport)
    if begun:
        await page.wait_for_selector(".message.assistant .text")
    else:
        await until(lambda: upstream.calls)
    await page.click("#new-chat")
    await page.wait_for_selector("#welcome")

    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
    assert 1 == len(upstream.calls)
    assert "idle" == await page.get_attribute("body", "data-state")


STATUSES = """(wanted) => wanted === [...document.querySelectorAll('.message.assistant')]
    .map((it) => it.dataset.status).join(' ')"""


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_connection_that_is_away_is_tried_again_now(page, upstream, transport):
    """With no press it would take the relay's 30 s, or what an EventSource waits."""
    async with serve_relay(upstream, retry_ms=30_000) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, *rest("whole")]
        await page.goto(relay.url)
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector(".message.assistant .text")
        await page.route("**/v1/streams/*/events*", lambda route: route.abort())
        await page.focus("#cut")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#retry-now:focus")
        await page.wait_for_selector("#status:has-text('Reconnecting')")
        await check_accessible(page)
        await page.keyboard.press("Enter")
        await page.unroute_all()
        go_on.told.set()

        async def idle_after_a_press() -> bool:
            """Press again: a press while an attempt is being made changes nothing."""
            await page.evaluate("document.querySelector('#retry-now').click()")
            return "idle" == await page.get_attribute("body", "data-state")

        await until(idle_after_a_press)

        assert "half whole" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_a_suggested_prompt_is_sent_on_one_click(page, upstream, relay):
    upstream.script = says("here")
    await page.goto(relay.url)
    words = await page.locator("#prompts .words").first.text_content()
    await page.locator("#prompts button").first.click()
    await page.wait_for_selector(IDLE)
    assert words == await page.locator(".message.user > p").text_content()
    assert "prompt" == await page.evaluate("document.activeElement.id")

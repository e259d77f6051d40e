"""The page and the client before a relay that asks who it is: keys, links, and where neither stands."""

import asyncio
import json
import re
from typing import Any

import pytest
from playwright.async_api import Page

from app.testing.upstream import DONE, FINISH, Hold, Until, head, send, serve_upstream, text
from tests.e2e.asking import Asking
from tests.e2e.axe import check_in_light_and_dark
from tests.e2e.test_page import IDLE, answer, ask, status
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
EXPIRED = "#watching-note:has-text('expired')"
TOKEN = re.compile(r"eyJ[\w-]+\.eyJ")
"""A JWT. Fewer letters may be in a stream's id."""
READY = "#model option:nth-child(2)"
KEPT = """() => ({
    session: {...sessionStorage}, local: {...localStorage}, cookie: document.cookie,
    href: location.href, state: history.state, text: document.body.innerText,
    values: [...document.querySelectorAll('input, textarea')].map((it) => it.value),
})"""


async def visited(page: Page) -> str:
    """The addresses of the tab's history; what the user typed, Chromium remembers beside them."""
    session = await page.context.new_cdp_session(page)
    history = await session.send("Page.getNavigationHistory")
    return " ".join(entry["url"] for entry in history["entries"])


async def give_key(page: Page, key: str) -> None:
    await page.fill("#key", key)
    await page.click("#use-key")


async def watch_policy(page: Page) -> list[str]:
    """List what the policy of the page is broken by."""
    broken: list[str] = []
    page.on(
        "console",
        lambda message: (
            broken.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    return broken


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_a_key_is_asked_for_and_used(page, transport):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("with a key") + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.goto(relay.url)
        await page.wait_for_selector("#key-form")
        assert not await page.is_visible("#composer")
        await give_key(page, "ssk_wrong")
        await page.wait_for_selector("#key-error:not(:empty)")
        assert "does not take this key" in await page.text_content("#key-error")
        await give_key(page, " ssk_right ")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, "hello", transport=transport)

        assert "with a key" == await answer(page)
        assert not await page.is_visible("#key-form")
        assert [] == broken
        assert {None, "ssk_wrong", "ssk_right"} == {given for _, given in asking.shown}
        kept = await page.evaluate(KEPT)
        assert "ssk_right" == kept["session"].pop("seseragi.key")
        assert "ssk_right" not in json.dumps(kept)
        assert "ssk_right" not in await page.content()
        assert not TOKEN.search(json.dumps(kept))


async def test_nothing_is_asked_for_where_the_relay_is_open(page):
    async with serve_relay() as relay:
        await page.goto(relay.url)
        await page.wait_for_selector(READY, state="attached")

        assert not await page.is_visible("#key-form")
        assert not await page.is_visible("#forget-key")


async def test_the_key_of_the_address_is_taken_out_of_it(page):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("hi") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await page.wait_for_selector(READY, state="attached")
        await ask(page, "hello")
        await answer(page)
        await page.click("#show-code")
        await page.click("#copy-code")
        await page.wait_for_selector("#copy-code:has-text('Copied')")
        for tab in await page.locator("#code [role=tab]").all():
            await tab.click()
            shown = await page.text_content("#code-panel")
            assert "RELAY_KEY" in shown
            assert "ssk_right" not in shown

        assert f"{relay.url}/" == page.url
        assert "ssk_right" not in await visited(page)
        assert "ssk_right" not in "".join(asking.targets)
        assert {"ssk_right"} == {given for _, given in asking.shown}
        kept = await page.evaluate(KEPT)
        assert "ssk_right" == kept["session"].pop("seseragi.key")
        assert "ssk_right" not in json.dumps(kept)


async def test_a_key_that_is_pasted_into_the_address_of_an_open_page_leaves_no_trace(page):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        await page.goto(relay.url)
        await page.wait_for_selector("#key-form")
        await page.evaluate("location.hash = '#key=ssk_right'")
        await page.wait_for_selector(READY, state="attached")

        assert "ssk_right" not in await visited(page)


async def test_a_link_with_another_key_begins_anew(page):
    """Or what was said so far would be told to whoever made the link."""
    asking = Asking(keys={"ssk_right", "ssk_theirs"})
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("mine") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await ask(page, "my secret")
        await answer(page)
        await page.goto("about:blank")
        await page.goto(f"{relay.url}/#key=ssk_theirs")
        await ask(page, "again")
        await page.wait_for_selector(IDLE)

        assert [{"role": "user", "content": "again"}] == upstream.calls[-1].json["messages"]


async def test_a_key_is_forgotten_on_request(page):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        await page.goto(f"{relay.url}/#key=ssk_right")
        await page.click("#forget-key")
        await page.wait_for_selector("#key-form")

        assert "ssk_right" not in json.dumps(await page.evaluate(KEPT))
        assert None is asking.shown[-1][1]
        await page.reload()
        await page.wait_for_selector("#key-form")


async def test_another_tab_of_the_stream_has_the_key_and_another_visit_has_not(page):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("seen twice") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await ask(page, "hello")
        await answer(page)
        async with page.context.expect_page() as opening:
            await page.click("#tab")
        second = await opening.value
        assert "seen twice" == await answer(second)
        other = await page.context.new_page()
        await other.goto(relay.url)
        await other.wait_for_selector("#key-form")


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_an_answer_goes_on_after_a_reload_with_the_key(page, transport):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, send(text("whole") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector(".message.assistant .text")
        await page.reload()
        go_on.told.set()

        assert "half whole" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_a_key_that_is_revoked_in_the_middle_is_asked_for_again(page):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, send(text("whole") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        asking.keys = {"ssk_new"}
        await page.click("#cut")
        await page.wait_for_selector("#key-form")
        assert "any more" in await page.text_content("#key-error")
        assert await page.evaluate("document.activeElement.id") == "key"
        await give_key(page, "ssk_new")
        go_on.told.set()
        await page.wait_for_selector("[data-status=completed]")

        assert "half whole" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_the_form_keeps_its_place_and_the_focus(page):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        await page.goto(relay.url)
        await page.wait_for_selector("#key-form")
        place = """() => ['#key-form', '#welcome-title', '.foot']
            .map((it) => document.querySelector(it).getBoundingClientRect().y)"""
        before = await page.evaluate(place)
        assert "key" == await page.evaluate("document.activeElement.id")
        await page.keyboard.type("ssk wrong")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#key-error:not(:empty)")
        assert before == await page.evaluate(place)
        assert "true" == await page.get_attribute("#key", "aria-invalid")
        described = await page.get_attribute("#key", "aria-describedby") or ""
        assert {"key-error", "key-hint"} == set(described.split())
        assert "password" == await page.get_attribute("#key", "type")
        assert "off" == await page.get_attribute("#key", "autocomplete")
        await page.keyboard.type("ssk_right")  # over the wrong one, which is selected
        await page.keyboard.press("Enter")
        await page.wait_for_selector(READY, state="attached")

        assert "prompt" == await page.evaluate("document.activeElement.id")


@pytest.mark.parametrize("size", [(1280, 800), (390, 844), (320, 256)])
async def test_form_and_link_are_accessible(page, size):
    asking = Asking()
    async with serve_relay(watch=asking) as relay:
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await page.goto(relay.url)
        await page.wait_for_selector("#key-form")
        await give_key(page, "ssk_wrong")
        await page.wait_for_selector("#key-error:not(:empty)")

        await check_in_light_and_dark(page)
        await check_in_view(page, "#key", "#use-key")

        await page.goto(f"{relay.url}/#watch=st_x&token=old")
        await page.wait_for_selector(EXPIRED)

        await check_in_light_and_dark(page)
        await check_in_view(page, "#watching a")


async def check_in_view(page: Page, *parts: str) -> None:
    """Check that each part can be scrolled into view, whole."""
    size: Any = page.viewport_size
    for part in parts:
        await page.locator(part).scroll_into_view_if_needed()
        box: Any = await page.locator(part).bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= size["width"]
        assert 0 <= box["y"] <= box["y"] + box["height"] <= size["height"]


async def test_an_answer_is_shared_and_watched_by_somebody_else(page):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        go_on = Until()
        upstream.script = [head(), send(text("half ")), go_on, send(text("whole") + FINISH + DONE)]
        await page.goto(f"{relay.url}/#key=ssk_right")
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        await page.click(".actions button")
        link = await page.locator(".shared input").input_value()
        assert link.startswith(f"{relay.url}/#watch=st_")
        assert "until" in await page.locator(".shared").text_content()
        assert not TOKEN.search(json.dumps((await page.evaluate(KEPT))["session"]))

        other = await page.context.browser.new_context()
        guest = await other.new_page()
        broken = await watch_policy(guest)
        await guest.goto(link)
        await guest.wait_for_selector(".message.assistant .text")
        assert await guest.is_visible("text=somebody else’s stream")
        for hidden in ("#composer", "#key-form", "#new-chat", "#forget-key", ".actions", "#tab"):
            assert not await guest.is_visible(hidden), hidden
        go_on.told.set()
        assert "half whole" == await answer(guest)
        await guest.reload()
        assert "half whole" == await answer(guest)
        kept = await guest.evaluate(KEPT)
        assert ({}, {}, []) == (kept["session"], kept["local"], broken)
        assert not TOKEN.search(kept["text"])
        types = await guest.locator("#events li").count()
        assert types > 4

        asking.tokens.clear()
        await guest.reload()
        await guest.wait_for_selector(EXPIRED)
        assert 0 == await guest.locator(".message").count()
        assert not await guest.is_visible("text=somebody else’s stream")
        assert not await guest.is_visible("#key-form")
        await guest.click("#watching a")
        await guest.wait_for_selector("#key-form")
        await other.close()


async def test_a_link_that_expires_in_the_middle_keeps_what_came(page):
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("half")), Hold()]
        reply = await relay.client.post(
            "/v1/chat",
            json={"messages": [{"role": "user", "content": "hi"}]},
            headers={"prefer": "respond-async", "authorization": "Bearer ssk_right"},
        )
        shared = asking.share(reply.json()["id"])
        await page.goto(f"{relay.url}{shared['page_url']}")
        await page.wait_for_selector(".message.assistant .text")
        asking.tokens.clear()
        await page.click("#cut")

        assert "half" == await answer(page)
        assert "interrupted" == await status(page)
        assert "expired" in (await page.text_content("#watching-note") or "")
        assert {None} == {given for path, given in asking.shown if path.endswith("/events")}


@pytest.mark.parametrize("how", ["string", "function"])
async def test_a_page_that_is_closed_stops_its_stream(page, how):
    """The stop is sent while the page goes away, with what says who it is."""
    asking = Asking()
    async with serve_upstream() as upstream, serve_relay(upstream, watch=asking) as relay:
        upstream.script = [head(), send(text("half")), Hold()]
        await page.goto(relay.url)
        await page.evaluate(
            """async (how) => {
                const { chat } = await import('/static/seseragi.js');
                const given = { value: 'ssk_right', expires_at: Date.now() / 1000 + 600 };
                const stream = chat({ messages: [{ role: 'user', content: 'hi' }] }, {
                    credential: how === 'function' ? async () => given : 'ssk_right',
                });
                addEventListener('pagehide', () => stream.cancel());
                for await (const { event } of stream) if (event.type === 'text.delta') return;
            }""",
            how,
        )
        await page.goto("about:blank")
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 30)

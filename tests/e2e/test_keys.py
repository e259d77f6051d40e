"""The page and the client before a relay that asks who it is: keys, links, and where neither stands."""

import asyncio
import json
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page

from app.identity.principal import Principal
from app.testing.upstream import Hold, Until, Upstream, head, send, text
from tests.e2e.asking import Asking
from tests.e2e.axe import check_in_light_and_dark
from tests.e2e.talk import (
    IDLE,
    READY,
    TRANSPORTS,
    answer,
    answer_dialogs,
    ask,
    check_in_view,
    give_key,
    rest,
    says,
    status,
    watch_policy,
)
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
EXPIRED = "#watching-note:has-text('expired')"
TEXT = ".message.assistant .text"
TOKEN = re.compile(r"eyJ[\w-]+\.eyJ")
"""A JWT. Fewer letters may be in a stream's id."""
STORED = """() => ({
    session: {...sessionStorage}, local: {...localStorage}, cookie: document.cookie,
    href: location.href, state: history.state, text: document.body.innerText,
    values: [...document.querySelectorAll('input, textarea')].map((it) => it.value),
})"""
PLACE = """() => ['#key-form', '#welcome-title', '.foot']
    .map((it) => document.querySelector(it).getBoundingClientRect().y)"""


@pytest.fixture
def asking() -> Asking:
    return Asking()


@pytest_asyncio.fixture(loop_scope="session")
async def relay(upstream: Upstream, asking: Asking) -> AsyncIterator[Relay]:
    async with serve_relay(upstream, watch=asking) as relay:
        yield relay


async def visited(page: Page) -> str:
    """The addresses of the tab's history; what the user typed, Chromium remembers beside them."""
    session = await page.context.new_cdp_session(page)
    history = await session.send("Page.getNavigationHistory")
    return " ".join(entry["url"] for entry in history["entries"])


async def check_only_the_session_has_the_key(page: Page) -> None:
    stored = await page.evaluate(STORED)
    assert "ssk_right" == stored["session"].pop("seseragi.key")
    assert "ssk_right" not in json.dumps(stored)
    assert not TOKEN.search(json.dumps(stored))


def halves(go_on: Until) -> list:
    return [head(), send(text("half ")), go_on, *rest("whole")]


async def test_a_key_is_asked_for_by_a_form_that_keeps_its_place_and_is_used(
    page, upstream, asking, relay
):
    upstream.script = says("with a key")
    broken = await watch_policy(page)
    await page.goto(relay.url)
    await page.wait_for_selector("#key-form")
    assert not await page.is_visible("#composer")
    before = await page.evaluate(PLACE)
    assert "key" == await page.evaluate("document.activeElement.id")
    await page.keyboard.type("ssk_wrong")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#key-error:not(:empty)")
    assert "does not take this key" in await page.text_content("#key-error")
    assert before == await page.evaluate(PLACE)
    described = await page.get_attribute("#key", "aria-describedby") or ""
    assert {"key-error", "key-hint"} == set(described.split())
    for name, value in (("aria-invalid", "true"), ("type", "password"), ("autocomplete", "off")):
        assert value == await page.get_attribute("#key", name)
    await page.keyboard.type(" ssk_right ")  # over the wrong one, which is selected
    await page.keyboard.press("Enter")
    await page.wait_for_selector(READY, state="attached")
    assert "prompt" == await page.evaluate("document.activeElement.id")
    for count, transport in enumerate(TRANSPORTS, 1):
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector(f".message.user >> nth={count - 1}")

        assert "with a key" == await answer(page)
        assert not await page.is_visible("#key-form")
        assert [] == broken
        assert {None, "ssk_wrong", "ssk_right"} == {given for _, given in asking.shown}
        await check_only_the_session_has_the_key(page)
        assert "ssk_right" not in await page.content()


async def test_a_key_in_the_address_leaves_no_trace_and_is_forgotten_on_request(
    page, upstream, asking, relay
):
    await page.goto(relay.url)
    await page.wait_for_selector("#key-form")
    await page.evaluate("location.hash = '#key=ssk_right'")
    await page.wait_for_selector(READY, state="attached")
    assert "ssk_right" not in await visited(page)

    await page.click("#forget-key")
    await page.wait_for_selector("#key-form")
    assert "ssk_right" not in json.dumps(await page.evaluate(STORED))
    assert None is asking.shown[-1][1]
    await page.reload()
    await page.wait_for_selector("#key-form")

    asking.shown.clear()
    upstream.script = says("hi")
    await page.goto("about:blank")
    await page.goto(f"{relay.url}/#key=ssk_right")
    await page.wait_for_selector(READY, state="attached")
    await ask(page, "hello")
    await answer(page)
    await page.click("#show-code")
    await page.click("#copy-code")
    await page.wait_for_selector("#copy-code:has-text('Copied')")
    for tab in await page.locator("#code [role=tab]").all():
        await tab.click()
        code = await page.text_content("#code-panel")
        assert "RELAY_KEY" in code
        assert "ssk_right" not in code
    assert f"{relay.url}/" == page.url
    assert "ssk_right" not in await visited(page)
    assert "ssk_right" not in "".join(asking.targets)
    assert {"ssk_right"} == {given for _, given in asking.shown}
    await check_only_the_session_has_the_key(page)


async def test_the_page_of_the_api_asks_for_a_key_and_shows_none(page, asking, relay):
    await page.goto(f"{relay.url}/docs")
    await page.wait_for_selector("#key-form")
    await check_in_light_and_dark(page)
    await give_key(page, "ssk_wrong")
    await page.wait_for_selector("#key-error:has-text('does not take')")
    await give_key(page, "ssk_right")
    await page.click("#postV1Chat > summary")
    await page.wait_for_selector("#postV1Chat pre:has-text('Bearer $KEY')")
    await check_in_light_and_dark(page)
    await check_only_the_session_has_the_key(page)
    # The link of the chat page brings the key along, as its tab has it.
    await page.goto(relay.url)
    async with page.context.expect_page() as opened:
        await page.click("#documents")
    docs = await opened.value
    await docs.wait_for_selector("#postV1Chat")
    assert {None, "ssk_wrong", "ssk_right"} == {given for _, given in asking.shown}


async def test_a_link_with_another_key_begins_anew_if_the_user_agrees(
    page, upstream, asking, relay
):
    """Or what was said so far would be told to whoever made the link."""
    asking.keys |= {"ssk_theirs"}
    upstream.script = says("mine")
    asked = answer_dialogs(page, agrees=True)
    await page.goto(f"{relay.url}/#key=ssk_right")
    await ask(page, "my secret")
    await answer(page)
    assert [] == asked
    await page.goto("about:blank")
    await page.goto(f"{relay.url}/#key=ssk_theirs")
    await ask(page, "again")
    await page.wait_for_selector(IDLE)

    assert [{"role": "user", "content": "again"}] == upstream.calls[-1].json["messages"]
    assert "ssk_theirs" == asking.shown[-1][1]
    assert ["another key" in question for question in asked] == [True]
    assert "ssk_" not in asked[0]


@pytest.mark.parametrize("path", ["/", "/docs", "/admin"])
async def test_a_strangers_link_does_not_replace_the_key_of_the_tab(
    page, upstream, asking, relay, path
):
    """Loaded, or as the fragment of the page that is open; the conversation stays too."""
    asking.keys |= {"ssk_theirs"}
    upstream.script = says("mine")
    asked = answer_dialogs(page, agrees=False)
    await page.goto(f"{relay.url}/#key=ssk_right")
    await ask(page, "my secret")
    await answer(page)
    asking.shown.clear()
    await page.goto("about:blank")
    await page.goto(f"{relay.url}{path}#key=ssk_theirs")
    await until(lambda: asked)
    await page.evaluate("location.hash = '#key=ssk_theirs'")
    await until(lambda: len(asked) == (1 if path == "/docs" else 2))

    assert "ssk_right" == (await page.evaluate(STORED))["session"]["seseragi.key"]
    assert "ssk_theirs" not in await visited(page) or path == "/docs"
    await page.goto(relay.url)
    await page.wait_for_selector(READY, state="attached")
    assert 2 == await page.locator(".message").count()
    assert {"ssk_right"} == {given for _, given in asking.shown}


async def test_a_key_that_is_revoked_in_the_middle_is_asked_for_again(
    page, upstream, asking, relay
):
    go_on = Until()
    upstream.script = halves(go_on)
    await page.goto(f"{relay.url}/#key=ssk_right")
    await ask(page, "hello")
    await page.wait_for_selector(TEXT)
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


async def test_what_runs_elsewhere_is_offered_to_its_owner_and_opened(page, upstream):
    go_on = Until()
    upstream.script = halves(go_on)
    owners = known(me=Principal(user="me"), other=Principal(user="other"))
    async with serve_relay(upstream, authenticator=owners) as relay:
        headers = {**bearer("me"), "prefer": "respond-async"}
        body = {**HELLO, "model": "openai/m"}
        started = await relay.client.post("/v1/chat", json=body, headers=headers)
        assert 202 == started.status_code
        await page.goto(f"{relay.url}/#key=key-other")
        await page.wait_for_selector(READY, state="attached")
        await page.click("#forget-key")
        await page.wait_for_selector("#key-form")
        assert 0 == await page.locator("#running li").count()
        await give_key(page, "key-me")
        await page.click("#running button:has-text('openai/m')")
        await page.wait_for_selector(TEXT)
        go_on.told.set()
        await page.wait_for_selector("[data-status=completed]")

        assert "half whole" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_form_and_link_are_accessible(page, relay):
    async def check(*parts: str) -> None:
        for width, height in ((1280, 800), (320, 256)):
            await page.set_viewport_size({"width": width, "height": height})
            await check_in_light_and_dark(page)
            await check_in_view(page, *parts)

    await page.goto(relay.url)
    await page.wait_for_selector("#key-form")
    await give_key(page, "ssk_wrong")
    await page.wait_for_selector("#key-error:not(:empty)")
    await check("#key", "#use-key")
    await page.goto(f"{relay.url}/#watch=st_x&token=old")
    await page.wait_for_selector(EXPIRED)
    await check("#watching a")


async def test_an_answer_is_shared_and_watched_by_somebody_else(page, upstream, asking, relay):
    go_on = Until()
    upstream.script = halves(go_on)
    await page.goto(f"{relay.url}/#key=ssk_right")
    await ask(page, "hello")
    await page.wait_for_selector(TEXT)
    await page.click(".actions button")
    link = await page.locator(".shared input").input_value()
    assert link.startswith(f"{relay.url}/#watch=st_")
    assert "until" in await page.locator(".shared").text_content()
    assert not TOKEN.search(json.dumps((await page.evaluate(STORED))["session"]))

    other = await page.context.browser.new_context()
    guest = await other.new_page()
    broken = await watch_policy(guest)
    await guest.goto(link)
    await guest.wait_for_selector(TEXT)
    assert await guest.is_visible("text=a shared answer")
    for hidden in ("#composer", "#key-form", "#new-chat", "#forget-key", ".actions", "#tab"):
        assert not await guest.is_visible(hidden), hidden
    go_on.told.set()
    assert "half whole" == await answer(guest)
    await guest.reload()
    assert "half whole" == await answer(guest)
    assert await guest.is_visible(".copy-answer")
    stored = await guest.evaluate(STORED)
    assert ({}, {}, []) == (stored["session"], stored["local"], broken)
    assert not TOKEN.search(stored["text"])
    assert await guest.locator("#events li").count() > 4

    asking.tokens.clear()
    await guest.reload()
    await guest.wait_for_selector(EXPIRED)
    assert 0 == await guest.locator(".message").count()
    assert not await guest.is_visible("text=a shared answer")
    assert not await guest.is_visible("#key-form")
    await guest.click("#watching a")
    await guest.wait_for_selector("#key-form")
    await other.close()


async def test_a_link_that_expires_in_the_middle_keeps_what_came(page, upstream, asking, relay):
    upstream.script = [head(), send(text("half")), Hold()]
    reply = await relay.client.post(
        "/v1/chat",
        json={"messages": [{"role": "user", "content": "hi"}]},
        headers={"prefer": "respond-async", "authorization": "Bearer ssk_right"},
    )
    shared = asking.share(reply.json()["id"])
    await page.goto(f"{relay.url}{shared['page_url']}")
    await page.wait_for_selector(TEXT)
    asking.tokens.clear()
    await page.click("#cut")

    assert "half" == await answer(page)
    assert "interrupted" == await status(page)
    assert "expired" in (await page.text_content("#watching-note") or "")
    assert {None} == {given for path, given in asking.shown if path.endswith("/events")}


async def test_a_page_that_is_closed_stops_its_stream(page, upstream, relay):
    """The stop is sent while the page goes away, with what says who it is."""
    for how in ("string", "function"):
        upstream.reset(head(), send(text("half")), Hold())
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

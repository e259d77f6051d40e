"""The operator's page in a real Chromium."""

import asyncio

import pytest
import uvicorn
from playwright.async_api import Page
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Scope

from app import Caller, create_app, load_settings
from app.identity.principal import Principal
from app.server.server import bind
from app.testing.upstream import DONE, Hold, event, head, send, serve_upstream, text, wait
from tests.api.asking import serve_asked
from tests.e2e.admin_summary import MARKUP, summary
from tests.e2e.axe import check_accessible
from tests.e2e.talk import IDLE, ask, give_key, says, watch_policy
from tests.serving import HELLO, Relay, read_messages, serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
MOST_BYTES = 61_000  # what saves a stream as a cassette is loaded when somebody does
DIALECTS = ("openai_chat", "openai_responses", "anthropic", "ui", "ag_ui")
SECRETS = ("kingfisher", "heron", "trout", "せせらぎの秘密")
RESPOND_ASYNC = {"prefer": "respond-async"}


async def start(relay: Relay, model: str | None = None, who: str = "") -> str:
    headers = {**RESPOND_ASYNC, **({"authorization": f"Bearer {who}"} if who else {})}
    body = {**HELLO, **({"model": model} if model else {})}
    return str((await relay.client.post("/v1/chat", json=body, headers=headers)).json()["id"])


async def test_an_operator_signs_in_and_stops_a_stream(page: Page):
    async with serve_upstream() as upstream, serve_asked(upstream) as asked:
        asked.keys["boss"] = Principal("ops", key="boss", roles=frozenset({"admin"}))
        upstream.script = [head(), send(text("kingfisher")), Hold()]
        stream = await start(asked.relay, who="plain")
        loaded: dict[str, int] = {}

        async def weigh(response) -> None:
            if "/v1/" not in response.url and response.status == 200:
                loaded[response.url] = len(await response.body())

        page.on("response", weigh)
        await page.goto(f"{asked.relay.url}/admin")
        await page.wait_for_selector("#key-form")
        assert "seseragi key new" in await page.inner_text("#key-hint")
        await give_key(page, "wrong")
        await page.wait_for_selector("#key-error:has-text('does not accept this key')")
        await give_key(page, "plain")
        await page.wait_for_selector("#key-error:has-text('does not have the role “admin”')")
        assert not await page.is_visible("#main")
        await give_key(page, "boss")
        row = page.locator(f"#live .body .row:has-text('{stream}')")
        await row.wait_for()
        assert "acme / plain" in await row.inner_text()
        assert sum(loaded.values()) <= MOST_BYTES, loaded

        # By keyboard; Enter alone does not stop it.
        await row.get_by_role("button").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#dialog[open]")
        assert stream in await page.inner_text("#dialog")
        await page.keyboard.press("Enter")
        assert not await page.is_visible("#dialog")
        assert await row.get_by_role("button").evaluate("(it) => it === document.activeElement")
        assert not upstream.calls[0].closed.is_set()
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#dialog[open]")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#status:has-text('Stopped')")
        await upstream.calls[0].closed.wait()
        await page.wait_for_selector(f"#recent .row:has-text('{stream}'):has-text('cancelled')")
        assert 0 == await row.count()
        assert "live" == await page.get_attribute("body", "data-link")
        assert "kingfisher" not in await page.content()

        await page.click("#forget-key")
        await page.wait_for_selector("#key-form")
        assert await page.evaluate("sessionStorage.length") == 0


async def frames_of(relay: Relay, url: str) -> list[str]:
    async with relay.client.stream("GET", url) as reply:
        return [message.data for message in await read_messages(reply)]


LISTED = """(counts) => counts.every((count, at) =>
  document.querySelectorAll(`#panes > :nth-child(${at + 1}) code`).length === count)"""


async def contents(page: Page, pane: int) -> list[str]:
    return await page.locator(f"#panes > :nth-child({pane}) code").all_inner_texts()


async def test_a_stream_is_inspected_in_two_dialects(page: Page, upstream, relay):
    call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": ""}}
    arguments = {"index": 0, "function": {"arguments": '{"trout":1}'}}
    upstream.script = [
        head(),
        send(event({"reasoning_content": "heron"}) + text("kingfisher") + text(SECRETS[3])),
        send(event({"tool_calls": [call]}) + event({"tool_calls": [arguments]})),
        send(event(finish_reason="tool_calls") + DONE),
    ]
    stream = await start(relay)
    url = f"/v1/streams/{stream}/events"
    native = await frames_of(relay, url)
    broken = await watch_policy(page)
    await page.goto(relay.admin_page)
    await page.goto(f"{relay.url}/admin#stream={stream}")

    async def choose(dialect: str) -> list[str]:
        """Choose what the second pane shows; returns its frames once all are listed."""
        told = await frames_of(relay, f"{url}?format={dialect}")
        await page.select_option("#panes > :nth-child(2) select", dialect)
        await page.wait_for_selector(
            f"#panes > :nth-child(2) :text('{len(told)} of {len(told)} frames')"
        )
        await page.wait_for_function(LISTED, arg=[len(native), len(told)])
        return told

    for dialect in DIALECTS:
        told = await choose(dialect)
        hidden = await page.content()
        assert [] == [word for word in SECRETS if word in hidden], dialect
        masked = await contents(page, 2)
        assert any("•" * len("kingfisher") in shown for shown in masked), dialect
        await page.check("#show-content")
        assert native == await contents(page, 1)
        assert told == await contents(page, 2)
        await page.uncheck("#show-content")
        assert masked == await contents(page, 2)
        assert [] == [word for word in SECRETS if word in await page.content()], dialect

    # Scrubbing: a frame is there as soon as the event is that it was made of.
    await choose("openai_chat")
    await page.check("#show-content")
    await page.focus("#position")
    await page.keyboard.press("Home")
    seen = next(n for n, data in enumerate(native, 1) if "kingfisher" in data)
    for _ in range(seen - 1):
        await page.keyboard.press("ArrowRight")
    await page.wait_for_selector(f"#where:has-text('event {seen - 1} of {len(native)}')")
    assert "kingfisher" not in await page.content()
    await page.keyboard.press("ArrowRight")
    await page.wait_for_selector(f"#where:has-text('event {seen} of {len(native)}: text.delta')")
    assert native[:seen] == await contents(page, 1)
    assert "kingfisher" in (await contents(page, 2))[-1]
    await page.click("#play")
    await page.wait_for_selector(f"#where:has-text('event {len(native)} of')")
    assert len(native) == len(await contents(page, 1))
    assert [] == broken
    await check_accessible(page)

    # By keyboard; a stream that is gone meanwhile is told of.
    async with page.expect_download() as begun:
        await page.focus("#save")
        await page.keyboard.press("Enter")
    saved = await (await begun.value).path()
    cassette = await relay.client.post(f"/v1/streams/{stream}/cassette")
    assert cassette.content == saved.read_bytes()
    await page.wait_for_selector("#note:has-text('saved as')")
    await relay.client.delete(f"/v1/streams/{stream}")
    await page.click("#save")
    await page.wait_for_selector("#note:has-text('not saved: ')")

    # The next stream begins with its content hidden, and the way back leads to the overview.
    await page.fill("#stream-id", "st_none")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#note:has-text('no stream')")
    assert not await page.is_checked("#show-content")
    assert 0 == len(await contents(page, 1))
    await page.click("#to-overview")
    await page.wait_for_selector("#overview:visible")


async def test_a_running_stream_is_followed_and_left_alone(page: Page, upstream, relay):
    upstream.script = [head(), send(text("a")), wait(1), send(text("b")), Hold()]
    stream = await start(relay)
    await page.goto(relay.admin_page)
    await page.click(f"#live .body .row:has-text('{stream}') > :nth-child(3)")
    await page.wait_for_selector("#where:has-text('event 5 of 5: text.delta')")
    assert f"#stream={stream}" in page.url
    found = (await relay.client.get("/v1/admin/summary", headers=relay.operator)).json()
    assert (1, {}) == (len(found["live"]), found["readers"])
    await page.click("#stop")
    await page.click("#dialog-yes")
    await page.wait_for_selector("#note:has-text('cancelled')")
    await page.go_back()
    await page.wait_for_selector(f"#recent .row:has-text('{stream}')")


ASK = "dispatchEvent(new Event('online'))"  # at once, instead of after two seconds
UPDATES = "performance.getEntriesByName('seseragi.update').map((it) => it.duration)"


async def test_a_busy_relay_is_shown_as_text_and_used_by_keyboard(page: Page):
    told = {"away": False, "step": 0}
    asked = {"now": 0, "most": 0}

    async def tell(route) -> None:
        asked["now"] += 1
        asked["most"] = max(asked["most"], asked["now"])
        if told["away"]:
            await route.abort()
        else:
            told["step"] += 1
            await route.fulfill(json=summary(step=told["step"]))
        asked["now"] -= 1

    async def next_update() -> None:
        """Wait for one that was asked for from now on."""
        begun = told["step"]  # the last of them may be on its way
        await page.evaluate(ASK)
        await page.wait_for_function(f"(begun) => {UPDATES}.length > begun", arg=begun)

    async with serve_relay() as relay:
        await page.route("**/v1/admin/summary", tell)
        broken = await watch_policy(page)
        await page.emulate_media(reduced_motion="reduce")
        await page.goto(relay.admin_page)
        await page.wait_for_selector("#live .body .row:nth-child(500)", state="attached")
        assert [] == broken

        # Hostile names are text, and turn nothing around.
        assert 0 == await page.locator("main img").count()
        assert MARKUP in (await page.text_content("#last .body .row:first-child") or "")
        assert "ac\\u202eme" in (await page.text_content("#live .body .row:nth-child(5)") or "")

        # A thousand links and buttons need not be gone through.
        await page.focus("#live .head a")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.matches('#targets *')")

        # Sorting by keyboard; the rows stay while somebody is in them.
        await page.focus("#live .heads button:text('Events')")
        await page.keyboard.press("Enter")
        assert "descending" == await page.locator(
            "#live [role=columnheader]:has-text('Events')"
        ).get_attribute("aria-sort")
        events = [
            int(text)
            for text in await page.locator("#live .body .row > :nth-child(6)").all_text_contents()
        ]
        assert sorted(events, reverse=True) == events
        first = page.locator("#live .body .row:first-child")
        name = await first.get_attribute("data-key")
        await first.get_by_role("button").focus()
        await next_update()
        assert name == await first.get_attribute("data-key")
        assert await first.get_by_role("button").evaluate("(it) => it === document.activeElement")

        await page.fill("#live [type=search]", "user-49")  # and axe has less to look at
        assert 10 == await page.locator("#live .body .row").count()
        await page.set_viewport_size({"width": 1280, "height": 900})
        await check_accessible(page)
        await page.emulate_media(color_scheme="dark")
        await page.set_viewport_size({"width": 320, "height": 256})
        await check_accessible(page)

        told["away"] = True
        await page.wait_for_selector("body[data-link=offline] #banner:visible")
        assert "This is its state at" in await page.inner_text("#banner")
        told["away"] = False
        await page.click("#ask-now")
        await page.wait_for_selector("body[data-link=live]")
        assert not await page.is_visible("#banner")
        assert 1 == asked["most"]


async def test_a_phone_sees_every_cell_and_what_it_is(page: Page, upstream, relay):
    upstream.script = says("hello")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(relay.url)
    await ask(page, "hello")
    await page.wait_for_selector(IDLE)
    await page.goto(relay.admin_page)
    await page.wait_for_selector("#recent .body .row")

    assert [] == await page.evaluate(OUT_OF_SIGHT)
    first = page.locator("#recent .body .row").first.get_by_role("cell")
    assert [] == [title for title in await first.evaluate_all(TITLES) if not title]
    await check_accessible(page)
    await page.set_viewport_size({"width": 640, "height": 400})
    assert {1} == set(await page.locator(".brand > span, #link").evaluate_all(LINES))


OUT_OF_SIGHT = """[...document.querySelectorAll('.region, .row > *')]
  .filter((it) => it.getBoundingClientRect().right > innerWidth || (it.matches('.region') && it.scrollWidth > it.clientWidth))
  .map((it) => it.outerHTML)"""
LINES = "(boxes) => boxes.map((it) => Math.round(it.getBoundingClientRect().height / 22))"
TITLES = "(cells) => cells.map((it) => getComputedStyle(it, '::before').content.slice(1, -1))"


async def test_who_is_signed_in_to_the_host_needs_no_key(page: Page, tmp_path):
    """The page of a relay that is mounted, whose users the host application knows."""

    async def identify(scope: Scope) -> Caller | None:
        known = (b"cookie", b"session=root") in scope["headers"]
        return Caller("root", admin=True) if known else None

    relay = create_app(load_settings({}), identify=identify)
    app = Starlette(routes=[Mount("/llm", relay)], lifespan=relay.lifespan)
    with bind("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        await until(lambda: server.started)
        try:
            await page.goto(f"{url}/llm/admin")
            await page.wait_for_selector("#key-form:visible")
            await page.context.add_cookies([{"name": "session", "value": "root", "url": url}])
            await page.reload()
            await page.wait_for_selector("body[data-link=live] #overview:visible")
            assert not await page.is_visible("#key-form")
            await page.goto("about:blank")
        finally:
            server.should_exit = True
            await serving

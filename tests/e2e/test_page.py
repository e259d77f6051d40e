"""The demo page in a real Chromium, served by the real relay."""

import asyncio
import shlex
from asyncio.subprocess import PIPE

import pytest
from playwright.async_api import Page

from app.dialects.client_formats import CLIENT_FORMATS
from app.testing.upstream import Hold, Until, head, send, text
from tests.e2e.axe import check_accessible, check_accessible_everywhere
from tests.e2e.react_page import serve_page
from tests.e2e.talk import (
    IDLE,
    READY,
    TRANSPORTS,
    answer,
    ask,
    go_offline,
    open_page,
    rest,
    says,
    status,
)
from tests.needs import program
from tests.serving import serve_relay
from tests.test_docs import block

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("ERR_INTERNET_DISCONNECTED",)
JAPANESE = "せせらぎ🌊は、小さな川の音。👨\u200d👩\u200d👧 \u2028終わり"
LINES = "".join(f"line {n}\n\n" for n in range(60))
OVERFLOW = "(it) => [it.scrollWidth - it.clientWidth, it.scrollHeight - it.clientHeight]"
FAR_FROM_THE_END = """() => {
  const { scrollHeight, scrollTop, clientHeight } = document.querySelector('#scroller');
  return scrollHeight - scrollTop - clientHeight > 300;
}"""
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def test_answer_arrives_intact_and_by_either_transport(page, upstream, relay):
    await page.goto(relay.url)
    upstream.script = says(*JAPANESE)
    for count, transport in enumerate(TRANSPORTS, 1):
        await ask(page, "こんにちは", transport=transport)
        await page.wait_for_selector(f".message.user >> nth={count - 1}")

        assert JAPANESE == await answer(page)
        assert "completed" == await status(page)
        assert count == len(upstream.calls)
        types = await page.locator("#events li").evaluate_all(
            "rows => rows.map(row => row.dataset.type)"
        )
        assert ("stream.start", "stream.end") == (types[0], types[-1])
        assert len(JAPANESE) == types.count("text.delta")


async def test_each_token_is_painted_before_the_next_one_comes(page, upstream, relay):
    await page.goto(relay.url)
    for transport in TRANSPORTS:
        seen = [Until() for _ in range(10)]
        upstream.script = [
            head(),
            *(step for n, painted in enumerate(seen) for step in (send(text(f"{n} ")), painted)),
            *rest(),
        ]
        await ask(page, "count", transport=transport)
        for number, painted in enumerate(seen):
            last = page.locator(".message.assistant").last
            await last.locator(f".text:has-text('{number}')").wait_for()
            painted.told.set()

        assert [f"{n}" for n in range(10)] == (await answer(page)).split()


async def test_stop_ends_the_answer_and_the_upstream_before_the_first_byte_and_after(
    page, upstream
):
    async with serve_relay(upstream, status_wait_s=600) as relay:
        await page.goto(relay.url)
        for transport in TRANSPORTS:
            for said in ("", "half an ans"):
                upstream.reset(*([head(), send(text(said))] if said else []), Hold())
                await ask(page, "hello", transport=transport)
                await page.wait_for_selector("body[data-state=busy]")
                if said:
                    await page.locator(f".text:has-text('{said}')").last.wait_for()
                await page.click("#stop")

                assert said == await answer(page)
                assert "cancelled" == await status(page)
                for call in upstream.calls:  # none, if it had not been asked yet
                    await asyncio.wait_for(call.closed.wait(), 20)


async def test_errors_are_shown_as_errors(page):
    async with serve_relay(demo_pace=0) as relay:
        await open_page(page, relay.url)
        for transport in TRANSPORTS:
            for model, code in (
                ("demo-error", "upstream_overloaded"),
                ("demo-drop", "upstream_truncated"),
            ):
                before = await page.locator(".message.assistant").count()
                await ask(page, "hello", model=model, transport=transport)
                await page.wait_for_selector(f".message.assistant >> nth={before}")
                await page.wait_for_selector(IDLE)

                assert "failed" == await status(page)
                error = page.locator(".message.assistant").last.locator(".error")
                assert code in (await error.text_content() or "")


async def test_answers_are_drawn_as_text_and_markdown_each_in_its_direction(page, upstream, relay):
    await page.goto(relay.url)
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    upstream.script = says(evil)
    await ask(page, evil)
    assert evil == await answer(page)
    assert 0 == await page.locator("#log img, #log script").count()
    assert "Seseragi" in await page.title()

    await page.click("#new-chat")
    upstream.script = says("مرحبا بالعالم\n\nand on")
    await ask(page, "مرحبا")
    await answer(page)
    assert ["rtl", "rtl", "ltr"] == await page.evaluate(
        """[...document.querySelectorAll('.message.user p, .text p')]
             .map((p) => getComputedStyle(p).direction)"""
    )

    await page.click("#new-chat")
    upstream.script = says(
        *"# Rivers\n\n- **wide** ones\n- `narrow` ones, see [here](https://a.example/)\n\n",
        *"| a | b |\n|---|---|\n| 1 | 2 |\n",
    )
    await ask(page, "hello")
    await answer(page)
    kinds = await page.locator(".text").evaluate(
        "(box) => [...box.querySelectorAll('*')].map((n) => n.localName).join(' ')"
    )
    assert "h4 ul li strong li code a div table tbody tr th th tr td td" == kinds
    assert "noopener noreferrer nofollow" == await page.locator(".text a").get_attribute("rel")


async def test_policy_forbids_all_but_the_relay_and_an_open_relay_asks_for_no_key(page, relay):
    reply = await page.goto(relay.url)
    await page.wait_for_selector(READY, state="attached")
    assert not await page.is_visible("#key-form")
    assert not await page.is_visible("#forget-key")
    policy = reply.headers["content-security-policy"]

    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    blocked = await page.evaluate(
        """() => new Promise((done) => {
          document.addEventListener('securitypolicyviolation', (e) => done(e.violatedDirective));
          fetch('https://example.com/').catch(() => {});
        })"""
    )
    assert "connect-src" == blocked


async def test_keyboard_is_enough(page, upstream, relay):
    upstream.script = says("typed")
    await page.goto(relay.url)
    await page.focus("#prompt")
    await page.keyboard.type("one")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("two")
    await page.keyboard.press("Enter")

    assert "typed" == await answer(page)
    assert "one\ntwo" == upstream.calls[0].json["messages"][-1]["content"]


async def test_a_low_window_opens_at_its_top(page, relay):
    await page.set_viewport_size({"width": 640, "height": 400})
    await open_page(page, relay.url)
    await page.wait_for_selector("#prompts button")
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    assert await page.evaluate("document.documentElement.scrollHeight > innerHeight")
    assert 0 == await page.evaluate("scrollY")
    assert "prompt" == await page.evaluate("document.activeElement.id")


async def test_forced_colours_leave_buttons_icons_and_what_is_chosen(page, relay):
    await page.emulate_media(forced_colors="active")
    await page.set_viewport_size({"width": 390, "height": 844})
    await open_page(page, relay.url)
    await page.wait_for_selector("#prompts button")
    await page.click("#view-events")

    shown = {name: await page.evaluate(LOOK, name) for name in ("#view-chat", "#view-events")}
    assert shown["#view-chat"] != shown["#view-events"]
    for drawn in ("#show", ".legend .is-kept", ".ready"):
        assert NOTHING not in await page.evaluate(LOOK, f"{drawn}::before")
    assert "linear-gradient" in await page.evaluate(LOOK, ".strip::after")
    assert "1px" == await page.evaluate(
        "getComputedStyle(document.querySelector('#send')).borderWidth"
    )
    await page.click("#view-chat")
    await page.click("#show-code")
    lines = await page.locator("[role=tab]").evaluate_all(
        "(tabs) => tabs.map((tab) => getComputedStyle(tab).borderBottomColor)"
    )
    assert 2 == len(set(lines)), lines


NOTHING = "rgba(0, 0, 0, 0) none"
LOOK = """(name) => {
  const [selector, pseudo] = name.split('::');
  const look = getComputedStyle(document.querySelector(selector), pseudo && `::${pseudo}`);
  return `${look.backgroundColor} ${look.backgroundImage}`;
}"""


async def test_the_place_of_the_events_previews_the_show_before_the_first_answer(
    page, upstream, relay
):
    upstream.script = says("hello")
    await open_page(page, relay.url)
    await page.wait_for_selector(".preview .strip:visible >> nth=2")
    await ask(page, "hello")
    await page.wait_for_selector(IDLE)
    assert not await page.is_visible(".preview")

    async with serve_relay(upstream, demo=False) as other:
        await page.goto(other.url)
        await page.wait_for_selector("#model option", state="attached")
        assert not await page.is_visible(".preview")


async def test_page_is_accessible_and_can_be_used_at_400_percent(page):
    async with serve_relay(demo_pace=0) as relay:
        await open_page(page, relay.url)
        await ask(page, "hello", model="demo-tools")
        await page.wait_for_selector(f"{IDLE} .text")
        await check_accessible_everywhere(page)

        await page.click("#new-chat")
        await page.select_option("#model", "demo")
        await page.set_viewport_size({"width": 320, "height": 256})
        await page.fill("#prompt", "hello")
        await page.click("#send")
        await page.wait_for_selector(IDLE)
        last = page.locator(".message.assistant .text > :last-child")
        await last.scroll_into_view_if_needed()
        box = await last.bounding_box()
        assert 0 <= box["y"] + box["height"] <= 256
        assert 0 >= await sideways(page)
        assert await page.locator("#scroller").evaluate("(box) => box.clientHeight") > 256
        await page.locator("#prompt").scroll_into_view_if_needed()
        assert (await page.locator("#prompt").bounding_box())["y"] < 256


async def test_story_of_demo_tools_goes_on_to_its_answer(page):
    """The calls, the results that the page makes up, and the answer to them."""
    async with serve_relay(demo_pace=0) as relay:
        await open_page(page, relay.url)
        for count, transport in enumerate(TRANSPORTS, 1):
            await ask(page, "What is the weather?", model="demo-tools", transport=transport)
            await page.wait_for_selector(f".message.assistant >> nth={2 * count - 1}")
            last = page.locator(".message.assistant").last
            await last.locator(".text:has-text('A model would now')").wait_for()
            await page.wait_for_selector(IDLE)

            assert 2 * count == await page.locator(".tool").count()
            assert '"weather":"sunny"' in await page.locator(".results").last.inner_text()
            assert 2 == (await last.locator(".text").inner_text()).count('"weather":"sunny"')
            assert "completed" == await status(page)
        before = await page.locator("#log").inner_text()
        await page.reload()
        await page.wait_for_function(
            "(text) => document.querySelector('#log').innerText === text", arg=before
        )


async def sideways(page: Page) -> int:
    """Return how far the page itself can be scrolled sideways."""
    found: list[int] = await page.locator("html").evaluate(OVERFLOW)
    return found[0]


async def test_questions_wait_for_the_network_and_those_that_were_stopped_are_never_sent(
    page, upstream, relay
):
    upstream.script = says("hi")
    await open_page(page, relay.url)

    async def ask_offline() -> None:
        await go_offline(page)
        await ask(page, "hello")
        await page.wait_for_function(
            "() => document.querySelector('#status').textContent.startsWith('Offline')"
        )

    await ask_offline()
    await page.click("#stop")
    await page.wait_for_selector(IDLE)
    assert "cancelled" == await status(page)
    await page.context.set_offline(False)
    await ask(page, "again")
    await page.wait_for_selector(f"{IDLE}[data-status=completed]")
    assert 1 == len(upstream.calls)

    await page.click("#new-chat")
    await ask_offline()
    await page.context.set_offline(False)
    assert "hi" == await answer(page)
    assert 2 == len(upstream.calls)


async def test_an_answer_that_is_gone_can_be_asked_for_again(page, upstream, relay):
    """As after a restart of a relay that keeps its streams in memory."""
    upstream.script = [head(), send(text("half")), Hold()]
    await page.goto(relay.url)
    await ask(page, "hello")
    await page.wait_for_selector(".message.assistant .text")
    link = await page.get_attribute("#tab", "href")
    await page.goto("about:blank")
    await relay.client.delete(f"/v1/streams/{link.partition('=')[2]}")
    upstream.script = says("whole")
    await page.goto(relay.url)
    await page.wait_for_selector(IDLE)

    assert "interrupted" == await status(page)
    assert "will fail again" not in await page.locator(".message.assistant .error").text_content()
    await page.click(".message.assistant .error button")
    assert "whole" == await answer(page)
    assert 1 == await page.locator(".message.user").count()
    assert [{"role": "user", "content": "hello"}] == upstream.calls[-1].json["messages"]


async def at_the_end(page: Page, box: str) -> None:
    """Wait until a box has been scrolled to its end, and stays there."""
    far_below = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight"
    is_there = f"(box) => ({far_below})(document.querySelector(box)) < 2"
    await page.wait_for_function(is_there, arg=box)
    await page.evaluate(TWO_FRAMES)
    assert await page.locator(box).evaluate(far_below) < 2


async def test_only_the_chat_scrolls_and_a_reader_who_left_its_end_is_left_alone(
    page, upstream, relay
):
    go_on = Until()
    upstream.script = [head(), send(text(LINES)), go_on, *rest("last")]
    await page.goto(relay.url)
    await ask(page, "hello")
    await page.wait_for_selector(".message.assistant .text p:nth-child(60)")
    assert [0, 0] == await page.locator("html").evaluate(OVERFLOW)
    await at_the_end(page, "#scroller")
    await page.hover("#scroller")
    await page.mouse.wheel(0, -600)
    await page.wait_for_function(FAR_FROM_THE_END)
    go_on.told.set()
    await page.wait_for_selector(IDLE)
    await page.evaluate(TWO_FRAMES)

    assert await page.evaluate(f"({FAR_FROM_THE_END})()")
    await check_accessible(page)


async def test_tables_are_whole_on_a_phone(page, upstream, relay):
    long = "a_name_that_is_as_long_as_many_others"
    table = f"| name | sum |\n|---|--:|\n| {long} | 22,000,000 |\n\n"
    upstream.script = says(f"{table}It is for $5.\n")
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(relay.url)
    await ask(page, "hello")
    await answer(page)

    # Words are not broken: what is too wide for that is scrolled, in a box of its own.
    heights = await page.locator("tr").evaluate_all("all => all.map((it) => it.clientHeight)")
    assert 1 == len(set(heights))
    assert (await page.locator(".table").evaluate(OVERFLOW))[0] > 0
    assert 0 >= await sideways(page)
    assert "It is for $5." == await page.locator(".text > p").first.text_content()
    await check_accessible(page)


async def test_api_is_shown_as_a_page_whose_commands_run(page):
    curl = program("curl")
    async with serve_relay(demo_pace=0) as relay:
        await page.goto(relay.url)
        async with page.context.expect_page() as opened:
            await page.click("#documents")
        docs = await opened.value
        document = (await relay.client.get("/openapi.json")).json()["paths"]
        calls = [
            operation["operationId"] for path in document.values() for operation in path.values()
        ]
        await docs.locator("details.call").nth(len(calls) - 1).wait_for()
        assert sorted(calls) == sorted(
            await docs.locator("details.call").evaluate_all("all => all.map((one) => one.id)")
        )

        for path in (*(one.path for one in CLIENT_FORMATS.values()), "/v1/messages/count_tokens"):
            call = docs.locator(f"#{document[path]['post']['operationId']}")
            await call.locator("summary").first.click()
            command = await call.locator("pre").inner_text()
            words = [curl, "--fail-with-body", "--max-time", "20", *shlex.split(command)[1:]]
            process = await asyncio.create_subprocess_exec(*words, stdout=PIPE, stderr=PIPE)
            told, _ = await process.communicate()
            assert 0 == process.returncode, (command, told)
        chat = docs.locator("#postV1Chat")
        assert "messages list of" in await chat.inner_text()
        await chat.locator("summary:has-text('UserMessage')").first.click()
        await chat.locator(".fields .fields code:has-text('cache_control')").first.wait_for()
        await check_accessible(docs)


@pytest.mark.parametrize("name", ["page", "eventsource"])
async def test_snippet_of_the_readme_runs_on_a_page_of_another_server(page, name):
    async with serve_relay(demo_pace=0) as relay:
        code = block(name).replace("http://localhost:8000", relay.url)
        if name == "eventsource":
            code = f"<p id='answer'></p><script type=module>{code}</script>".replace(
                "console.log(", "document.querySelector('#answer').append("
            ).replace("source.close()", "{ source.close(); document.body.dataset.done = 'yes'; }")
        else:
            code = code.replace("</script>", "document.body.dataset.done = 'yes';</script>")

        async with serve_page(html=f"<!doctype html>{code}") as other:
            await page.goto(other)
            await page.wait_for_selector("body[data-done=yes]")

            assert len(await page.text_content("#answer") or "") > 100

"""The demo page in a real Chromium, served by the real relay."""

import asyncio

import pytest

from app.testing.upstream import (
    DONE,
    FINISH,
    Hold,
    Until,
    event,
    head,
    send,
    serve_upstream,
    text,
)
from tests.e2e.axe import check_accessible, check_in_light_and_dark
from tests.serving import serve_relay
from tests.test_docs import block

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("ERR_INTERNET_DISCONNECTED",)
IDLE = "body[data-state=idle] .message.assistant:last-child"
JAPANESE = "せせらぎ🌊は、小さな川の音。👨\u200d👩\u200d👧 \u2028終わり"


async def ask(page, prompt: str, *, model: str | None = None, transport: str = "fetch") -> None:
    if model is not None:
        await page.select_option("#model", model)
    await page.select_option("#transport", transport)
    await page.fill("#prompt", prompt)
    await page.click("#send")


async def answer(page) -> str:
    await page.wait_for_selector(IDLE)
    return "".join(
        await page.locator(".message.assistant").last.locator(".text").all_text_contents()
    )


async def go_offline(page) -> None:
    """Take the network away; the browser's own process for it may know only a while later."""
    await page.context.set_offline(True)
    await page.wait_for_function("() => fetch('/healthz').then(() => false, () => true)")


async def status(page) -> str | None:
    return await page.locator(".message.assistant").last.get_attribute("data-status")


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_answer_arrives_intact(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), *(send(text(character)) for character in JAPANESE), send(FINISH + DONE)]  # fmt: skip
        await page.goto(relay.url)
        await ask(page, "こんにちは", transport=transport)

        assert JAPANESE == await answer(page)
        assert "completed" == await status(page)
        assert 1 == len(upstream.calls)
        types = await page.locator("#events li").evaluate_all(
            "rows => rows.map(row => row.dataset.type)"
        )
        assert ("stream.start", "stream.end") == (types[0], types[-1])
        assert len(JAPANESE) == types.count("text.delta")


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_tokens_paint_one_by_one(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        seen = [Until() for _ in range(20)]
        upstream.script = [head()]
        for number, until in enumerate(seen):
            upstream.script += [send(text(f"{number} ")), until]
        upstream.script += [send(FINISH + DONE)]
        await page.goto(relay.url)
        await ask(page, "count", transport=transport)
        for number, until in enumerate(seen):  # none comes before the one before it is there
            await page.wait_for_selector(f".message.assistant .text:has-text('{number}')")
            until.told.set()

        assert [f"{n}" for n in range(20)] == (await answer(page)).split()


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_stop_ends_the_answer_and_the_upstream(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("half an ans")), Hold()]
        await page.goto(relay.url)
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector(".message.assistant .text")
        await page.click("#stop")

        assert "half an ans" == await answer(page)
        assert "cancelled" == await status(page)
        (call,) = upstream.calls
        await asyncio.wait_for(call.closed.wait(), 20)


async def test_reasoning_and_tool_calls_stand_apart(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}}
        arguments = {"index": 0, "function": {"arguments": '{"city":"京都"}'}}
        upstream.script = [
            head(),
            send(event({"reasoning_content": "let me think"}) + text("I will look.")),
            send(event({"tool_calls": [call]}) + event({"tool_calls": [arguments]})),
            send(event(finish_reason="tool_calls") + DONE),
        ]
        await page.goto(relay.url)
        await ask(page, "weather?")

        assert "I will look." == await answer(page)
        assert "let me think" in (await page.locator(".reasoning").text_content() or "")
        shown = await page.locator(".tool").text_content() or ""
        assert "weather" in shown
        assert "京都" in shown


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
@pytest.mark.parametrize(
    ("model", "code"), [("demo-error", "upstream_overloaded"), ("demo-drop", "upstream_truncated")]
)
async def test_errors_are_shown_as_errors(page, model, code, transport):
    async with serve_relay(demo_pace=0) as relay:
        await page.goto(relay.url)
        await ask(page, "hello", model=model, transport=transport)
        await page.wait_for_selector(IDLE)

        assert "failed" == await status(page)
        assert code in (await page.locator(".message.assistant .error").text_content() or "")


async def test_markup_in_an_answer_stays_text(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        evil = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
        upstream.script = [head(), send(text(evil) + FINISH + DONE)]
        await page.goto(relay.url)
        await ask(page, evil)

        assert evil == await answer(page)
        assert 0 == await page.locator("#log img, #log script").count()
        assert "Seseragi" in await page.title()


async def test_policy_forbids_all_but_the_relay(page):
    async with serve_relay(demo_pace=0) as relay:
        reply = await page.goto(relay.url)
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


async def test_keyboard_is_enough(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("typed") + FINISH + DONE)]
        await page.goto(relay.url)
        await page.focus("#prompt")
        await page.keyboard.type("one")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("two")
        await page.keyboard.press("Enter")

        assert "typed" == await answer(page)
        assert "one\ntwo" == upstream.calls[0].json["messages"][-1]["content"]


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
async def test_page_is_accessible(page, size):
    async with serve_relay(demo_pace=0) as relay:
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await page.goto(relay.url)
        await ask(page, "hello", model="demo-tools")
        await page.wait_for_selector(IDLE)

        await check_in_light_and_dark(page)


@pytest.mark.parametrize("transport", ["fetch", "eventsource"])
async def test_stop_before_the_first_byte_is_at_once(page, transport):
    async with serve_upstream() as upstream, serve_relay(upstream, gate_s=600) as relay:
        upstream.script = [Hold()]
        await page.goto(relay.url)
        await ask(page, "hello", transport=transport)
        await page.wait_for_selector("body[data-state=busy]")
        await page.click("#stop")
        await page.wait_for_selector(IDLE)

        assert "cancelled" == await status(page)


async def test_what_was_stopped_while_offline_is_never_sent(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("hi") + FINISH + DONE)]
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await go_offline(page)
        await ask(page, "hello")
        await page.wait_for_function(
            "() => document.querySelector('#status').textContent.startsWith('Offline')"
        )
        await page.click("#stop")
        await page.wait_for_selector(IDLE)

        assert "cancelled" == await status(page)
        await page.context.set_offline(False)
        await ask(page, "again")
        assert "hi" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_what_was_asked_while_offline_is_sent_once_the_network_is_back(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("hi") + FINISH + DONE)]
        await page.goto(relay.url)
        await go_offline(page)
        await ask(page, "hello")
        await page.wait_for_function(
            "() => document.querySelector('#status').textContent.startsWith('Offline')"
        )
        await page.context.set_offline(False)

        assert "hi" == await answer(page)
        assert 1 == len(upstream.calls)


async def test_an_answer_that_is_gone_can_be_asked_for_again(page):
    """As after a restart of a relay that keeps its streams in memory."""
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("half")), Hold()]
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        link = await page.get_attribute("#tab", "href")
        await page.goto("about:blank")
        await relay.client.delete(f"/v1/streams/{link.partition('=')[2]}")
        upstream.script = [head(), send(text("whole") + FINISH + DONE)]
        await page.goto(relay.url)
        await page.wait_for_selector(IDLE)

        shown = await page.locator(".message.assistant .error").text_content()
        assert "interrupted" == await status(page)
        assert "will fail again" not in shown
        await page.click(".message.assistant .error button")
        assert "whole" == await answer(page)
        assert 1 == await page.locator(".message.user").count()
        assert [{"role": "user", "content": "hello"}] == upstream.calls[-1].json["messages"]


async def test_many_turns_scroll_in_the_chat_only(page):
    async with serve_relay(demo_pace=0) as relay:
        await page.goto(relay.url)
        for _ in range(3):
            await ask(page, "hello", model="demo")
            await page.wait_for_selector(IDLE)

        assert 0 == await page.evaluate(
            "document.scrollingElement.scrollHeight - document.scrollingElement.clientHeight"
        )


async def at_the_end(page, box: str) -> None:
    """Wait until a box has been scrolled to its end, and stays there."""
    far_below = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight"
    is_there = f"(box) => ({far_below})(document.querySelector(box)) < 2"
    await page.wait_for_function(is_there, arg=box)
    await page.wait_for_timeout(100)
    assert await page.locator(box).evaluate(far_below) < 2


async def test_event_list_follows_beyond_its_rows(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head()]
        for number in range(60):
            upstream.script += [
                send("".join(text(f"{number}.{n} ") for n in range(20))),
            ]
        upstream.script += [send(FINISH + DONE)]
        await page.goto(relay.url)
        await ask(page, "count")
        await answer(page)
        await page.wait_for_function(
            "() => document.querySelector('#events li:last-child').dataset.type === 'stream.end'"
        )

        assert 500 == await page.locator("#events li").count()
        await at_the_end(page, "#rows")


async def test_a_phone_keeps_its_place_while_it_looks_at_the_events(page):
    lines = "".join(f"line {n}\n\n" for n in range(60))
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        go_on = Until()
        upstream.script = [head(), send(text(lines)), go_on, send(text("last") + FINISH + DONE)]
        await page.set_viewport_size({"width": 390, "height": 700})
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text p:nth-child(60)")
        await at_the_end(page, "#scroller")
        await page.click("#view-events")
        assert await page.locator("#rows").is_visible()
        assert not await page.locator("#prompt").is_visible()
        go_on.told.set()
        await page.wait_for_selector(IDLE, state="attached")
        await page.click("#view-chat")

        await at_the_end(page, "#scroller")


async def test_a_button_leads_back_to_the_latest(page):
    lines = "".join(f"line {n}\n\n" for n in range(60))
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text(lines)), Hold()]
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text p:nth-child(60)")
        await at_the_end(page, "#scroller")
        await page.wait_for_selector("#latest", state="hidden")
        await page.hover("#scroller")
        await page.mouse.wheel(0, -600)
        await page.wait_for_selector("#latest")
        await check_accessible(page)
        await page.focus("#latest")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#latest", state="hidden")

        assert "scroller" == await page.evaluate("document.activeElement.id")
        await at_the_end(page, "#scroller")


async def test_water_that_runs_costs_neither_style_nor_layout(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("hello")), Hold()]
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        running = "document.getAnimations().filter((one) => one.playState === 'running').length"
        assert 3 <= await page.evaluate(running)
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")

        async def work() -> list[float]:
            found = (await session.send("Performance.getMetrics"))["metrics"]
            return [m["value"] for m in found if m["name"] in ("LayoutCount", "RecalcStyleCount")]

        for _ in range(40):
            before = await work()
            await page.wait_for_timeout(500)  # thirty frames
            if before == await work():
                break
        else:
            raise AssertionError(before, await work())


async def test_text_takes_its_own_direction(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("مرحبا بالعالم\n\nand on") + FINISH + DONE)]
        await page.goto(relay.url)
        await ask(page, "مرحبا")
        await answer(page)
        directions = await page.evaluate(
            """[...document.querySelectorAll('.message.user p, .text p')]
                 .map((p) => getComputedStyle(p).direction)"""
        )

        assert ["rtl", "rtl", "ltr"] == directions


async def test_page_can_be_used_at_400_percent(page):
    async with serve_relay(demo_pace=0) as relay:
        await page.set_viewport_size({"width": 320, "height": 256})
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.fill("#prompt", "hello")
        await page.click("#send")
        await page.wait_for_selector(IDLE)
        last = page.locator(".message.assistant .text > :last-child")
        await last.scroll_into_view_if_needed()
        box = await last.bounding_box()

        assert 0 <= box["y"] + box["height"] <= 256
        assert 0 >= await page.evaluate(
            "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        )
        assert await page.locator("#scroller").evaluate("(box) => box.clientHeight") > 256
        await page.locator("#prompt").scroll_into_view_if_needed()
        assert (await page.locator("#prompt").bounding_box())["y"] < 256


async def test_markdown_is_drawn_while_it_streams(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        source = "# Rivers\n\n- **wide** ones\n- `narrow` ones, see [here](https://a.example/)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        upstream.script = [
            head(),
            *(send(text(character)) for character in source),
            send(FINISH + DONE),
        ]
        await page.goto(relay.url)
        await ask(page, "hello")
        await answer(page)
        kinds = await page.locator(".text").evaluate(
            "(box) => [...box.querySelectorAll('*')].map((n) => n.localName)"
        )

        assert [
            "h4",
            "ul",
            "li",
            "strong",
            "li",
            "code",
            "a",
            "div",
            "table",
            "tbody",
            "tr",
            "th",
            "th",
            "tr",
            "td",
            "td",
        ] == kinds
        assert "noopener noreferrer nofollow" == await page.locator(".text a").get_attribute("rel")


async def test_tables_and_formulas_are_whole_on_a_phone(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        long = "a_name_that_is_as_long_as_many_others"
        source = f"| name | sum |\n|---|--:|\n| {long} | 22,000,000 |\n\nIt is $\\frac{{1}}{{2}}$, for $5.\n\n$$\n{'x + ' * 30} y\n$$\n"
        upstream.script = [head(), send(text(source) + FINISH + DONE)]
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(relay.url)
        await ask(page, "hello")
        await answer(page)

        # Words are not broken: what is too wide for that is scrolled, in a box of its own.
        heights = await page.locator("tr").evaluate_all("all => all.map((it) => it.clientHeight)")
        assert 1 == len(set(heights))
        for box in (".table", ".formula.display"):
            assert await page.locator(box).evaluate("(it) => it.scrollWidth > it.clientWidth")
        assert 0 >= await page.evaluate(
            "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        )
        tall = "(it) => it instanceof MathMLElement && it.getBoundingClientRect().height"
        assert await page.locator("mfrac").evaluate(tall) > await page.locator("mn").first.evaluate(
            tall
        )
        assert "It is 12, for $5." == await page.locator(".text > p").first.text_content()
        await check_accessible(page)


@pytest.mark.parametrize("name", ["page", "eventsource"])
async def test_snippet_of_the_readme_runs(page, name):
    async with serve_relay(demo_pace=0) as relay:
        code = block(name)
        if name == "eventsource":
            code = f"<p id='answer'></p><script type=module>{code}</script>".replace(
                "console.log(", "document.querySelector('#answer').append("
            ).replace("source.close()", "{ source.close(); document.body.dataset.done = 'yes'; }")
        else:
            code = code.replace("</script>", "document.body.dataset.done = 'yes';</script>")

        async def serve(route):
            await route.fulfill(content_type="text/html", body=f"<!doctype html>{code}")

        await page.route(f"{relay.url}/snippet", serve)
        await page.goto(f"{relay.url}/snippet")
        await page.wait_for_selector("body[data-done=yes]")

        assert len(await page.text_content("#answer") or "") > 100

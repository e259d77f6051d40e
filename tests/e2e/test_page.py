"""The demo page in a real Chromium, served by the real relay."""

import json
from pathlib import Path

import pytest

from tests.needs import file
from tests.serving import serve_relay
from tests.test_docs import block
from tests.upstream import (
    DONE,
    FINISH,
    Hold,
    event,
    head,
    send,
    serve_upstream,
    text,
    wait,
)

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
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
        upstream.script = [head()]
        for number in range(20):
            upstream.script += [send(text(f"{number} ")), wait(0.06)]
        upstream.script += [send(FINISH + DONE)]
        await page.goto(relay.url)
        await page.evaluate(
            """() => {
              window.frames_ = [];
              let last = '';
              const look = () => {
                const now = document.querySelector('.message.assistant .text')?.textContent ?? '';
                if (now !== last) frames_.push(now);
                last = now;
                requestAnimationFrame(look);
              };
              requestAnimationFrame(look);
            }"""
        )
        await ask(page, "count", transport=transport)
        whole = await answer(page)
        frames = await page.evaluate("frames_")

        assert [f"{n}" for n in range(20)] == whole.split()
        assert len(frames) >= 18, frames


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
        await page.wait_for_timeout(500)
        assert call.closed.is_set()


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
    async with serve_relay() as relay:
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
    async with serve_relay() as relay:
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
async def test_page_is_accessible(page, scheme, size):
    axe = file(ROOT / "node_modules" / "axe-core" / "axe.min.js", how="run npm ci")
    async with serve_relay() as relay:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await page.goto(relay.url)
        await ask(page, "hello", model="demo-tools")
        await page.wait_for_selector(IDLE)
        session = await page.context.new_cdp_session(page)

        async def run(code: str):
            found = await session.send(
                "Runtime.evaluate",
                {
                    "expression": code,
                    "awaitPromise": True,
                    "returnByValue": True,
                    "allowUnsafeEvalBlockedByCSP": True,
                },
            )
            assert "exceptionDetails" not in found, found
            return found["result"].get("value")

        await run(f"{axe.read_text(encoding='utf-8')}\n;0")
        found = json.loads(await run("axe.run(document, {preload: false}).then(JSON.stringify)"))
        serious = [
            f"{rule['id']}: {rule['nodes'][0]['html']}"
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
        ]

        assert [] == serious
        assert len(found["passes"]) > 20
        assert 0 >= await page.evaluate(
            "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
        )


@pytest.mark.parametrize("name", ["page", "eventsource"])
async def test_snippet_of_the_readme_runs(page, name):
    async with serve_relay() as relay:
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
        await page.wait_for_selector("body[data-done=yes]", timeout=20_000)

        assert len(await page.text_content("#answer") or "") > 100

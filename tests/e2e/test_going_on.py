"""An answer that was stopped, or came to the limit of its length, goes on in its place."""

import pytest

from app.testing.upstream import DONE, FINISH, Hold, event, head, send, serve_upstream, text
from tests.e2e.axe import check_accessible
from tests.e2e.test_answer_foot import click_and_see
from tests.e2e.test_page import IDLE, answer, ask, status
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

LENGTH = event(finish_reason="length") + DONE


async def roles(page) -> list[str]:
    return await page.locator(".message").evaluate_all("all => all.map((it) => it.className)")


async def test_an_answer_that_came_to_the_limit_goes_on_to_the_same_words(page):
    question = {"role": "user", "content": "Hi"}
    async with serve_relay() as relay:
        body = {"model": "demo", "messages": [question], "stream": False}
        whole = (await relay.client.post("/v1/chat", json=body)).json()["message"]["content"]
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.click("#open-settings")
        await page.fill("#max-tokens", "12")
        await page.keyboard.press("Enter")
        await ask(page, "Hi", model="demo")
        begun = await answer(page)
        await check_accessible(page)
        await page.focus(".go-on")
        await page.keyboard.press("Enter")
        await page.wait_for_function(
            "() => document.querySelector('.usage')?.textContent.includes('24 out')"
        )
        further = await answer(page)
        assert begun != further
        assert further.startswith(begun)
        await page.click("#open-settings")
        await page.fill("#max-tokens", "")
        await page.keyboard.press("Enter")
        await page.click(".go-on")
        await page.wait_for_selector(f"{IDLE}[data-finish=stop]")

        # As one text, to the letter.
        assert ["message user", "message assistant"] == await roles(page)
        assert 1 == await page.locator(".text").count()
        assert not await page.locator(".go-on").count()
        await click_and_see(page, ".copy-answer", "Copied")
        assert whole == await page.evaluate("navigator.clipboard.readText()")


async def test_an_answer_that_was_stopped_goes_on_and_again_where_that_fails(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("A long ans ")), Hold()]
        await page.goto(relay.url)
        await ask(page, "hello")
        await page.wait_for_selector(".message.assistant .text")
        await page.click("#stop")
        upstream.script = [head("400 Bad Request", "application/json"), send(b"{}")]
        await page.click(".go-on")
        await page.wait_for_selector(f"{IDLE} .error")
        assert "failed" == await status(page)
        assert "A long ans " == await answer(page)  # what there was stays
        await page.reload()
        upstream.script = [head(), send(text("wer, ")), Hold()]
        await page.click(".go-on")
        await page.wait_for_selector(".text:has-text('wer')")
        await page.reload()  # in the middle: it is read on, and asked for once
        await page.wait_for_selector("body[data-state=busy] .text:has-text('wer')")
        await page.click("#stop")
        upstream.script = [head(), send(text(" cut") + LENGTH)]
        await page.click(".go-on")
        await page.wait_for_selector(f"{IDLE}[data-finish=length]")

        assert "A long answer, cut" == await answer(page)
        assert 1 == await page.locator(".text").count()
        assert [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "A long answer,"},
        ] == upstream.calls[-1].json["messages"]
        assert 4 == len(upstream.calls)
        assert ["message user", "message assistant"] == await roles(page)
        upstream.script = [head(), send(text("next") + FINISH + DONE)]
        await ask(page, "and then?")
        assert "next" == await answer(page)
        assert "A long answer, cut" == upstream.calls[-1].json["messages"][1]["content"]
        assert not await page.locator(".go-on:visible").count()  # only the last one goes on

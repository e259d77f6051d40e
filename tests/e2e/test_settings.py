"""The settings of a conversation: sent with its questions, kept with it, told where they are refused."""

import json

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.e2e.axe import check_accessible
from tests.e2e.test_keys import check_in_view, watch_policy
from tests.e2e.test_page import IDLE, answer, ask
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

FOCUSED = "document.activeElement.id || document.activeElement.className"
SET = {"temperature": 0.5, "max_completion_tokens": 100}


def settings_of(call) -> dict:
    """What an upstream was told beside the words of the user."""
    names = ("temperature", "max_completion_tokens")  # as OpenAI has `max_tokens` now
    told = {name: call.json[name] for name in names if name in call.json}
    system = [one["content"] for one in call.json["messages"] if one["role"] == "system"]
    return told | ({"system": system} if system else {})


async def label(page) -> str | None:
    return await page.get_attribute("#open-settings", "aria-label")


async def test_settings_are_sent_kept_and_shown_as_code(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("answered") + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await ask(page, "without")
        await answer(page)
        assert {} == settings_of(upstream.calls[-1])
        assert "Settings" == await label(page)

        # By keyboard: what is wrong is said in place, and nothing is taken until it is right.
        await page.focus("#open-settings")
        await page.keyboard.press("Enter")
        assert "system" == await page.evaluate(FOCUSED)
        await page.keyboard.type("Answer in verse.")
        await page.keyboard.press("Tab")
        await page.keyboard.type("3")
        await page.keyboard.press("Tab")
        await page.keyboard.type("1.5")
        await page.keyboard.press("Enter")
        assert "temperature" == await page.evaluate(FOCUSED)
        assert "from 0 to 2" in await page.inner_text("#temperature-error")
        assert "whole number" in await page.inner_text("#max-tokens-error")
        await check_accessible(page, least=8)
        await page.emulate_media(color_scheme="dark")
        await page.set_viewport_size({"width": 390, "height": 844})
        await check_accessible(page, least=8)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await page.fill("#temperature", "0.5")
        await page.fill("#max-tokens", "100")
        await page.keyboard.press("Enter")
        assert not await page.is_visible("#settings")
        assert "open-settings" == await page.evaluate(FOCUSED)
        told = "Settings: a system prompt, temperature 0.5, at most 100 tokens"
        assert told == await label(page)

        await ask(page, "with")
        await answer(page)
        assert SET | {"system": ["Answer in verse."]} == settings_of(upstream.calls[-1])
        assert "Answer in verse." == upstream.calls[-1].json["messages"][0]["content"]
        await page.click("#show-code")
        for name in ("curl", "client", "react", "eventsource", "openai", "httpx"):
            await page.click(f"#code-{name}")
            code = await page.text_content("#code-panel") or ""
            assert all(word in code for word in ("Answer in verse.", "0.5", "100", "max_tokens"))
        await page.keyboard.press("Escape")

        # With the conversation, and no other; after a reload, and when it is opened again.
        await page.reload()
        assert told == await label(page)
        await page.click("#new-chat")
        assert "Settings" == await label(page)
        await page.click("#open-history")
        await page.click(".reopen")
        assert told == await label(page)

        # They are those of new conversations when that is wanted, until it is not any more.
        await page.click("#open-settings")
        await page.fill("#system", "")
        await page.check("#settings-always")
        await page.keyboard.press("Enter")
        await page.click("#new-chat")
        await ask(page, "anew")
        await answer(page)
        assert SET == settings_of(upstream.calls[-1])
        await page.click("#open-settings")
        assert await page.is_checked("#settings-always")
        await page.click("text=Empty all")
        await page.uncheck("#settings-always")
        await page.click("text=Use these settings")
        await page.click("#new-chat")
        assert "Settings" == await label(page)
        assert "settings." not in json.dumps(await page.evaluate("Object.keys(localStorage)"))
        assert [] == broken


async def test_a_setting_that_is_refused_can_be_changed_where_that_is_told(page):
    refusal = b'{"error": {"message": "no temperature but 1", "param": "temperature"}}'
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head("400 Bad Request", "application/json"), send(refusal)]
        await page.set_viewport_size({"width": 320, "height": 256})  # 400 %
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.click("#open-settings")
        await page.fill("#temperature", "0.5")
        await check_in_view(page, "#system", "#temperature", "#max-tokens", "#settings .primary")
        await page.keyboard.press("Escape")
        assert "Settings" == await label(page)
        await page.click("#open-settings")
        await page.fill("#temperature", "0.5")
        await page.keyboard.press("Enter")
        await page.reload()  # before anything was asked
        assert "Settings: temperature 0.5" == await label(page)
        await page.set_viewport_size({"width": 1280, "height": 800})
        await ask(page, "hello")
        await page.wait_for_selector(IDLE)
        assert "no temperature but 1" in await page.inner_text(".error")
        await page.click(".error .adjust")
        await page.fill("#temperature", "")
        await page.click("text=Use these settings")
        upstream.script = [head(), send(text("taken") + FINISH + DONE)]
        await page.click(".regenerate")

        assert "taken" == await answer(page)
        assert {} == settings_of(upstream.calls[-1])

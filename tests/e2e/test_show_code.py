"""The dialog that shows a request of the page as code."""

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.e2e.axe import check_accessible_everywhere
from tests.e2e.test_keys import watch_policy
from tests.e2e.test_page import answer, ask
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

NAMES = ["curl", "seseragi.js", "React", "EventSource", "Python, openai", "Python, httpx"]


async def test_a_request_is_shown_as_code_by_keyboard_alone(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("answered") + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await page.fill("#prompt", "what I write")
        await page.focus("#show-code")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#code[open]")

        shown = {}
        for _ in NAMES:
            tab = page.locator("#code [role=tab]:focus")
            shown[await tab.text_content()] = await page.text_content("#code-panel")
            assert "true" == await tab.get_attribute("aria-selected")
            assert 1 == await page.locator("#code [aria-selected=true]").count()
            await page.keyboard.press("ArrowRight")
        assert NAMES == list(shown)
        assert all("what I write" in code and relay.url in code for code in shown.values())
        await check_accessible_everywhere(page)
        await page.keyboard.press("End")
        await page.click("#copy-code")
        await page.wait_for_selector("#copy-code:has-text('Copied')")
        assert shown[NAMES[-1]] == await page.evaluate("navigator.clipboard.readText()")
        await page.keyboard.press("Escape")
        assert "show-code" == await page.evaluate("document.activeElement.id")

        # What was sent last, once nothing is being written.
        await ask(page, "what I sent")
        await answer(page)
        await page.click("#show-code")
        await page.wait_for_selector("#code[open]")
        assert "what I sent" in await page.text_content("#code-panel")
        assert "what I write" not in await page.text_content("#code-panel")
        assert [] == broken

"""The page's request as code, and the page in Japanese."""

import pytest

from tests.e2e.axe import check_accessible
from tests.e2e.talk import answer, ask, open_page, says, watch_policy

pytestmark = [pytest.mark.proving, pytest.mark.browser]

CODES = ["curl", "fetch", "EventSource"]


async def test_a_request_is_shown_as_code_by_keyboard_alone(page, upstream, relay):
    upstream.script = says("answered")
    broken = await watch_policy(page)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_page(page, relay.url)
    await page.fill("#prompt", "what I write")
    await page.focus("#show-code")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("#code[open]")
    assert "fetch" == await page.locator("#code [role=tab]:focus").text_content()
    await page.keyboard.press("Home")
    codes = {}
    for _ in CODES:
        tab = page.locator("#code [role=tab]:focus")
        codes[await tab.text_content()] = await page.text_content("#code-panel")
        assert "true" == await tab.get_attribute("aria-selected")
        await page.keyboard.press("ArrowRight")
    assert CODES == list(codes)
    assert all("what I write" in code and relay.url in code for code in codes.values())
    await check_accessible(page)
    await page.keyboard.press("End")
    await page.click("#copy-code")
    await page.wait_for_selector("#copy-code:has-text('Copied')")
    assert codes[CODES[-1]] == await page.evaluate("navigator.clipboard.readText()")
    await page.keyboard.press("Escape")
    assert "show-code" == await page.evaluate("document.activeElement.id")

    # What was sent last, once nothing is being written.
    await ask(page, "what I sent")
    await answer(page)
    await page.click("#show-code")
    await page.wait_for_selector("#code[open]")
    stream = (await page.get_attribute("#tab", "href")).partition("=")[2]
    assert f"/v1/streams/{stream}/events" in await page.text_content("#code-panel")
    assert "what I sent" in await page.text_content("#code-panel")
    assert "what I write" not in await page.text_content("#code-panel")
    assert [] == broken


async def test_page_is_in_japanese_where_the_browser_is(page, upstream, relay):
    upstream.script = says("はい")
    context = await page.context.browser.new_context(locale="ja-JP")
    ours = await context.new_page()
    for one, language, send, placeholder, title in (
        (ours, "ja", "送信", "メッセージを入力", "流れ"),
        (page, "en", "Send", "message", "Seseragi"),
    ):
        await one.goto(relay.url)
        assert language == await one.get_attribute("html", "lang")
        assert send in await one.text_content("#send")
        assert placeholder in await one.get_attribute("#prompt", "placeholder")
        assert title in await one.title()
    await ask(ours, "こんにちは")

    assert "はい" == await answer(ours)
    await ours.wait_for_selector("#status:has-text('完了')")
    await check_accessible(ours)

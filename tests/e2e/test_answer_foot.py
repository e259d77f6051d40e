"""What stands below an answer of the page, what folds in it, and its link for others."""

import asyncio
import json

import pytest

from app.testing.upstream import DONE, Until, event, head, send, text
from tests.e2e.axe import check_accessible, check_accessible_everywhere
from tests.e2e.talk import IDLE, ask, watch_policy

pytestmark = [pytest.mark.proving, pytest.mark.browser]

CALL = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"city":'}}
REST = {"index": 0, "function": {"arguments": '"京都"}'}}
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 201,
    "total_tokens": 1401,
    "prompt_tokens_details": {"cached_tokens": 1000},
    "completion_tokens_details": {"reasoning_tokens": 50},
}
ANSWER = "It is **fine**."
FOLDS = ".message.assistant details"

WATCH_WORDS = """([button, words]) => {
  window.said_ = new Promise((resolve) => {
    new MutationObserver(() => {
      if (document.querySelector(button)?.textContent.includes(words)) resolve();
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
}"""


async def click_and_see(page, button: str, words: str) -> None:
    """Click a button that says so for a while: the page looks itself, or it may be missed."""
    await page.evaluate(WATCH_WORDS, [button, words])
    await page.click(button)
    async with asyncio.timeout(30):
        await page.evaluate("said_")


async def test_an_answer_folds_and_tells_what_it_took(page, upstream, relay):
    go_on = Until()
    upstream.script = [
        head(),
        send(event({"reasoning_content": "let me think"})),
        go_on,
        send(text(ANSWER)),
        send(event({"tool_calls": [CALL]}) + event({"tool_calls": [REST]})),
        send(
            event(finish_reason="tool_calls")
            + f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n"
            + DONE
        ),
    ]
    broken = await watch_policy(page)
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto(relay.url)
    await ask(page, "hello")

    # While it runs: unfolded, and with a link to watch along.
    await page.wait_for_selector(f"{FOLDS}.reasoning[open] :text('let me think')")
    await page.get_by_role("button", name="Watch along").click()
    link = await page.locator(".shared input").input_value()
    await click_and_see(page, ".copy-link", "Copied")
    assert link == await page.evaluate("navigator.clipboard.readText()")
    await check_accessible(page)
    go_on.told.set()
    await page.wait_for_selector(f"{IDLE} .answer-foot")

    # After it: folded, unless the reader unfolds it.
    assert 2 == await page.locator(FOLDS).count()
    assert 0 == await page.locator(f"{FOLDS}[open]").count()
    await page.locator(f"{FOLDS}.tool summary").focus()
    await page.keyboard.press("Enter")
    assert "京都" in await page.inner_text(f"{FOLDS}.tool pre")
    told = await page.text_content(".answer-foot .usage")
    assert told.startswith(
        "1,200 tokens in · 1,000 of them cached · 201 out · 50 of them reasoning"
    )
    await check_accessible_everywhere(page)
    await click_and_see(page, ".copy-answer", "Copied")
    assert ANSWER == await page.evaluate("navigator.clipboard.readText()")
    assert await page.get_by_role("button", name="Share").is_visible()

    await page.reload()
    await page.wait_for_selector(".answer-foot")
    assert told == await page.text_content(".answer-foot .usage")
    assert [] == broken

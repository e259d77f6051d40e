"""Conversations as files: saved by the page itself, and opened again."""

import json
from pathlib import Path

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.e2e.axe import check_accessible
from tests.e2e.test_history import FOCUSED, TITLES, shown, titles
from tests.e2e.test_keys import watch_policy
from tests.e2e.test_page import answer, ask
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

ANSWER = "It *is* **so**: <img src=x onerror=alert(1)>"


async def read_download(page, press) -> tuple[str, str]:
    """Return the name and the text of the file that a press has the browser save."""
    async with page.expect_download() as saving:
        await press
    download = await saving.value
    return download.suggested_filename, Path(await download.path()).read_text(encoding="utf-8")


async def test_a_conversation_is_saved_and_opened_again_by_keyboard(page, tmp_path):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text(ANSWER) + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(2)", state="attached")
        await ask(page, "Is it so?")
        await answer(page)
        calls = len(upstream.calls)
        await titles(page)

        # Escape leaves it; the two formats are made in the page.
        await page.focus(".kept .save")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".formats button:focus")
        await check_accessible(page, least=8)
        await page.keyboard.press("Escape")
        assert "quiet save" == await page.evaluate(FOCUSED)
        await page.keyboard.press("Enter")
        name, markdown = await read_download(page, page.keyboard.press("Enter"))
        assert "Is-it-so.md" == name.replace("?", "")
        asked, said = markdown.split("## You\n\n")[1].split("\n\n## ")
        assert "Is it so?" == asked
        assert said.endswith(f"\n\n{ANSWER}\n")
        assert f"Saved as {name}." == await page.inner_text(".deleted [role=status]")
        assert "quiet save" == await page.evaluate(FOCUSED)
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        name, saved = await read_download(page, page.keyboard.press("Enter"))
        assert name.endswith(".json")
        assert ANSWER == json.loads(saved)["turns"][0]["answer"]
        await page.click(".kept .delete")
        assert [] == await page.evaluate(TITLES)

        # What is no conversation is told, and changes nothing.
        wrong = {"name": "a.json", "mimeType": "application/json", "buffer": b"{}"}
        await page.set_input_files("#load-file", wrong)
        await page.wait_for_selector(".deleted:has-text('no conversation')")
        assert not await page.is_visible("#undo-delete")
        await check_accessible(page, least=8)
        large = tmp_path / "large.json"
        large.write_bytes(b" " * 4_000_001)
        await page.set_input_files("#load-file", large)
        await page.wait_for_selector(".deleted:has-text('too large')")
        assert [] == await page.evaluate(TITLES)

        right = wrong | {"buffer": saved.replace("Is it so?", "<b>Is it?").encode()}
        await page.set_input_files("#load-file", right)
        await page.wait_for_selector(".message.assistant .text")
        assert not await page.is_visible("#history")
        assert ["<b>Is it?", "It is so: <img src=x onerror=alert(1)>"] == await shown(page)
        assert 0 == await page.locator("#log img, #log b").count()
        assert calls == len(upstream.calls)

        # It goes on as any other.
        upstream.script = [head(), send(text("more") + FINISH + DONE)]
        await ask(page, "and on")
        assert "more" == await answer(page)
        contents = [one["content"] for one in upstream.calls[-1].json["messages"]]
        assert ["<b>Is it?", ANSWER, "and on"] == contents
        assert ["<b>Is it?"] == await titles(page)
        assert [] == broken

"""The page's own language is the browser's."""

import pytest

from app.testing.upstream import DONE, FINISH, head, send, serve_upstream, text
from tests.e2e.axe import check_accessible
from tests.e2e.test_page import answer, ask
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]


async def test_page_is_in_japanese_where_the_browser_is(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("はい") + FINISH + DONE)]
        context = await page.context.browser.new_context(locale="ja-JP")
        ours = await context.new_page()
        await ours.goto(relay.url)
        assert "ja" == await ours.get_attribute("html", "lang")
        assert "送信" == await ours.text_content("#send")
        assert "メッセージを入力" == await ours.get_attribute("#prompt", "placeholder")
        assert "流れ" in await ours.title()
        await ask(ours, "こんにちは")

        assert "はい" == await answer(ours)
        await ours.wait_for_function(
            "() => document.querySelector('#status').textContent === '完了'"
        )
        await check_accessible(ours)
        await page.goto(relay.url)
        assert "en" == await page.get_attribute("html", "lang")
        assert "Send" == await page.text_content("#send")

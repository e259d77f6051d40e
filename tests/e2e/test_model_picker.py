"""The model picker of the page: hundreds of models, searched."""

import json
from typing import Any

import pytest

from app.testing.upstream import DONE, FINISH, head, reply, send, serve_upstream, text
from tests.e2e.axe import check_accessible_everywhere
from tests.e2e.test_keys import check_in_view, watch_policy
from tests.e2e.test_page import answer
from tests.serving import serve_relay

pytestmark = [pytest.mark.proving, pytest.mark.browser]

MODELS: list[dict[str, Any]] = [
    {
        "id": f"lab/model-{number:03}",
        "name": f"Model {number}",
        "context_length": 200_000,
        "architecture": {"input_modalities": ["text", *(["image"] if number % 50 == 0 else [])]},
        "supported_parameters": ["tools"],
    }
    for number in range(400)
]
OPTIONS = "#models [role=option]"
ACTIVE = f"{OPTIONS}.active"


async def test_one_of_hundreds_of_models_is_found_and_chosen(page):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.models = reply("200 OK", json.dumps({"data": MODELS}))
        upstream.script = [head(), send(text("chosen") + FINISH + DONE)]
        broken = await watch_policy(page)
        await page.goto(relay.url)
        await page.wait_for_selector("#model option:nth-child(400)", state="attached")
        await page.focus("#pick-model")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#model-search:focus")
        most = await page.locator(OPTIONS).count()
        assert most <= 60
        await check_accessible_everywhere(page)

        # To the last one and back around, with few of them in the document.
        await page.keyboard.press("ArrowUp")
        last = await page.text_content(ACTIVE)
        assert await page.locator(OPTIONS).count() <= most
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("ArrowDown")
        named = await page.get_attribute("#model-search", "aria-activedescendant")
        assert named == await page.get_attribute(ACTIVE, "id")
        assert "2" == await page.get_attribute(ACTIVE, "aria-posinset")
        assert await page.locator(ACTIVE).evaluate(
            "(row) => row.getBoundingClientRect().top >= row.closest('#models').getBoundingClientRect().top"
        )

        # By scrolling too, and each once.
        seen = await page.evaluate(
            """async () => {
              const rows = document.querySelector('#models');
              const seen = new Set();
              let most = 0;
              for (let steps = 0; steps < 2000; steps++) {
                const found = [...rows.querySelectorAll('[role=option]')];
                most = Math.max(most, found.length);
                for (const row of found) seen.add(row.ariaPosInSet);
                if (rows.scrollTop + rows.clientHeight >= rows.scrollHeight - 1) break;
                rows.scrollTop += 150;
                await new Promise(requestAnimationFrame);
              }
              return [seen.size, most, Number(document.querySelector('#models [role=option]').ariaSetSize)];
            }"""
        )
        assert [seen[2], most, seen[2]] == seen
        assert last

        await page.keyboard.type("IMAGE model-1")
        await page.wait_for_selector(f"{OPTIONS} >> nth=0")
        assert ["openai/lab/model-100", "openai/lab/model-150"] == await page.locator(
            f"{OPTIONS} .id"
        ).all_text_contents()
        facts = await page.locator(f"{OPTIONS} >> nth=0").locator(".facts span").all_text_contents()
        assert ["200K context", "image", "tools"] == facts
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        assert "openai/lab/model-150" == await page.input_value("#model")
        assert "pick-model" == await page.evaluate("document.activeElement.id")
        assert not await page.is_visible("#picker")

        # Whatever else sets the value is shown, and Escape changes nothing.
        await page.select_option("#model", "openai/lab/model-007")
        assert "model-007" in await page.text_content("#pick-model")
        await page.click("#pick-model")
        await page.fill("#model-search", "no such thing")
        await page.wait_for_selector("#picker :text('No model has all of these words')")
        await page.keyboard.press("Enter")
        await page.keyboard.press("Escape")
        assert "openai/lab/model-007" == await page.input_value("#model")

        # At 400 % too.
        size = page.viewport_size
        await page.set_viewport_size({"width": 320, "height": 256})
        await page.click("#pick-model")
        await check_in_view(page, "#model-search", ACTIVE)
        await page.keyboard.press("Escape")
        await page.set_viewport_size(size)
        await page.click("#pick-model")
        await page.fill("#model-search", "model-399")
        await page.click(OPTIONS)
        await page.fill("#prompt", "hello")
        await page.keyboard.press("Enter")
        assert "chosen" == await answer(page)
        assert "lab/model-399" == upstream.calls[0].json["model"]
        assert [] == broken

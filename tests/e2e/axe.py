"""What axe finds wrong with a page."""

import json
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.needs import file

ROOT = Path(__file__).parents[2]
SETTLED = """
Promise.allSettled(document.getAnimations()
  .filter((animation) => animation.playState === 'running' && animation.effect.getComputedTiming().endTime < Infinity)
  .map((animation) => animation.finished)).then(() => null)
"""


async def check_accessible(page: Page, *, least: int = 20) -> None:
    """Check that a page has no fault that is more than minor, and does not scroll sideways.

    It is in front then. `least` is how many rules have to have found something: fewer below a dialog that is modal.
    """
    axe = file(ROOT / "node_modules" / "axe-core" / "axe.min.js", how="run npm ci")
    session = await page.context.new_cdp_session(page)

    async def run(code: str) -> Any:
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

    # Half faded in, a text has too little contrast; a tab that is not in front fades no further.
    await page.bring_to_front()
    await run(SETTLED)
    await run(f"{axe.read_text(encoding='utf-8')}\n;0")
    found = json.loads(await run("axe.run(document, {preload: false}).then(JSON.stringify)"))
    faults = [
        f"{rule['id']}: {rule['nodes'][0]['html']}"
        for rule in found["violations"]
        if rule["impact"] in ("moderate", "serious", "critical")
    ]

    assert [] == faults, faults
    assert len(found["passes"]) > least
    assert 0 >= await page.evaluate(
        "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
    )


async def check_in_light_and_dark(page: Page) -> None:
    """Check the page as it stands, in both."""
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)
        await check_accessible(page)


async def check_accessible_everywhere(page: Page, *, least: int = 20) -> None:
    """Check the page as it stands, in light and dark, on a desk and on a phone."""
    before = page.viewport_size
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        for width, height in ((1280, 800), (390, 844)):
            await page.set_viewport_size({"width": width, "height": height})
            await check_accessible(page, least=least)
    await page.emulate_media(color_scheme="light")
    if before is not None:
        await page.set_viewport_size(before)

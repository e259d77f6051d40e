"""What axe finds wrong with a page."""

import json
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.needs import file

ROOT = Path(__file__).parents[2]


async def check_accessible(page: Page) -> None:
    """Check that a page has no serious fault, and does not scroll sideways."""
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

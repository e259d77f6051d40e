"""Make docs/page.png, with which the README opens: a cut in the middle of an answer, and its resume.

    python -m tests.e2e.picture [FILE]

What it shows is what happened: the relay's own demo, a connection that is aborted, and the
client that comes back. The fonts are those of the machine; it needs Japanese ones and emoji.
"""

import asyncio
import os
import sys
from pathlib import Path

from playwright.async_api import async_playwright

from tests.e2e.conftest import FLAGS
from tests.needs import program
from tests.serving import serve_relay

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
PROMPT = "What is this, and what can I try?"
SIZE = (1200, 720)
SHARPNESS = 1.5  # more makes a file that is too large for a README
CUT_AT = 52
SHOWN_AT = 150  # events: within the code, before the end
LIST = "Math.max(...[...document.querySelectorAll('#events .n')].map((n) => Number(n.textContent)))"
TO_THE_CUT = "document.querySelector('#events .cut').scrollIntoView({ block: 'center' })"


async def main(path: Path) -> None:
    flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    async with serve_relay(demo_pace=0.035) as relay, async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program("chromium", "chromium-browser", variable="CHROMIUM"), args=flags
        )
        context = await browser.new_context(
            viewport={"width": SIZE[0], "height": SIZE[1]},
            device_scale_factor=SHARPNESS,
            color_scheme="light",
            locale="en",
        )
        page = await context.new_page()

        async def until(number: int) -> None:
            while await page.evaluate(LIST) < number:
                await page.wait_for_timeout(10)

        await page.goto(relay.url)
        await page.wait_for_selector("#prompts li")
        await page.fill("#prompt", PROMPT)
        await page.keyboard.press("Enter")
        await page.wait_for_selector("#events li")
        await until(CUT_AT)
        await page.click("#cut")
        await page.wait_for_selector("#events .cut[data-state=back]")
        await page.focus("#prompt")
        await page.mouse.move(0, 0)
        await until(SHOWN_AT)
        await page.evaluate(TO_THE_CUT)
        await page.wait_for_timeout(50)
        await page.screenshot(path=path)
        await browser.close()
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE))

"""A real Chromium, found by `$CHROMIUM` or on the path."""

import os
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright

from tests.needs import program

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# What Chromium itself writes when a test provokes it: an error status, a blocked request.
EXPECTED = ("the server responded with a status", "Content Security Policy")


@pytest.fixture
async def page(request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    """A fresh page; at the end nothing may have gone wrong in it.

    A module whose tests cut connections lists what Chromium says of it in `EXPECTED_ERRORS`;
    `MORE_FLAGS` are those that its Chromium needs.
    """
    expected = (*EXPECTED, *getattr(request.module, "EXPECTED_ERRORS", ()))
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
    flags = [*flags, *getattr(request.module, "MORE_FLAGS", ())]
    executable = program("chromium", "chromium-browser", variable="CHROMIUM")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=flags)
        context = await browser.new_context()
        page = await context.new_page()
        page.set_default_timeout(10_000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on(
            "console",
            lambda message: (
                wrong.append(message.text)
                if message.type == "error"
                and "the server responded with a status" not in message.text
                else None
            ),
        )
        yield page
        await browser.close()
        assert [] == [text for text in wrong if not any(map(text.__contains__, expected))]

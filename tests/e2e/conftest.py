"""A real Chromium, found by `$CHROMIUM` or on the path."""

from __future__ import annotations  # to import Playwright takes 0.1 s

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from app.testing.upstream import Upstream, serve_upstream
from tests.e2e.engines import ENGINES, Engine
from tests.needs import program
from tests.serving import Relay, serve_relay

HERE = Path(__file__).parent

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page

# What Playwright leaves out by a list that this one replaces, a process in reserve for each page,
# and the last two: the pages of Chromium's own address bar, which no test sees, took half of the
# CPU of a page load.
LEFT_OUT = (
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "SpareRendererForSitePerProcess",
    "ThirdPartyStoragePartitioning",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
)
FLAGS = [
    f"--disable-features={','.join(LEFT_OUT)}",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# What Chromium itself writes when a test provokes it: an error status, a blocked request.
EXPECTED = ("the server responded with a status", "Content Security Policy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests of this folder in one event loop, that of the browsers they share."""
    for item in items:
        if item.path.parent == HERE and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(loop_scope="session")
async def upstream() -> AsyncIterator[Upstream]:
    """The provider that `relay` asks."""
    async with serve_upstream() as upstream:
        yield upstream


@pytest_asyncio.fixture(loop_scope="session")
async def relay(upstream: Upstream) -> AsyncIterator[Relay]:
    """A relay of the default settings."""
    async with serve_relay(upstream) as relay:
        yield relay


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Callable[[Sequence[str]], Awaitable[Browser]]]:
    """Run one Chromium for all tests with the same flags: to start one takes a second of work."""
    from playwright.async_api import async_playwright

    executable = program("chromium", "chromium-browser", variable="CHROMIUM")
    running: dict[tuple[str, ...], Browser] = {}
    async with async_playwright() as playwright:

        async def browser_with(more_flags: Sequence[str]) -> Browser:
            flags = [*FLAGS, *more_flags, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            if tuple(flags) not in running:
                running[tuple(flags)] = await playwright.chromium.launch(
                    executable_path=executable, args=flags, timeout=120_000
                )
            return running[tuple(flags)]

        yield browser_with
        for browser in running.values():
            await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def engines() -> AsyncIterator[Callable[[str], Awaitable[Engine]]]:
    """Run one browser of each other engine, by its name, for all tests: each starts for seconds."""
    running: dict[str, Engine] = {}
    async with contextlib.AsyncExitStack() as stack:

        async def engine_of(name: str) -> Engine:
            if name not in running:
                running[name] = await stack.enter_async_context(ENGINES[name]())
            return running[name]

        yield engine_of


@pytest_asyncio.fixture(loop_scope="session")
async def firefox(engines: Callable[[str], Awaitable[Engine]]) -> AsyncIterator[Engine]:
    """Firefox; at the end it leaves the page of the test."""
    engine = await engines("firefox")
    yield engine
    await engine.open("about:blank")


def asked_too_late(message: ConsoleMessage) -> bool:
    """Tell whether a page was still asking a relay that a test had already closed."""
    where = urlsplit(message.location["url"])
    if "net::ERR_" not in message.text or where.hostname != "127.0.0.1" or not where.port:
        return False
    with socket.socket() as probe:
        return probe.connect_ex((where.hostname, where.port)) != 0


@pytest_asyncio.fixture(loop_scope="session")
async def page(
    request: pytest.FixtureRequest, chromium: Callable[[Sequence[str]], Awaitable[Browser]]
) -> AsyncIterator[Page]:
    """A fresh page, in a context of its own; at the end nothing may have gone wrong in it.

    A module whose tests cut connections lists what Chromium says of it in `EXPECTED_ERRORS`;
    `MORE_FLAGS` are those that its Chromium needs.
    """
    expected = (*EXPECTED, *getattr(request.module, "EXPECTED_ERRORS", ()))
    browser = await chromium(getattr(request.module, "MORE_FLAGS", ()))
    assert [] == browser.contexts
    context = await browser.new_context()
    page = await context.new_page()
    page.set_default_timeout(30_000)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))

    def note(message: ConsoleMessage) -> None:
        harmless = "the server responded with a status" in message.text or asked_too_late(message)
        if message.type == "error" and not harmless:
            wrong.append(message.text)

    page.on("console", note)
    yield page
    for opened in browser.contexts:
        await opened.close()
    assert [] == [text for text in wrong if not any(map(text.__contains__, expected))]

"""The show on the welcome screen: three readers of one answer, two of them cut."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.demo.transport import _DemoStream
from tests.e2e.axe import check_accessible
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)
SHOWN = "[...document.querySelectorAll('.pane .text')].map((text) => text.textContent)"


class Calls:
    """Notes the calls of streams, each with the cursor that it shows, and which are read."""

    def __init__(self) -> None:
        self.streams: set[str] = set()
        self.seen: list[tuple[str, str | None]] = []

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def noted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and (
                found := re.search(r"/v1/chat|/([^/]+)/events$", scope["path"])
            ):
                self.streams |= {found[1]} - {None}
                heads = {name.decode(): value.decode() for name, value in scope["headers"]}
                self.seen.append((scope["method"], heads.get("last-event-id")))
            await app(scope, receive, send)

        return noted


@contextlib.contextmanager
def standing_still(after: int) -> Iterator[asyncio.Event]:
    """Let the demo's answer stand still after so many tokens, until it is told to go on."""
    tokens = 0
    go_on = asyncio.Event()
    read = _DemoStream.__anext__

    async def paused(stream: _DemoStream) -> bytes:
        nonlocal tokens
        tokens += 1
        if tokens > after:
            waiting = [asyncio.ensure_future(one.wait()) for one in (go_on, stream._closed)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
        return await read(stream)

    with patch.object(_DemoStream, "__anext__", paused):
        yield go_on


async def states(page) -> list[str]:
    return await page.locator(".pane-state").all_text_contents()


async def test_show_cuts_two_readers_and_one_comes_back(page):
    calls = Calls()
    with standing_still(after=70) as go_on:  # both are cut before
        async with serve_relay(demo_pace=0.01, retry_ms=1500, watch=calls) as relay:
            await page.goto(relay.url)
            await page.wait_for_selector("#show")
            await page.focus("#show")
            await page.keyboard.press("Enter")
            await page.wait_for_selector(".pane[data-state=dead]")
            go_on.set()
            await check_accessible(page)
            await page.wait_for_selector(".show-sums div", timeout=30_000)

            lost, resumed = map(int, re.findall(r"\d+", (await states(page))[0]))
            client, naive, late = await page.evaluate(SHOWN)
            assert lost + 1 == resumed
            assert "for good" in (await states(page))[1]
            assert client == late
            assert late.startswith(naive)
            assert len(naive) < len(late) / 2
            sums = await page.locator(".show-sums dd").all_text_contents()
            assert ["3", "4", "1", "0, 0"] == [*sums[:3], sums[4]]
            (stream,) = calls.streams
            expected = [("POST", None), ("POST", None), ("GET", None), ("GET", f"{stream}.{lost}")]
            assert sorted(expected, key=str) == sorted(calls.seen, key=str)

            async def counted() -> int:
                return (await relay.client.get("/v1/usage")).json()["today"]["requests"]

            await until(counted)
            assert 1 == await counted()
            told = (await relay.client.get(f"/v1/streams/{stream}")).json()
            assert f"{told['usage']['output_tokens']} " in sums[3]
            assert "same text" in await page.text_content(".show-told")
            await check_accessible(page)

            await page.keyboard.press("Escape")
            assert "show" == await page.evaluate("document.activeElement.id")
            await page.wait_for_selector("dialog.show", state="detached")


async def test_show_is_offered_only_where_it_costs_nothing(page):
    async with serve_relay() as relay:

        async def paid(route):
            rows = [{"id": "demo", "owned_by": "acme"}, {"id": "demo-long", "owned_by": "demo"}]
            await route.fulfill(json={"object": "list", "data": rows})

        await page.route("**/v1/models", paid)
        await page.goto(relay.url)
        await page.wait_for_selector("#prompts li")

        assert not await page.locator("#show").is_visible()

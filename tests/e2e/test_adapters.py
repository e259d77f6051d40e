"""The package in pages with React's StrictMode: cut, offline, loaded again, and in two windows.

One page has the hook, the AI SDK and AG-UI by their adapters. Its second window is a frame.
"""

import asyncio
import json
from typing import Any

import pytest

from app.testing.upstream import Until, serve_upstream
from tests.cutting import How, cutting_proxy
from tests.e2e.engines import Engine
from tests.e2e.react_page import build_with_package, serve_page
from tests.e2e.talk import paced
from tests.serving import serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_", "blocked by CORS policy")  # where a preflight is cut
ADAPTERS = ("hook", "sdk", "agent")
WORDS = [f"{number} せせらぎ🌊 " for number in range(60)]
WHOLE = "".join(WORDS)
PACED = paced(WORDS)
UNTIL = """
  const until = Date.now() + 20000;
  while (!(%s)) {
    if (Date.now() > until) throw new Error('waited in vain; the page says: ' + document.body.innerText);
    await new Promise((done) => setTimeout(done, 20));
  }
"""
BEGUN = "document.querySelector('.assistant')?.textContent.includes('%d せせらぎ🌊 ')"
READY = "document.querySelector('main')?.dataset.status === 'ready'"
SEEN = """
  return [window, ...Array.from(frames)].map(({ document, paints }) =>
    [[...document.querySelectorAll('main > p[class]')].filter((it) => it.textContent).map((it) => it.textContent), paints]);
"""
TELL = """
  Object.defineProperty(navigator, 'onLine', { value: '%s' === 'online', configurable: true });
  dispatchEvent(new Event(navigator.onLine ? 'online' : 'offline'));
"""
OPEN_ANOTHER = """
  const frame = document.createElement('iframe');
  frame.src = location.href;
  document.body.append(frame);
"""
OTHER_BEGUN = "frames[0].document.querySelector('.assistant')"
BOTH_READY = "[window, ...Array.from(frames)].every(({ document }) => document.querySelector('.assistant')?.textContent === %s && document.querySelector('main').dataset.status === 'ready')"


@pytest.fixture(scope="module")
def script() -> str:
    return build_with_package("adapters.jsx")


class Chromium:
    """A page of the shared Chromium, as an `Engine`."""

    def __init__(self, page: Any) -> None:
        self._page = page

    async def open(self, url: str) -> None:
        await self._page.goto(url)

    async def run(self, code: str) -> Any:
        return await self._page.evaluate(f"async () => {{ {code} }}")


async def go_through(engine: Engine, script: str, adapter: str) -> None:
    """Ask once, and have the answer once: over cuts, offline, loaded again, and in two windows."""
    refused = 0
    away = False
    async with serve_upstream() as upstream, serve_relay(upstream, retry_ms=500) as relay:
        gone, back, opened = asyncio.Event(), asyncio.Event(), asyncio.Event()
        upstream.script = [*PACED[:17], Until(gone), *PACED[17:69], Until(back), *PACED[69:-9]]
        # The other window begins with the kept messages: none of them may be whole yet.
        upstream.script += [Until(opened), *PACED[-9:]]

        def plan() -> tuple[int, How]:
            nonlocal refused
            if away:
                refused += 1
                return 0, "rst"
            hows: list[How] = ["fin", "rst", "fin"]
            cuts = max(0, proxy.cuts - refused)
            return (3000, hows[cuts]) if cuts < len(hows) else (0, "none")

        async with (
            cutting_proxy(relay.port, plan) as proxy,
            serve_page(script) as url,
        ):
            address = f"http://127.0.0.1:{proxy.port}"
            await engine.open(f"{url}/?1#{adapter}%20{address}")
            await engine.run(UNTIL % READY)
            await engine.run("document.querySelector('button').click()")
            await engine.run(UNTIL % (BEGUN % 3))
            away = True
            await engine.run(TELL % "offline")
            gone.set()
            await until(lambda: refused >= 2)
            away = False
            await engine.run(TELL % "online")
            back.set()
            await engine.run(UNTIL % (BEGUN % 8))
            before = await engine.run(SEEN)
            await engine.open(f"{url}/?2#{adapter}%20{address}")
            await engine.run(UNTIL % (BEGUN % 10))
            await engine.run(OPEN_ANOTHER)
            await engine.run(UNTIL % OTHER_BEGUN)
            opened.set()
            await engine.run(UNTIL % (BOTH_READY % json.dumps(WHOLE)))
            after = await engine.run(SEEN)

            assert [["hello", WHOLE]] * 2 == [shown for shown, _ in after]
            for _, paints in [*before, *after]:
                assert [] == [paint for paint in paints if not WHOLE.startswith(paint)]
            assert 1 == len(upstream.calls)
            assert 3 <= proxy.cuts - refused


@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_answer_comes_once_in_chromium(page, script, adapter):
    await go_through(Chromium(page), script, adapter)


async def test_answer_comes_once_in_firefox(firefox, script):
    for adapter in ADAPTERS:
        await go_through(firefox, script, adapter)

"""`useChat` of the AI SDK, versions 6 and 7, in a React page of another origin.

The page is the code block of docs/clients/ai-sdk.md as it stands, built here by esbuild.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Page, Route

from app.testing.upstream import Hold, Step, Until, head, send, text
from tests.cutting import cutting_proxy
from tests.e2e.react_page import MODULES, ROOT, build, serve_page
from tests.e2e.talk import paced, rest
from tests.needs import file, program
from tests.serving import Relay
from tests.test_docs import block

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)

VERSIONS = {6: ("ai-sdk-react6", "ai6"), 7: ("@ai-sdk/react", "ai")}
BASE = "http://localhost:8000"
WORDS = [f"{number} せせらぎ🌊 " for number in range(30)]
WHOLE = "".join(WORDS)
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
READY = "main[data-status=ready]"
FAILED = "main[data-status=error]"
PAINTED = "text => paints.at(-1) === text"
SHOWS = "text => [...document.querySelectorAll('.assistant')].at(-1)?.textContent === text"
POLICY = "default-src 'none'; script-src 'self'; connect-src "
FORGET = """
  sessionStorage.chat &&= JSON.stringify({ ...JSON.parse(sessionStorage.chat), messages: [] });
"""
FILL = """() => {
  for (let size = 2 ** 23; size >= 1; size /= 2) {
    try {
      for (let at = 0; ; at++) sessionStorage.setItem(`${size} ${at}`, 'x'.repeat(size));
    } catch {}
  }
}"""
WATCH_PAINTS = """
  window.paints = [];
  const look = () => {
    const now = [...document.querySelectorAll('.assistant')].map((it) => it.textContent).join('|');
    if (now !== (paints.at(-1) ?? '')) paints.push(now);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  window.statuses = [];
  const watch = () => {
    const now = document.querySelector('main')?.dataset.status;
    if (now && now !== statuses.at(-1)) statuses.push(now);
  };
  new MutationObserver(watch).observe(document, { subtree: true, childList: true, attributes: true });
"""


class WordByWord:
    """An answer of which each word is sent once the page shows the one before it."""

    def __init__(self) -> None:
        self._seen = [Until() for _ in WORDS]
        pairs = zip(WORDS, self._seen, strict=True)
        self.script: list[Step] = [
            head(),
            *(step for word, seen in pairs for step in (send(text(word)), seen)),
            *rest(),
        ]

    async def shown(self, page: Page, words: range) -> None:
        """Let the answer go on after each of these words, once it is there."""
        for number in words:
            await page.wait_for_function(PAINTED, arg="".join(WORDS[: number + 1]))
            self._seen[number].told.set()


@pytest.fixture(scope="module", params=VERSIONS)
def script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page's script; esbuild is a program of node_modules."""
    program("node")
    react, ai = VERSIONS[request.param]
    for package in (react, ai, "react-dom", "esbuild"):
        file(MODULES / package / "package.json", how="run npm ci")
    folder = tmp_path_factory.mktemp("page")
    snippet = folder / "snippet.jsx"
    snippet.write_text(block("usechat", "docs/clients/ai-sdk.md"), encoding="utf-8")
    aliases: dict[str, Path | str] = {
        "snippet": snippet,
        "@ai-sdk/react": react,
        "ai": ai,
        "seseragi/ai-sdk": ROOT / "static" / "ai-sdk.js",
    }
    script = build("page.jsx", aliases)
    assert 1 == script.count(BASE)
    return script


def serve_chat(script: str, relay: str) -> AbstractAsyncContextManager[str]:
    """Serve the page, with a policy that lets it call the relay only."""
    return serve_page(script.replace(BASE, relay), policy=f"{POLICY}{relay}")


@pytest_asyncio.fixture(loop_scope="session")
async def url(script: str, relay: Relay) -> AsyncIterator[str]:
    """The address of the page that asks the relay."""
    async with serve_chat(script, relay.url) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="session")
async def page(page: Page) -> AsyncIterator[Page]:
    """The page; neither React nor the browser may warn, nor a policy be broken."""
    warned: list[str] = []
    page.on(
        "console",
        lambda message: (
            warned.append(message.text) if message.type in ("error", "warning") else None
        ),
    )
    await page.add_init_script(WATCH_PAINTS)
    yield page
    harmless = ("net::ERR_", "the server responded with a status")
    assert [] == [text for text in warned if not any(map(text.__contains__, harmless))]


async def ask(page: Page, prompt: str = "hello") -> None:
    await page.fill("[name=prompt]", prompt)
    await page.click("text=Send")


async def answers(page: Page) -> list[str]:
    return await page.locator(".assistant").all_text_contents()


async def shown(page: Page) -> list[str]:
    return await page.locator("main > p[class]").all_text_contents()


async def reload_and_resume(page: Page) -> None:
    """Load the page again; return when it has asked to resume, and all has been sent and drawn."""
    async with page.expect_response(lambda response: response.url.endswith("/stream")):
        await page.reload()
    await page.wait_for_load_state("networkidle")
    await page.evaluate(TWO_FRAMES)


async def test_answer_paints_as_it_comes(page, upstream, url):
    answer = WordByWord()
    upstream.script = answer.script
    await page.goto(url + "?strict")
    await page.wait_for_selector(READY)
    await ask(page)
    await page.wait_for_selector("main[data-status=streaming]")
    await answer.shown(page, range(len(WORDS)))
    await page.wait_for_selector(READY)

    assert ["hello", WHOLE] == await shown(page)
    paints = await page.evaluate("paints")
    assert len(paints) > 15
    assert all(WHOLE.startswith(paint) for paint in paints)


@pytest.mark.parametrize("keeps", [True, False], ids=["keeps", "forgets"])
async def test_page_that_is_loaded_again_goes_on_with_the_answer(page, keeps, upstream, url):
    answer = WordByWord()
    upstream.script = answer.script
    await page.goto(url + "?strict")
    await ask(page)
    await answer.shown(page, range(9))
    await page.wait_for_selector(f".assistant:has-text('{WORDS[9]}')")
    if not keeps:
        await page.add_init_script(FORGET)
    await page.reload()
    await answer.shown(page, range(9, len(WORDS)))  # it is ready before it asks too
    await page.wait_for_selector(READY)

    assert [*(["hello"] if keeps else []), WHOLE] == await shown(page)
    paints = await page.evaluate("paints")
    assert len(paints) > 5
    assert all(WHOLE.startswith(paint) for paint in paints)
    # The answer has ended, and is not sent again: the page has stored it.
    await reload_and_resume(page)
    await page.wait_for_selector(READY)
    await page.evaluate(TWO_FRAMES)

    assert ([WHOLE] if keeps else []) == await answers(page)
    assert 1 == len(upstream.calls)


async def test_stop_ends_the_answer_and_the_upstream(page, upstream, url):
    upstream.script = [head(), send(text("half an ans")), Hold()]
    await page.goto(url)
    await ask(page)
    await page.wait_for_selector(".assistant:has-text('half an ans')")
    await page.click("text=Stop")
    await page.wait_for_selector(READY)
    await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)

    assert ["hello", "half an ans"] == await shown(page)


async def test_failure_within_the_answer_is_an_error_and_stays_one(page, upstream, url):
    upstream.script = [head(), send(text("half an ans"))]
    await page.goto(url)
    await ask(page)
    await page.wait_for_selector(FAILED)
    first = await page.text_content("[role=alert]")
    await reload_and_resume(page)
    await page.wait_for_selector(FAILED)
    await page.evaluate(TWO_FRAMES)

    assert 1 == await page.locator(FAILED).count()
    assert first
    assert first == await page.text_content("[role=alert]")
    assert ["hello", "half an ans"] == await shown(page)
    assert 1 == len(upstream.calls)


async def test_connection_that_broke_is_taken_up(page, script, upstream, relay):
    upstream.script = paced(WORDS)
    async with (
        cutting_proxy(relay.port, lambda: (10**9 if proxy.cuts else 2600, "rst")) as proxy,
        serve_chat(script, f"http://127.0.0.1:{proxy.port}") as url,
    ):
        await page.goto(url)
        await ask(page)
        await page.wait_for_selector(f".assistant:has-text('{WORDS[-1]}')")
        await page.wait_for_selector(READY)

        assert "error" not in await page.evaluate("statuses")
        assert ["hello", WHOLE] == await shown(page)
        assert proxy.cuts
        assert 1 == len(upstream.calls)


async def test_answer_whose_body_was_ended_early_is_taken_up(page, upstream, url):
    """As by a proxy with a time limit: nothing in the transfer says that the rest is missing."""
    upstream.script = paced(WORDS)
    ended = 0

    async def end_early(route: Route) -> None:
        nonlocal ended
        ended += 1
        response = await route.fetch()
        body = await response.body()
        await route.fulfill(response=response, body=body[: len(body) // 2])

    await page.route("**/v1/ui/chat", end_early)
    await page.goto(url)
    await ask(page)
    await page.wait_for_function(SHOWS, arg=WHOLE)
    await page.wait_for_selector(READY)

    assert ["hello", WHOLE] == await shown(page)
    assert (1, 1) == (ended, len(upstream.calls))


async def test_full_storage_leaves_the_page_and_its_answer(page, upstream, url):
    upstream.script = paced(WORDS)
    await page.goto(url)
    await page.wait_for_selector(READY)
    await page.evaluate(FILL)
    await ask(page)
    await page.wait_for_function(SHOWS, arg=WHOLE)
    await page.wait_for_selector(READY)

    assert ["hello", WHOLE] == await shown(page)

"""`useChat` of the AI SDK, versions 6 and 7, in a React page of another origin.

The page is the code block of docs/clients/ai-sdk.md as it stands, built here by esbuild.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from tests.cutting import cutting_proxy
from tests.needs import file, program
from tests.serving import serve_relay
from tests.test_docs import block
from tests.upstream import DONE, FINISH, Hold, Step, head, reply, send, serve_upstream, text, wait

pytestmark = pytest.mark.browser

EXPECTED_ERRORS = ("net::ERR_",)

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "node_modules"
VERSIONS = {6: ("ai-sdk-react6", "ai6"), 7: ("@ai-sdk/react", "ai")}
BASE = "http://localhost:8000"
WORDS = [f"{number} せせらぎ🌊 " for number in range(30)]
WHOLE = "".join(WORDS)
PACED: list[Step] = [
    head(),
    *(step for word in WORDS for step in (send(text(word)), wait(0.05))),
    send(FINISH + DONE),
]
READY = "main[data-status=ready]"
FAILED = "main[data-status=error]"
BEGUN = ".assistant:has-text('3 せせらぎ🌊 ')"
POLICY = "default-src 'none'; script-src 'self'; connect-src "
HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/page.js"></script>'
WATCH_PAINTS = """
  window.paints = [];
  const look = () => {
    const now = [...document.querySelectorAll('.assistant')].map((it) => it.textContent).join('|');
    if (now !== (paints.at(-1) ?? '')) paints.push(now);
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""


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
    command = [
        str(MODULES / ".bin" / "esbuild"),
        str(ROOT / "tests" / "clients" / "react" / "page.jsx"),
        "--bundle",
        "--format=esm",
        "--jsx=automatic",
        "--log-level=warning",
        f"--alias:snippet={snippet}",
        f"--alias:@ai-sdk/react={react}",
        f"--alias:ai={ai}",
        '--define:process.env.NODE_ENV="development"',  # in which React warns
    ]
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    assert "" == done.stderr
    assert 1 == done.stdout.count(BASE)
    return done.stdout


@contextlib.asynccontextmanager
async def serve_page(script: str, relay: str) -> AsyncIterator[str]:
    """Serve the page from an origin of its own, with a policy that lets it call the relay only."""
    files = {"/": ("text/html", HTML), "/page.js": ("text/javascript", script.replace(BASE, relay))}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition("?")[0]
        kind, body = files.get(path, ("text/plain", ""))
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}; charset=utf-8\r\nconnection: close\r\n"
        writer.write(f"{head}content-security-policy: {POLICY}{relay}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture
async def watched(page: Page) -> AsyncIterator[Page]:
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


@pytest.mark.parametrize("mode", ["", "?strict"])
async def test_answer_paints_as_it_comes(watched, script, mode):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = PACED
        async with serve_page(script, relay.url) as url:
            await page.goto(url + mode)
            await page.wait_for_selector(READY)
            await ask(page)
            await page.wait_for_selector("main[data-status=streaming]")
            await page.wait_for_selector(READY)

            assert ["hello", WHOLE] == await shown(page)
            paints = await page.evaluate("paints")
            assert len(paints) > 15
            assert all(WHOLE.startswith(paint) for paint in paints)


@pytest.mark.parametrize("mode", ["", "?strict"])
@pytest.mark.parametrize("keeps", [True, False], ids=["keeps", "forgets"])
async def test_page_that_is_loaded_again_goes_on_with_the_answer(watched, script, mode, keeps):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = PACED
        async with serve_page(script, relay.url) as url:
            await page.goto(url + mode)
            await ask(page)
            await page.wait_for_selector(BEGUN)
            before = (await answers(page))[0]
            if not keeps:
                await page.add_init_script("delete sessionStorage.messages")
            await page.reload()
            await page.wait_for_selector(".assistant")
            await page.wait_for_selector(READY)

            assert len(before) < len(WHOLE)
            assert [*(["hello"] if keeps else []), WHOLE] == await shown(page)
            paints = await page.evaluate("paints")
            assert len(paints) > 5
            assert all(WHOLE.startswith(paint) for paint in paints)
            await page.reload()  # the answer has ended, and is sent again
            await page.wait_for_selector(READY)
            await page.wait_for_timeout(300)

            assert [WHOLE] == await answers(page)
            assert 1 == len(upstream.calls)


async def test_second_turn_goes_on_after_the_first(watched, script):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("first") + FINISH + DONE)]
        async with serve_page(script, relay.url) as url:
            await page.goto(url)
            await ask(page, "one")
            await page.wait_for_selector(".assistant:has-text('first')")
            await page.wait_for_selector(READY)
            upstream.script = PACED
            await ask(page, "two")
            await page.wait_for_selector(BEGUN)
            await page.reload()
            await page.wait_for_selector(".assistant + .user + .assistant")
            await page.wait_for_selector(READY)

            assert ["one", "first", "two", WHOLE] == await shown(page)
            said = [message["content"] for message in upstream.calls[1].json["messages"]]
            assert ["one", "first", "two"] == said


async def test_stop_ends_the_answer_and_the_upstream(watched, script):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("half an ans")), Hold()]
        async with serve_page(script, relay.url) as url:
            await page.goto(url)
            await ask(page)
            await page.wait_for_selector(".assistant:has-text('half an ans')")
            await page.click("text=Stop")
            await page.wait_for_selector(READY)
            await asyncio.wait_for(upstream.calls[0].closed.wait(), 5)

            assert ["hello", "half an ans"] == await shown(page)


async def test_failure_within_the_answer_is_an_error_and_stays_one(watched, script):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("half an ans"))]
        async with serve_page(script, relay.url) as url:
            await page.goto(url)
            await ask(page)
            await page.wait_for_selector(FAILED)
            first = await page.text_content("[role=alert]")
            await page.reload()
            await page.wait_for_selector(FAILED)
            await page.wait_for_timeout(1500)

            assert 1 == await page.locator(FAILED).count()
            assert first
            assert first == await page.text_content("[role=alert]")
            assert ["hello", "half an ans"] == await shown(page)
            assert 1 == len(upstream.calls)


async def test_failure_before_the_answer_is_an_error(watched, script):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(), send(text("first") + FINISH + DONE)]
        async with serve_page(script, relay.url) as url:
            await page.goto(url)
            await ask(page, "one")
            await page.wait_for_selector(".assistant")
            await page.wait_for_selector(READY)
            upstream.script = reply("503 Busy", "{}")
            await ask(page, "two")
            await page.wait_for_selector(FAILED)

            assert await page.text_content("[role=alert]")
            assert ["one", "first", "two"] == await shown(page)
            await page.reload()
            await page.wait_for_selector(FAILED)

            assert ["one", "first", "two"] == [text for text in await shown(page) if text]
            upstream.script = [head(), send(text("third") + FINISH + DONE)]
            await ask(page, "three")
            await page.wait_for_selector(".assistant:has-text('third')")
            await page.wait_for_selector(READY)

            assert 3 == len(upstream.calls)


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_connection_that_broke_is_taken_up(watched, script, how):
    page = watched
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = PACED
        cuts = iter([2250, 3250])  # behind the head
        async with (
            cutting_proxy(relay.port, lambda: (next(cuts, 10**9), how)) as proxy,
            serve_page(script, f"http://127.0.0.1:{proxy.port}") as url,
        ):
            await page.goto(url)
            await ask(page)
            await page.wait_for_selector(FAILED)
            await page.wait_for_selector(f".assistant:has-text('{WORDS[-1]}')")
            await page.wait_for_selector(READY)

            assert ["hello", WHOLE] == await shown(page)
            assert 2 == proxy.cuts
            assert 1 == len(upstream.calls)


async def test_page_of_the_relay_works_under_its_own_policy(watched, script):
    page = watched
    async with serve_relay() as relay:
        policy = (await relay.client.get("/")).headers["content-security-policy"]

        async def serve(route: Any) -> None:
            name = route.request.url.removeprefix(relay.url)
            kind, body = (
                ("text/javascript", script.replace(BASE, ""))
                if name == "/page.js"
                else ("text/html", HTML)
            )
            headers = {"content-security-policy": policy}
            await route.fulfill(content_type=kind, body=body, headers=headers)

        await page.route(f"{relay.url}/page*", serve)
        await page.goto(f"{relay.url}/page")
        await ask(page)
        await page.wait_for_selector(".assistant")
        await page.wait_for_selector(READY)

        assert len((await answers(page))[0]) > 50

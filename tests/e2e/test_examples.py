"""The examples, run as their READMEs say: cut, loaded again, stopped, refused."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Error, Page

from app.identity.config import KeyConfig
from app.identity.keys import digest, make_key
from app.identity.keys_file import KeysFile, change_keys_file
from app.testing.upstream import Hold, Until, Upstream, head, reply, send, serve_upstream, text
from tests.e2e.engines import running
from tests.e2e.talk import rest
from tests.needs import file, program
from tests.ports import answers, free_port
from tests.serving import Relay, serve_relay
from tests.waiting import until

pytestmark = [pytest.mark.proving, pytest.mark.browser]

EXPECTED_ERRORS = ("net::ERR_",)

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MODULES = ROOT / "tests" / "examples" / "node_modules"
PLAIN = ("vanilla", "eventsource")
BUILT = ("react", "vue", "next")
APP_ROUTER = "app_router.config.js"
RELAY = "http://127.0.0.1:8000"
# Less than the 45 s of silence after which a client takes a connection for lost: it has to be told.
LONGEST_MS = 40_000

SAID = """() => Object.fromEntries(['user', 'assistant'].map(
  (role) => [role, [...document.querySelectorAll(`main .${role}`)].map((shown) => shown.textContent)]))"""
IS = "(words) => [...document.querySelectorAll('main .assistant')].at(-1)?.textContent === words"
IDLE = "() => !document.querySelector('form button:not([type=button])').disabled"
TOLD = "() => document.querySelector('[role=alert]')?.textContent.trim()"
# What is said of a lost connection may be gone again before it is looked at.
WATCH = """() => new MutationObserver(() => {
  window.lossWasTold ||= document.querySelector('[role=status]').textContent.includes('connection was lost');
}).observe(document.body, { subtree: true, childList: true, characterData: true })"""


class Scripted:
    """An answer of three words that waits, twice, until it is told to go on."""

    def __init__(self, upstream: Upstream) -> None:
        self.first, self.second = Until(), Until()
        upstream.reset(
            *(head(), send(text("one ")), self.first, send(text("two ")), self.second),
            *rest("three"),
        )


class Examples:
    """Serves examples."""

    def __init__(
        self,
        folder: Path,
        upstream: Upstream,
        relays: Mapping[str, Relay],
        key: str,
    ) -> None:
        self.folder = folder
        self.upstream = upstream
        self.key = key
        self._relays = relays

    def relay(self, name: str) -> Relay:
        """Return the relay of an example: that with the client secret has one that asks for them."""
        return self._relays["with keys" if name == "next" else "open"]

    @contextlib.asynccontextmanager
    async def serve(self, name: str) -> AsyncIterator[str]:
        """Serve an example, and yield its address."""
        port = free_port()
        words, environ = self._plain(name, port) if name in PLAIN else self._built(name, port)
        command = f'cd "$0" && exec {shlex.join(words)}'
        async with running(
            "sh", "-c", command, str(self.folder / name), environment=environ
        ) as process:
            await up(port, process)
            yield f"http://localhost:{port}"

    def _plain(self, name: str, port: int) -> tuple[list[str], dict[str, str]]:
        """Serve a page by the command of its README."""
        page = self.folder / name / "index.html"
        if not page.exists():
            shutil.copytree(EXAMPLES / name, page.parent)
            code = page.read_text(encoding="utf-8").replace(RELAY, self.relay(name).url)
            page.write_text(code, encoding="utf-8")
        said = re.search(
            r"^python3 (-m http.server) 8080 (.*?) #",
            (EXAMPLES / name / "README.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        assert said is not None
        return [sys.executable, *said[1].split(), str(port), *said[2].split()], {**os.environ}

    def _built(self, name: str, port: int) -> tuple[list[str], dict[str, str]]:
        """Serve a page by the script `dev` of its package.json."""
        program("node")
        install(self.folder)
        if not (self.folder / name).exists():
            shutil.copytree(EXAMPLES / name, self.folder / name, ignore=unwritten)
        if name == "next":
            shutil.copy(MODULES.parent / APP_ROUTER, self.folder / name)
        url = self.relay(name).url
        environ = {
            **os.environ,
            "PATH": f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}",
            "RELAY_URL": url,
            "RELAY_KEY": self.key,
        }
        script = f"vite --config {APP_ROUTER}"
        if name != "next":
            package = json.loads((EXAMPLES / name / "package.json").read_text())
            script = package["scripts"]["dev"]
        return [*shlex.split(script), "--port", str(port)], environ


def install(folder: Path) -> None:
    """Put the package, from its tarball, and what the examples have beside it where they find it."""
    how = "run npm ci --ignore-scripts --prefix tests/examples"
    modules = file(MODULES / "vite", how=how).parent
    links = folder / "node_modules"
    if links.exists():
        return
    links.mkdir()
    pack = (program("npm"), "pack", "--silent", "--pack-destination", folder, ROOT / "static")
    name = subprocess.run(pack, check=True, capture_output=True, text=True).stdout.split()[-1]
    with tarfile.open(folder / name) as tarball:
        tarball.extractall(folder, filter="data")
    (folder / "package").rename(links / "seseragi")
    for module in modules.iterdir():
        (links / module.name).symlink_to(module)


def unwritten(_: str, names: list[str]) -> set[str]:
    """Leave out what is no part of an example, where somebody has run it in place."""
    return {"node_modules", ".next", "dist", "package-lock.json"} & {*names}


async def up(port: int, process: asyncio.subprocess.Process) -> None:
    async def is_up() -> bool:
        assert process.returncode is None, (await process.stderr.read()).decode()  # type: ignore[union-attr]
        return await answers(port, "localhost")

    await until(is_up, limit_s=60)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def examples(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Examples]:
    folder = tmp_path_factory.mktemp("examples")
    key, keys = make_key(), folder / "keys.json"
    row = KeyConfig(name="my-next-app", sha256=digest(key), roles=("client_secrets",))
    change_keys_file(keys, lambda file: KeysFile(signing_key="s" * 43, keys=(row,)))
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, retry_ms=500) as relay,
        serve_relay(upstream, retry_ms=500, keys_file=keys) as with_keys,
    ):
        yield Examples(folder, upstream, {"open": relay, "with keys": with_keys}, key)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=[*PLAIN, *BUILT])
async def site(
    request: pytest.FixtureRequest, examples: Examples
) -> AsyncIterator[tuple[str, str]]:
    """The name of an example, and its address."""
    async with examples.serve(request.param) as url:
        yield request.param, url


def cut(relay: Relay) -> None:
    """Break all connections of the relay by RST."""
    for connection in [*relay.server.server_state.connections]:
        connection.transport.abort()


async def wait_for(page: Page, condition: str, about: str | None = None) -> None:
    try:
        await page.wait_for_function(condition, arg=about, timeout=LONGEST_MS)
    except Error as late:
        said = await page.inner_text("body")
        raise AssertionError(f"in vain: {condition} {about!r}; the page says: {said}") from late


async def ask(page: Page, prompt: str) -> None:
    await wait_for(page, IDLE)
    await page.fill("[name=prompt]", prompt)
    await page.click("form button:not([type=button])")


async def test_example_outlives_cuts_and_reloads_stops_and_tells_errors(examples, page, site):
    name, url = site
    upstream, relay = examples.upstream, examples.relay(name)
    sent: list[dict[str, str]] = []
    page.on("request", lambda request: sent.append(request.headers))
    answer = Scripted(upstream)
    await page.goto(url, timeout=LONGEST_MS)
    await ask(page, "count")
    await wait_for(page, IS, "one ")
    await page.evaluate(WATCH)
    cut(relay)
    await wait_for(page, "() => window.lossWasTold")
    answer.first.told.set()
    await wait_for(page, IS, "one two ")
    await page.reload()
    await wait_for(page, IS, "one two ")
    answer.second.told.set()
    await wait_for(page, IS, "one two three")
    await wait_for(page, IDLE)

    assert {"user": ["count"], "assistant": ["one two three"]} == await page.evaluate(SAID)
    assert 1 == len(upstream.calls)

    upstream.reset(head(), send(text("half")), Hold())
    await ask(page, "stop")
    await wait_for(page, IS, "half")
    await page.click("form [type=button]")
    await wait_for(page, IDLE)
    async with asyncio.timeout(20):
        await upstream.calls[0].closed.wait()

    said = await page.evaluate(SAID)
    assert (["count", "stop"], "half") == (said["user"], said["assistant"][-1])

    upstream.reset(*reply("400 Bad Request", '{"error": {"message": "no"}}'))
    await ask(page, "fail")
    await wait_for(page, TOLD)
    await wait_for(page, IDLE)

    assert 1 == len(upstream.calls)
    assert examples.key not in str(sent)
    shown = {value for headers in sent if (value := headers.get("authorization"))}
    assert ({value[:10] for value in shown} == {"Bearer ek_"}) if name == "next" else not shown

"""Firefox and WebKit, driven by the standards: WebDriver BiDi and WebDriver.

Only what the page's tests need: open a page, run a script in it, see what went wrong.
"""

import asyncio
import contextlib
import json
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import aiohttp

from tests.needs import program
from tests.ports import free_port
from tests.waiting import until

START_S = 60


class Engine(Protocol):
    """A browser with one page."""

    async def open(self, url: str) -> None:
        """Load a page; returns when it has loaded."""

    async def run(self, code: str) -> Any:
        """Run the body of an asynchronous function in the page, and return its result."""


class Bidi:
    """WebDriver BiDi (W3C), over its one socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._count = 0
        self._context = ""

    async def ask(self, method: str, **params: Any) -> Any:
        self._count += 1
        await self._socket.send_json({"id": self._count, "method": method, "params": params})
        while True:
            reply = json.loads(await self._socket.receive_str(timeout=START_S))
            if reply.get("id") == self._count:
                assert reply["type"] == "success", reply
                return reply["result"]

    async def start(self) -> None:
        await self.ask("session.new", capabilities={})
        tree = await self.ask("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]

    async def open(self, url: str) -> None:
        await self.ask("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def run(self, code: str) -> Any:
        reply = await self.ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await (async () => {{ {code} }})() ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
        )
        assert reply["type"] == "success", reply
        return json.loads(reply["result"]["value"])


class Classic:
    """WebDriver (W3C), over HTTP."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self._client = client
        self._url = url

    async def ask(self, path: str, **body: Any) -> Any:
        async with self._client.post(f"{self._url}{path}", json=body) as reply:
            found = await reply.json(content_type=None)
        assert reply.status == 200, found
        return found["value"]

    async def start(self, capabilities: dict[str, Any]) -> None:
        session = await self.ask("/session", capabilities={"alwaysMatch": capabilities})
        self._url += f"/session/{session['sessionId']}"

    async def open(self, url: str) -> None:
        await self.ask("/url", url=url)

    async def run(self, code: str) -> Any:
        wrapped = (
            f"const done = arguments[0]; (async () => {{ {code} }})()"
            ".then((value) => done({value: value ?? null}), (error) => done({error: `${error}`}));"
        )
        found = await self.ask("/execute/async", script=wrapped, args=[])
        assert "error" not in found, found
        return found["value"]


@contextlib.asynccontextmanager
async def firefox() -> AsyncIterator[Engine]:
    """Start Firefox, found by `$FIREFOX` or on the path."""
    executable = program("firefox-esr", "firefox", variable="FIREFOX")
    with tempfile.TemporaryDirectory() as profile:
        words = ["--headless", "--no-remote", "--remote-debugging-port", "0", "--profile", profile]
        environment = {**os.environ, "HOME": profile, "MOZ_HEADLESS": "1"}
        async with (
            running(executable, *words, environment=environment) as process,
            aiohttp.ClientSession() as client,
        ):
            assert process.stderr is not None
            url = ""
            async with asyncio.timeout(START_S):
                while not (found := re.search(r"BiDi listening on (ws://\S+)", url)):
                    url = (await process.stderr.readline()).decode()
                    assert url, "Firefox ended"
            with unread(process):
                async with client.ws_connect(f"{found[1]}/session", max_msg_size=0) as socket:
                    engine = Bidi(socket)
                    await engine.start()
                    yield engine


@contextlib.asynccontextmanager
async def webkit() -> AsyncIterator[Engine]:
    """Start WebKit's own small browser on a virtual screen."""
    driver = program("WebKitWebDriver")
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        environment = {
            **os.environ,
            "DISPLAY": await stack.enter_async_context(screen()),
            "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1",
        }
        words = [f"--port={port}", "--host=127.0.0.1"]
        process = await stack.enter_async_context(running(driver, *words, environment=environment))
        stack.enter_context(unread(process))
        client = await stack.enter_async_context(aiohttp.ClientSession())
        engine = Classic(client, f"http://127.0.0.1:{port}")

        async def starts() -> bool:
            with contextlib.suppress(aiohttp.ClientConnectionError):
                await engine.start({"browserName": "MiniBrowser"})
                return True
            return False

        await until(starts, limit_s=START_S)
        yield engine


@contextlib.asynccontextmanager
async def screen() -> AsyncIterator[str]:
    """Run a virtual screen, and yield its name, which it chooses itself and says once it is up.

    `xvfb-run` is told by a signal, and waits for ever if that comes before it waits.
    """
    words = ["-displayfd", "2", "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-ac"]
    async with running(program("Xvfb"), *words, environment={**os.environ}) as process:
        assert process.stderr is not None
        line = ""
        async with asyncio.timeout(START_S):
            while not re.fullmatch(r"\d+\n", line):
                line = (await process.stderr.readline()).decode()
                assert line, "Xvfb ended"
        with unread(process):
            yield f":{line.strip()}"


@contextlib.contextmanager
def unread(process: asyncio.subprocess.Process) -> Iterator[None]:
    """Let a program write on what nobody reads any more."""
    assert process.stderr is not None
    drain = asyncio.create_task(process.stderr.read())
    try:
        yield
    finally:
        drain.cancel()


@contextlib.asynccontextmanager
async def running(
    *words: str, environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program and all that it starts, until the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *words,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # what it has left behind writes to its folder yet


ENGINES = {"firefox": firefox, "webkit": webkit}

"""Pages with React, built by esbuild and served from an origin of their own."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from tests.needs import file, program

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "node_modules"
HTML = '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/page.js"></script>'


def build(page: str, aliases: Mapping[str, Path | str]) -> str:
    """Return one script of a page of tests/clients/react; esbuild may complain of nothing."""
    command = [
        str(MODULES / ".bin" / "esbuild"),
        str(ROOT / "tests" / "clients" / "react" / page),
        "--bundle",
        "--format=esm",
        "--jsx=automatic",
        "--log-level=warning",
        *(f"--alias:{name}={path}" for name, path in aliases.items()),
        '--define:process.env.NODE_ENV="development"',  # in which React warns
    ]
    environ = {**os.environ, "NODE_PATH": str(MODULES)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True, text=True)
    assert "" == done.stderr
    return done.stdout


def build_with_package(page: str) -> str:
    """Return the script of a page that uses the package with each of its adapters."""
    program("node")
    for needed in ("react-dom", "@ai-sdk/react", "@ag-ui/client", "esbuild"):
        file(MODULES / needed / "package.json", how="run npm ci")
    entries = ("ag-ui", "ai-sdk", "parts", "react")
    return build(page, {f"seseragi/{name}": ROOT / "static" / f"{name}.js" for name in entries})


@contextlib.asynccontextmanager
async def serve_page(script: str = "", *, policy: str = "", html: str = HTML) -> AsyncIterator[str]:
    """Serve a page that has the script, or is the `html`, with a content security policy if one is given."""
    files = {"/": ("text/html", html), "/page.js": ("text/javascript", script)}
    more = f"content-security-policy: {policy}\r\n" if policy else ""
    serving: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            serving.add(task)
            task.add_done_callback(serving.discard)
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().partition("?")[0]
            kind, body = files.get(path, ("text/plain", ""))
            head = (
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}; charset=utf-8\r\nconnection: close\r\n"
            )
            writer.write(f"{head}{more}\r\n{body}".encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # it came to nothing
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        left = [*serving]  # browsers open connections that they may come to need
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

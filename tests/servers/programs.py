"""ASGI servers that run the relay, each as its users start it."""

import asyncio
import contextlib
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import trustme

from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
APP = "app.main:app"


@dataclass(frozen=True)
class Program:
    arguments: tuple[str, ...]
    """Of `python -m`, with the port as {port}, and the files of a certificate as {cert}, {key}."""
    http2: bool = False
    drains: bool = True
    """Whether it tells the app that it is about to stop."""
    waits: bool = False
    """Whether it lets every stream run to its end before it stops."""


WAITS = sys.version_info >= (3, 12)
"""Where asyncio's `Server.wait_closed`, which hypercorn calls first, waits for connections too."""


HYPERCORN = (
    "hypercorn",
    APP,
    "--bind",
    "127.0.0.1:{port}",
    "--graceful-timeout",
    "1",
    "--keep-alive",
    "60",
)
UVICORN = ("uvicorn", APP, "--port", "{port}", "--http")
SERVERS: Mapping[str, Program] = {
    "command": Program(("app", "--port", "{port}")),
    "uvicorn": Program((*UVICORN, "httptools")),
    "uvicorn h11": Program((*UVICORN, "h11")),
    "hypercorn": Program(HYPERCORN, drains=False, waits=WAITS),
    "hypercorn HTTP/2": Program(
        (*HYPERCORN, "--certfile", "{cert}", "--keyfile", "{key}"),
        http2=True,
        drains=False,
        waits=WAITS,
    ),
    "granian": Program(
        ("granian", "--interface", "asgi", APP, "--port", "{port}", "--workers-kill-timeout", "2"),
        drains=False,
    ),
}


@dataclass
class Served:
    process: asyncio.subprocess.Process
    client: httpx2.AsyncClient
    connect: Callable[[], httpx2.AsyncClient]
    """Of HTTP/2 a client that leaves has to close its connection: it resets no stream."""
    port: int

    async def stop(self) -> bytes:
        """Do what an init system does; give what the server has printed."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            out, _ = await self.process.communicate()
        return out


@contextlib.asynccontextmanager
async def serve(name: str, folder: Path, *more: str, **settings: object) -> AsyncIterator[Served]:
    """Run a server of `SERVERS` on a free port, with more arguments; settings are the relay's."""
    program = SERVERS[name]
    port = free_port()
    variables = {f"SESERAGI_{key.upper()}": str(value) for key, value in settings.items()}
    upstream = variables.pop("SESERAGI_UPSTREAM", None)
    if upstream is not None:
        variables |= {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": upstream}
        variables.setdefault("SESERAGI_AUTH", "none")
    kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    names = {"port": str(port)}
    context: ssl.SSLContext | bool = False
    if program.http2:
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        names |= {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
        certificate.cert_chain_pems[0].write_to_path(names["cert"])
        certificate.private_key_pem.write_to_path(names["key"])
        context = ssl.create_default_context()
        authority.configure_trust(context)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *(part.format(**names) for part in (*program.arguments, *more))),
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "SESERAGI_LOG_FORMAT": "json", **variables},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # granian has processes of its own
    )
    scheme = "https" if program.http2 else "http"
    connect = partial(
        httpx2.AsyncClient,
        base_url=f"{scheme}://localhost:{port}",
        http2=program.http2,
        verify=context,
        timeout=20,
        trust_env=False,
    )
    try:
        async with connect() as client:
            await _await_answer(client, process)
            yield Served(process, client, connect, port)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()


async def _await_answer(client: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> None:
    async def answers() -> bool:
        with contextlib.suppress(httpx2.TransportError):
            await client.get("/healthz")
            return True
        assert process.returncode is None, (await process.communicate())[0].decode()
        return False

    await until(answers, limit_s=60)

"""Replicas as processes, and clients that go from one to another when they are cut."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from app.eventlog import STRIDE
from app.framing.sse import Decoder, Message
from app.testing.upstream import Step, Upstream, head, send, text, wait
from tests.commands.test_command import environment
from tests.serving import HELLO
from tests.waiting import until

T = TypeVar("T")

QUIET_S = 1.0
"""Without an event for so long, as when all relays are away, clients have nothing to wait for."""

_DRIP: tuple[Step, ...] = (send(text("a ")), wait(0.02))
DRIPPING: list[Step] = [head(), *_DRIP * 6000]
"""An answer of two minutes, which no test outlives."""


class Progress:
    """What clients have been given so far, by which a test times what it does to relays."""

    def __init__(self) -> None:
        self.count = 0

    async def more(self, count: int) -> None:
        """Wait until so much more has come, or nothing comes any more."""
        wanted, seen, since = self.count + count, self.count, time.monotonic()
        while self.count < wanted and time.monotonic() < since + QUIET_S:
            if self.count > seen:
                seen, since = self.count, time.monotonic()
            await asyncio.sleep(0.01)


class Replica:
    """A relay in a process of its own."""

    def __init__(self, folder: Path, log: str, **settings: object) -> None:
        self.url = self.operator_url = ""
        self._command = [sys.executable, "-m", "app", "--port", "0"]
        self._folder = folder
        self._log = log
        script = settings.pop("script", None)
        self._variables = {
            f"SESERAGI_{name.upper()}": str(value) for name, value in settings.items()
        }
        if isinstance(script, Upstream):
            self._variables |= {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": script.base_url}
            self._variables.setdefault("SESERAGI_AUTH", "none")
        self._process: asyncio.subprocess.Process | None = None
        self._lines: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self.said: list[str] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def listens(self) -> bool:
        return self._listening.is_set()

    async def start(self, *, within_s: float = 60) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(*self._command, "--log", self._log),
            cwd=self._folder,
            env=environment(SESERAGI_LOG_FORMAT="json", **self._variables),
            stderr=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        self._listening = listening = asyncio.Event()
        self._lines = asyncio.create_task(self._read(self._process, listening))
        await asyncio.wait_for(listening.wait(), within_s)

    async def _read(self, process: asyncio.subprocess.Process, listening: asyncio.Event) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.said.append(line.decode())
            with contextlib.suppress(ValueError, TypeError, KeyError):
                said = json.loads(line)
                if said["event"] == "listening":
                    self.url, self.operator_url = said["url"], said.get("operator_url", "")
                    listening.set()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def stopped(self, within_s: float = 60) -> int:
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), within_s)

    async def kill(self) -> None:
        if self.runs:
            self.signal(signal.SIGKILL)
            await self.stopped()
        if self._lines is not None:
            await self._lines


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Do something to its end, though the task that does it is cancelled meanwhile.

    A server that is just being started, or killed, would be taken for one that is there.
    """
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await doing
        raise


def children(pid: int) -> list[int]:
    """Return the children of a process, as all its threads have them; none if it has ended."""
    found: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += map(int, (thread / "children").read_text().split())
    return sorted(found)


def holds_connection(pid: int, port: int) -> bool:
    """Return whether a process has an established connection to a port of this machine."""
    inodes = set()
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[2].endswith(f":{port:04X}") and fields[3] == "01":
                inodes.add(f"socket:[{fields[9]}]")
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    return bool(inodes & set(links))


@asynccontextmanager
async def running(
    count: int, folder: Path, log: str, **settings: object
) -> AsyncIterator[list[Replica]]:
    """Run so many replicas over one log; the setting `script` is their upstream."""
    async with running_over([log] * count, folder, **settings) as replicas:
        yield replicas


@asynccontextmanager
async def running_over(
    logs: Sequence[str], folder: Path, **settings: object
) -> AsyncIterator[list[Replica]]:
    """Run a replica for each of these ways to their log."""
    replicas = [Replica(folder, log, **settings) for log in logs]
    try:
        await asyncio.gather(*(replica.start() for replica in replicas))
        yield replicas
    finally:
        await asyncio.gather(*(replica.kill() for replica in replicas))
    for replica in replicas:
        assert not [line for line in replica.said if "Traceback" in line], replica.said


async def ask(client: httpx2.AsyncClient, method: str, url: str, **more: Any) -> httpx2.Response:
    """Ask a relay, and again while it says that its log is away, as a Redis is that is too busy."""
    async with asyncio.timeout(20):
        while True:
            reply = await client.request(method, url, **more)
            if reply.status_code != 503:
                return reply
            await asyncio.sleep(0.1)


async def start(
    client: httpx2.AsyncClient, replica: Replica, model: str = "demo-long", **fields: object
) -> str:
    """Start a stream that nobody reads yet."""
    reply = await ask(
        client,
        "POST",
        f"{replica.url}/v1/chat",
        json={**HELLO, "model": model, "on_disconnect": "continue", **fields},
        headers={"prefer": "respond-async", "connection": "close"},  # any worker
    )
    assert reply.status_code == 202, reply.text
    stream: str = reply.json()["id"]
    return stream


class Reader:
    """A client of one stream, which holds that it sees every event once and in order."""

    def __init__(
        self, client: httpx2.AsyncClient, stream: str, progress: Progress | None = None
    ) -> None:
        self.stream = stream
        self._progress = progress or Progress()
        self.seen: list[Message] = []
        self.statuses: list[int] = []
        self._client = client
        self._gap = 0

    @property
    def ended(self) -> bool:
        return bool(self.seen) and self.seen[-1].event == "stream.end"

    @property
    def end(self) -> dict:
        assert self.ended
        end: dict = json.loads(self.seen[-1].data)
        return end

    async def read(self, replica: Replica, *, most: int | None = None) -> None:
        """Read on at a replica: to the end, to a cut, or until so many more have come."""
        headers = {"last-event-id": self.seen[-1].id} if self.seen else {}
        url = f"{replica.url}/v1/streams/{self.stream}/events"
        decoder, before = Decoder(), len(self.seen)
        with contextlib.suppress(httpx2.TransportError):
            async with self._client.stream("GET", url, headers=headers) as reply:
                self.statuses.append(reply.status_code)
                if reply.status_code != 200:
                    return
                async for chunk in reply.aiter_bytes():
                    for message in decoder.feed(chunk):
                        self._take(message)
                    if most is not None and len(self.seen) >= before + most:
                        return

    async def read_all(self, replicas: Sequence[Replica], *, pause_s: float = 0.1) -> None:
        """Read to the end, at the next replica when one cuts it off."""
        turn = 0
        while not self.ended:
            await self.read(replicas[turn % len(replicas)])
            turn += 1
            if not self.ended:
                await asyncio.sleep(pause_s)

    def _take(self, message: Message) -> None:
        assert not self.ended, f"{message.id} came after the end"
        count = len(self.seen) + 1
        if not self._gap and message.id != f"{self.stream}.{count}":
            self._gap = count * STRIDE  # it was ended for a lost producer
        assert message.id == f"{self.stream}.{self._gap + count}", (message.id, count)
        self.seen.append(message)
        self._progress.count += 1

    async def has_seen(self, count: int) -> None:
        """Wait until it has seen so many events."""
        await until(lambda: len(self.seen) >= count)


@asynccontextmanager
async def browser() -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(timeout=20, trust_env=False, limits=limits) as client:
        yield client

"""curl as the client, and an upstream whose tokens say when they were written."""

import asyncio
import contextlib
import json
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, overload

from app.framing.sse import Decoder, Message
from app.testing.upstream import DONE, FINISH, Step, head, send, text, wait
from tests.needs import program
from tests.serving import HELLO

TOKENS = 20
GAP_S = 0.03
LATE_S = 0.1


class Timed(Sequence[Step]):
    """A script whose tokens are the time of their writing: made when they are taken."""

    def __len__(self) -> int:
        return 2 + 2 * TOKENS

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        assert isinstance(index, int)
        if index == 0:
            return head()
        if index == len(self) - 1:
            return send(FINISH + DONE)
        if index >= len(self):
            raise IndexError
        return wait(GAP_S) if index % 2 else send(text(f"{time.monotonic()} "))


class Curl:
    """A running curl, read message by message."""

    def __init__(self, process: Process, head: Path) -> None:
        self.process = process
        self._head = head

    @property
    def head(self) -> str:
        """The head of the answer."""
        return self._head.read_text().lower()

    async def messages(self) -> AsyncIterator[Message]:
        decoder = Decoder()
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            for message in decoder.feed(data):
                yield message

    async def first(self, event: str) -> Message:
        """Read up to the first message of that event."""
        async for message in self.messages():
            if message.event == event:
                return message
        raise AssertionError(f"no {event}")


@contextlib.asynccontextmanager
async def curl(folder: Path, url: str, *options: str) -> AsyncIterator[Curl]:
    """Run curl; it is killed when left."""
    head = folder / f"head-{time.monotonic_ns()}"
    process = await asyncio.create_subprocess_exec(
        program("curl"),
        *("-sN", "--max-time", "60", "-D", str(head)),
        *options,
        url,
        stdout=PIPE,
    )
    try:
        yield Curl(process, head)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def post(**fields: Any) -> tuple[str, ...]:
    """The options of curl for a chat request."""
    return ("--json", json.dumps({**HELLO, **fields}))


async def delays(folder: Path, url: str, *options: str) -> tuple[list[float], str]:
    """Read an answer of `Timed` tokens; give the seconds from writing to reading of each.

    A busy machine may delay a run, a proxy that holds tokens back delays all: of ten runs
    the first without a delay over `LATE_S` is given, else the last. With it comes the head.
    """
    for _ in range(10):
        taken = []
        async with curl(folder, f"{url}/v1/chat", *options, *post()) as reply:
            async for message in reply.messages():
                if message.event == "text.delta":
                    taken.append(time.monotonic() - float(json.loads(message.data)["text"]))
        if max(taken) < LATE_S:
            break
    return taken, reply.head

"""httpx2 transport that replays cassettes without sockets, like the demo's."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from .folder import Folder
from .player import Read, Stall, Step, check_places, decode_options, play


class CassetteTransport(httpx2.AsyncBaseTransport):
    """Answers every call, whose body is a `CassetteOptions`, with the events of its cassette."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the replay.

        Raises:
            RelayError: the cassette does not exist, or is broken.
        """
        options = decode_options(await request.aread())
        cassette = await asyncio.to_thread(self._folder.load, options.name)
        check_places(cassette, options)
        headers = {"content-type": "application/x-ndjson"}
        return httpx2.Response(200, headers=headers, stream=_Replay(play(cassette, options)))


class _Replay(httpx2.AsyncByteStream):
    """Replay steps as the bytes of a response, generated as they are read."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self._steps = steps
        self._closed = asyncio.Event()
        self._due = 0.0
        """The time of the next step; absolute, so that delays do not add up."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._due = asyncio.get_running_loop().time()
        for step in self._steps:
            match step:
                case Read(wait_s, data):
                    await self._pause(wait_s)
                    if self._closed.is_set():
                        return
                    yield data
                case Stall(seconds):
                    await self._pause(seconds)
                case "cut":
                    raise httpx2.ReadError("connection reset by the cassette, as cut_at asks")

    async def aclose(self) -> None:
        self._closed.set()

    async def _pause(self, seconds: float | None) -> None:
        """Sleep until the delay ends or the stream is closed; None: until it is closed."""
        self._due += seconds or 0.0
        left_s = None if seconds is None else self._due - asyncio.get_running_loop().time()
        if left_s is not None and left_s <= 0:
            await asyncio.sleep(0)  # yield to other tasks in a replay without delays
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._closed.wait()

"""The demo upstream as an httpx2 transport: mount it, and no socket is opened.

client = httpx2.AsyncClient(mounts={"all://demo": DemoTransport()})
client.stream("POST", "http://demo/v1/chat/completions", json={...})
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Self

import httpx2

from .answers import answer
from .renderer import Step, drops, render_models, render_stream
from .request import ApiError, parse_request

_JSON = {"content-type": "application/json"}
_EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}

Pause = Callable[[float, asyncio.Event], Awaitable[None]]
"""Waits for so many seconds, or until the event is set."""


async def _pause(seconds: float, closed: asyncio.Event) -> None:
    if not seconds:
        await asyncio.sleep(0)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await closed.wait()


class DemoTransport(httpx2.AsyncBaseTransport):
    """Streams chat completions, and answers the list of models, on any host.

    `pace` is the time of one token in seconds; the pauses of all models scale with it,
    and with 0 there are none. A test passes `pause` to wait by a clock of its own.
    """

    def __init__(self, *, pace: float = 0.025, pause: Pause = _pause) -> None:
        self._pace = pace
        self._pause = pause

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        try:
            return self._answer(request.method, request.url.path, body)
        except ApiError as error:
            headers = {**_JSON, "retry-after": "2"} if error.status == 503 else _JSON
            return self._respond(error.status, headers, [Step(0, error.body)])

    def _answer(self, method: str, path: str, body: bytes) -> httpx2.Response:
        match method, path:
            case "GET", "/v1/models":
                return self._respond(200, _JSON, [Step(0, render_models())])
            case "POST", "/v1/chat/completions":
                return self._complete(body)
            case _, "/v1/models" | "/v1/chat/completions":
                raise ApiError(405, f"Not allowed to {method} on {path}")
            case _:
                raise ApiError(404, f"Invalid URL ({method} {path})")

    def _complete(self, body: bytes) -> httpx2.Response:
        request = parse_request(body)
        events = render_stream(request, answer(request))
        return self._respond(200, _EVENT_STREAM, events, drops=drops(request))

    def _respond(
        self, status: int, headers: dict[str, str], steps: Iterable[Step], *, drops: bool = False
    ) -> httpx2.Response:
        # Never `content=`: httpx2 counts such a body as read, and `aiter_raw` then raises.
        stream = _DemoStream(steps, pace=self._pace, pause=self._pause, drops=drops)
        return httpx2.Response(status, headers=headers, stream=stream)


class _DemoStream(httpx2.AsyncByteStream):
    """The bytes of a response, each step made as it is read.

    It is an iterator, not a generator: the event loop would have to close one left half read.
    """

    def __init__(self, steps: Iterable[Step], *, pace: float, pause: Pause, drops: bool) -> None:
        self._steps = iter(steps)
        self._pace = pace
        self._wait = pause
        self._drops = drops
        self._closed = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        step = next(self._steps, None)
        if step is None:
            if self._drops:
                raise httpx2.ReadError("connection reset by the demo")
            raise StopAsyncIteration
        if step.pause:
            await self._wait(step.pause * self._pace, self._closed)
        if self._closed.is_set():
            raise StopAsyncIteration
        return step.data

    async def aclose(self) -> None:
        self._closed.set()

"""Requests in which something happens at a chosen await, in whichever of their tasks that is."""

import asyncio
import contextlib
import contextvars
import json
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator
from typing import Any

from starlette.types import ASGIApp, Message, Scope

_RUNNING: contextvars.ContextVar["Awaits"] = contextvars.ContextVar("awaits")


class Awaits:
    """The awaits of a request, in all tasks that it starts; `act` is called at these."""

    def __init__(self, at: Collection[int], act: Callable[[], object]) -> None:
        self.count = 0
        self._at = at
        self._act = act
        self._outside = contextvars.copy_context()

    @property
    def acted(self) -> bool:
        return self.count >= min(self._at)

    def suspended(self) -> None:
        self.count += 1
        if self.count in self._at:
            self._outside.run(self._act)

    def drive(self, work: Coroutine[Any, Any, Any]) -> "_Driven":
        return _Driven(work, self)


class _Driven(Coroutine[Any, Any, Any]):
    """A coroutine whose awaits are counted."""

    def __init__(self, work: Coroutine[Any, Any, Any], awaits: Awaits) -> None:
        self._work = work
        self._awaits = awaits

    def send(self, value: Any) -> Any:
        return self._suspended(self._work.send(value))

    def throw(self, *error: Any) -> Any:
        return self._suspended(self._work.throw(*error))

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def _suspended(self, waits_for: Any) -> Any:
        self._awaits.suspended()
        return waits_for


def _start(loop: asyncio.AbstractEventLoop, work: Any, **how: Any) -> "asyncio.Task[Any]":
    awaits = _RUNNING.get(None)
    return asyncio.Task(work if awaits is None else awaits.drive(work), loop=loop, **how)


@contextlib.contextmanager
def counting() -> Iterator[None]:
    """Let the running loop's tasks be counted for the request that starts them."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(_start)
    try:
        yield
    finally:
        loop.set_task_factory(before)


class Request:
    """A request to an ASGI app, whose client can leave."""

    def __init__(self, app: ASGIApp, path: str, body: bytes, content_type: str) -> None:
        self._app = app
        self._path = path
        self._body = body
        self._content_type = content_type
        self._unread = [body]
        self._left = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.sent: list[Message] = []
        self.error: BaseException | None = None

    @classmethod
    def of(cls, app: ASGIApp, path: str, body: dict[str, Any]) -> "Request":
        return cls(app, path, json.dumps(body).encode(), "application/json")

    def leave(self) -> None:
        """Disconnect as a client does."""
        self._left.set()

    def cancel(self) -> None:
        """Cancel the task of the request, as a server does."""
        assert self._task is not None
        self._task.cancel()

    async def run(self, at: Collection[int], act: Callable[[], object]) -> bool:
        """Make the request, and act at these awaits; return whether there was the first one."""
        awaits = Awaits(at, act)
        context = contextvars.copy_context()
        context.run(_RUNNING.set, awaits)
        self._task = asyncio.Task(awaits.drive(self._call()), context=context)
        await asyncio.wait({self._task})
        if self._task.cancelled():
            self.error = asyncio.CancelledError()
        else:
            self.error = self._task.exception()
        return awaits.acted

    @property
    def answered(self) -> bool:
        """Whether the answer is complete."""
        return bool(self.sent) and not self.sent[-1].get("more_body", False)

    async def _call(self) -> None:
        await self._app(self._scope(), self._receive, self._send)

    def _scope(self) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (b"host", b"localhost"),
                (b"content-type", self._content_type.encode()),
                (b"content-length", str(len(self._body)).encode()),
            ],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 80),
        }

    async def _receive(self) -> Message:
        if self._unread and not self._left.is_set():
            return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await asyncio.sleep(0)
        if not self._left.is_set():
            self.sent.append(message)

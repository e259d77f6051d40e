"""The one response that streams: a cursor over the log, rendered frame by frame."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import structlog
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from app.api.wire import Wire
from app.dialects.native import Renderer
from app.errors import RelayError
from app.events import StreamEnd
from app.hub import Reader

HEARTBEAT = b": hb\n"
"""One comment line and no blank line after it: at a blank line, clients that have seen an
id would dispatch an empty event, and official SDKs fail on it."""

BATCH = 256
"""How many events are sent at once when a reader catches up."""

ABORT = "seseragi.abort"
"""The ASGI extension by which `app.server` lets a response cut its connection."""

log = structlog.get_logger("seseragi.api")


class EventStream(EventSourceResponse):
    """Sends a stream's events after the cursor, live, and ends after its `stream.end`.

    The reader leaves when the response is over, however that came about. A client that
    accepts nothing for `send_timeout_s`, or whose stream is removed under it, is cut off
    rather than ended cleanly: a clean end would look like a complete answer.
    """

    def __init__(
        self, reader: Reader, *, after: int, wire: Wire, headers: Mapping[str, str] | None = None
    ) -> None:
        self._reader = reader
        self._after = after
        self._wire = wire
        path = f"/v1/streams/{reader.stream}/events"
        super().__init__(
            self._frames(),
            headers={
                "cache-control": "no-store, no-transform",
                "content-location": path,
                "stream-id": reader.stream,
                **(headers or {}),
            },
            ping=0,  # the heartbeat is ours
            sep="\n",
            send_timeout=wire.send_timeout_s,
            # Streams are ended by the hub before the server stops; this is the backstop.
            shutdown_grace_period=1,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            log.info("slow reader dropped", stream=self._reader.stream)
            await _abort(scope)
        except RelayError as error:
            log.info("reader dropped", stream=self._reader.stream, code=error.code)
            await _abort(scope)
        finally:
            self._reader.leave()

    async def _frames(self) -> AsyncIterator[bytes]:
        renderer = Renderer(self._reader.stream, after=self._after, retry_ms=self._wire.retry_ms)
        after = self._after
        while True:
            events = await self._reader.read(after, timeout_s=self._wire.heartbeat_s)
            if not events:
                if (await self._reader.state()).ended:
                    return
                yield HEARTBEAT
                continue
            for start in range(0, len(events), BATCH):
                if start:
                    # Sending to a client that is gone never waits: without this, a long
                    # catch-up would hold the event loop to its end.
                    await asyncio.sleep(0)
                yield b"".join(map(renderer.feed, events[start : start + BATCH]))
            after += len(events)
            if isinstance(events[-1], StreamEnd):
                return


async def _abort(scope: Scope) -> None:
    """Cut the connection, so that the body ends without its terminator."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is None:
        raise ConnectionAbortedError("the server cannot cut a connection")
    abort()
    await asyncio.sleep(0.01)  # let the server see the loss before the app returns

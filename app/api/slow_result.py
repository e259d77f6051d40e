"""The response with a whole answer that takes long."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import RelayError
from .event_stream import ReaderDropped
from .request import connection_of

SPACE = b" "
"""Sent before the JSON, where it has no meaning (RFC 8259, 2)."""


class SlowResult(Response):
    """Sends white space until the answer comes: proxies close connections that are silent.

    The status is sent by then. An error comes as the body, which breaks off: with a clean end,
    clients would take it for an answer.
    """

    def __init__(
        self,
        wait: Callable[[], Awaitable[Response | None]],
        failed: Callable[[RelayError], Response],
        leave: Callable[[], None],
        headers: Mapping[str, str],
    ) -> None:
        """`wait` returns None if it is time for white space again; `leave` is called at last."""
        super().__init__(
            headers={"cache-control": "no-store, no-transform", "x-accel-buffering": "no"}
            | dict(headers),
            media_type="application/json",
        )
        del self.headers["content-length"]
        self._wait, self._failed, self._leave = wait, failed, leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            response = None
            while response is None:
                await send({"type": "http.response.body", "body": SPACE, "more_body": True})
                response = await self._wait()
        except RelayError as error:
            response = self._failed(error)
        except ClientDisconnect:
            response = Response(status_code=499)
        finally:
            self._leave()
        # A broken response of HTTP/2 stays open under hypercorn (0.18).
        cut = response.status_code != 200 and scope["http_version"].startswith("1")
        await send({"type": "http.response.body", "body": response.body, "more_body": cut})
        if not cut:
            return
        connection = connection_of(scope)
        if connection is not None:
            connection.break_off()
            await send({"type": "http.response.body", "body": b""})
        elif response.status_code != 499:
            raise ReaderDropped("the answer failed after its head")

"""Endpoints of calls without a stream."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from starlette.requests import ClientDisconnect, Request

from ..errors import RequestError
from ..generation.calls import CallContext
from ..generation.via import source_of
from ..policies.admission import RequestMemory
from .endpoints import Endpoints, HttpParts
from .request import REQUEST_HEADERS, client_of, principal_of

ESTIMATED: Final = "seseragi-estimated"
"""The header of an answer with an estimated number of tokens."""

T = TypeVar("T")

Work = Callable[[CallContext], Coroutine[Any, Any, T]]
"""Makes the call of a request."""


class SingleCall(Endpoints):
    """An endpoint without a stream: admission, body, and the client's leaving."""

    def __init__(self, parts: HttpParts, *, kind: str) -> None:
        super().__init__(parts)
        self._kind = kind

    async def answer(
        self,
        request: Request,
        parse: Callable[[bytes, RequestMemory], Work[T]],
        *,
        form: bool = False,
    ) -> T:
        """Read the request, JSON or a `form`, and run its call while the client is connected.

        The memory that the call takes is released at its end.
        """
        hub, principal = self._hub, principal_of(request)
        if "idempotency-key" in request.headers:
            raise RequestError(
                "invalid_request",
                "Idempotency-Key: calls without a stream keep no answer to give again, and a "
                "second one is billed again; leave the header out",
            )
        origin = source_of(request.scope.get("client"), request.scope[REQUEST_HEADERS])
        await self._streams_of(request).admit(origin, key=None)
        with hub.admission.receive(origin.address, principal.owner) as memory:
            body = await self._read_body(request, memory, form=form)
            memory.expect(body, parsed=not form)
            work = parse(body, memory)
            del body
            request_id = request.scope.get("request_id", "")
            answer = hub.calls.ask(
                work, principal, origin=origin, kind=self._kind, request_id=request_id
            )
            return await while_connected(request, answer)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work for a client, and cancel it if the client disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    working = asyncio.ensure_future(work)
    disconnected = False

    def stop() -> None:
        nonlocal disconnected
        disconnected = True
        working.cancel()

    try:
        with client_of(request).watch(stop):
            return await working
    except asyncio.CancelledError:
        if disconnected:
            raise ClientDisconnect from None
        raise

"""Calls without a stream, such as embeddings, from admission to end."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from ..errors import shutting_down
from ..identity.principal import Principal, check_may
from .metered_call import CallContext, Spawn
from .parts import Parts
from .shutdown import STOP_S, Shutdown
from .via import RequestSource

T = TypeVar("T")


class Calls:
    """Makes calls without a stream; a running call counts as a stream."""

    def __init__(self, parts: Parts, shutdown: Shutdown, *, spawn: Spawn) -> None:
        self._parts = parts
        self._shutdown = shutdown
        self._spawn = spawn
        self.streams: set[str] = set()
        """The hidden streams of running calls."""
        self.count = 0
        """The number of running calls."""

    async def ask(
        self,
        work: Callable[[CallContext], Coroutine[Any, Any, T]],
        principal: Principal,
        *,
        origin: RequestSource,
        kind: str,
        request_id: str = "",
    ) -> T:
        """Make a call for a principal; `kind` stands for the client format in the records.

        Raises:
            RequestError: `forbidden`, the credential is a stream token.
            ServiceError: `overloaded`, there are too many streams, or the relay is shutting
                down; `rate_limited`, the client has reached a limit.
            RelayError: an exception of `work`.
        """
        check_may(principal)
        if self._shutdown.draining:
            raise shutting_down()
        parts = self._parts
        parts.admission.enter(origin.address)
        self.count += 1
        context = CallContext(
            principal=principal,
            request_id=request_id,
            kind=kind,
            headers=parts.via_name.headers(origin),
            parts=parts,
            reservations=parts.reservations,
            settlements=parts.settlements,
            streams=self.streams,
            spawn=self._spawn,
        )
        working = asyncio.ensure_future(work(context))
        working.add_done_callback(partial(self._ended, origin.address))
        stopped = asyncio.ensure_future(self._shutdown.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise shutting_down()
            return working.result()
        finally:
            stopped.cancel()
            if not working.done():  # its cost is settled before its end counts
                working.cancel()
                await asyncio.wait({working}, timeout=STOP_S)

    def _ended(self, address: str, _: "asyncio.Task[Any]") -> None:
        self._parts.admission.leave(address)
        self.count -= 1
        self._shutdown.check_drained()

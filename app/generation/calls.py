"""Calls that make no stream, such as embeddings, from their admission to their end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..errors import shutting_down
from ..identity.principal import Principal, check_may
from .booking import Bookings, Spawn
from .origin import Origin
from .parts import Parts
from .shutdown import STOP_S, Shutdown
from .single_call import Asking

T = TypeVar("T")


class Calls:
    """Does calls that make no stream; while one lasts it counts as a stream."""

    def __init__(self, parts: Parts, shutdown: Shutdown, *, spawn: Spawn) -> None:
        self._parts = parts
        self._shutdown = shutdown
        self._spawn = spawn
        self.count = 0
        """How many go on."""

    async def ask(
        self,
        work: Callable[[Asking], Coroutine[Any, Any, T]],
        principal: Principal,
        *,
        origin: Origin,
        kind: str,
        request_id: str = "",
    ) -> T:
        """Do a call that makes no stream, such as embeddings; while it lasts it counts as a stream.

        `kind` is what its row says in the place of a client format.

        Raises:
            RequestError: `forbidden`, a stream token asks.
            ServiceError: `overloaded`, there are too many streams, or the relay stops;
                `rate_limited`, the client has its share.
            RelayError: what the work raises.
        """
        check_may(principal)
        if self._shutdown.draining:
            raise shutting_down()
        parts = self._parts
        parts.admission.enter(origin.address)
        self.count += 1
        bookings = Bookings(
            parts.event_log,
            parts.accounting,
            principal,
            kind=kind,
            request_id=request_id,
            spawn=self._spawn,
        )
        asking = Asking(
            parts.upstreams,
            parts.client,
            principal,
            limits=parts.limits,
            headers=parts.pseudonym.headers(origin),
            bookings=bookings,
            observer=parts.observer,
        )
        working = asyncio.ensure_future(work(asking))
        stopped = asyncio.ensure_future(self._shutdown.stopping.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise shutting_down()
            return working.result()
        finally:
            stopped.cancel()
            if not working.done():  # what it has cost is settled before it counts as over
                working.cancel()
                await asyncio.wait({working}, timeout=STOP_S)
            parts.admission.leave(origin.address)
            self.count -= 1
            self._shutdown.check_drained()

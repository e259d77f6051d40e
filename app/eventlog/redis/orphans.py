"""Leases of processes, and the periodic end of the streams of dead ones."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from ..supervision import Supervisor
from ..waiting_rows import RECORDS
from .account_scripts import HOLDS, LOOKS
from .link import Away, CommandRefused, Link
from .scripts import FIND_HELD, FIND_LOST, OWNERS

REMEMBERED_S = 3600
"""How long an expired stream is reported as expired, not unknown."""

SPARE_S = 10
"""How much later than a stream expires Redis removes its keys."""

SETTLE_S = 1.5
"""How long all processes may take to reconnect to a Redis that is back."""


class Lease:
    """The lease of the process `owner` on its streams.

    It lasts `s` seconds and is renewed every `renew_s`. The `_ms` are times to live in Redis:
    `log_ms` and `meta_ms` after a stream's end, `running_*` while it runs. For `settle_s` after
    Redis was away, it may lack streams that their owners are about to restore. Its settlements
    add rows to `queues`.
    """

    def __init__(
        self, owner: str, *, s: float, retention_s: float, queues: Sequence[str] = (RECORDS,)
    ) -> None:
        self.owner = owner
        self.queues = "\1".join(queues).encode()
        self.s = s
        self.retention_s = retention_s
        self.renew_s = s / 3
        self.settle_s = max(self.renew_s, SETTLE_S)
        self.ms = int(s * 1000)
        self.log_ms = int((retention_s + SPARE_S) * 1000)
        self.meta_ms = self.log_ms + REMEMBERED_S * 1000
        self.running_log_ms = self.log_ms + self.ms
        self.running_ms = self.meta_ms + self.ms


HELD_AT_ONCE = 100

log = structlog.get_logger("seseragi.eventlog")


class OrphanCollector:
    """Ends the streams of dead processes with `end`, and forgets those processes.

    That includes streams of which Redis has nothing left but the reservation. `settled` returns
    whether owners have had the time to reconnect to a Redis that was away.
    """

    def __init__(
        self,
        link: Link,
        *,
        lease: Lease,
        settled: Callable[[], bool],
        end: Callable[[str], "asyncio.Future[None]"],
    ) -> None:
        self._link = link
        self._lease = lease
        self._settled = settled
        self._end = end
        self._tasks = Supervisor()

    def open(self) -> None:
        self._tasks.keep("redis orphans", self._keep_ending)

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def healthy(self) -> bool:
        return self._tasks.healthy

    async def _keep_ending(self) -> None:
        while True:
            await asyncio.sleep(self._lease.renew_s)
            try:
                while self._settled() and await self._end_some():
                    pass
                while self._settled() and await self._end_reserved():
                    pass
            except Away:
                pass
            except CommandRefused as error:
                log.error("streams of lost processes cannot be looked for", error=str(error))

    async def _end_some(self) -> bool:
        """End some streams; return whether there may be more."""
        found: list[Any] = await self._link.run(FIND_LOST, [OWNERS])
        streams = [stream.decode() for stream in found]
        before = set(streams)
        await asyncio.gather(*(asyncio.shield(self._end(stream)) for stream in streams))
        left: list[Any] = await self._link.run(FIND_LOST, [OWNERS])
        # If none could be ended, they are tried again later.
        return bool(left) and not before <= {stream.decode() for stream in left}

    async def _end_reserved(self) -> bool:
        """End some streams that have a reservation and no producer.

        Returns whether there may be more: each is checked every `LOOKS` leases only.
        """
        pause_ms = LOOKS * self._lease.ms
        found: list[bytes] = await self._link.run(
            FIND_HELD, [HOLDS, OWNERS], HELD_AT_ONCE, pause_ms
        )
        ends = (asyncio.shield(self._end(stream.decode())) for stream in found)
        await asyncio.gather(*ends)
        return bool(found)

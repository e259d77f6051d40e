"""The task that delivers the rows of ended streams from the log to a webhook.

The log gets the row in the step that ends the stream, and loses it once the endpoint has accepted
it or all attempts have failed. Processes that share a log lease rows from each other, so that each
is sent once; one whose process is killed meanwhile is sent again, with the same id.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import httpx2
import msgspec
import structlog

from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.reading.rate_limits import read_wait
from ..errors import RelayError
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.supervision import Supervisor, wait_for
from ..eventlog.waiting_rows import RowQueues
from ..telemetry.metrics import Metrics
from ..telemetry.observer import Observer
from ..upstreams.http import FAILURES, HttpClient, read_some
from ..upstreams.http_call import CallUrl, HttpCall
from .message import (
    Delivery,
    Webhook,
    build_body,
    pack_delivery,
    pause_after,
    sign,
    unpack_delivery,
)

CONCURRENCY = 8
"""Calls at a time to one endpoint from one process."""

TIMEOUT_S = 15.0
"""Of one call."""

LEASE_S = 30.0
"""For how long no other process takes the row of a call: longer than a call with its hook."""

INTERVAL_S = 2.0
"""The interval of looking for rows that are due again, or that other processes left."""

LAST_S = 2.0
"""The time for the last calls at shutdown; a memory log loses the rest."""

GONE = 410
"""The status by which an endpoint wants no more messages."""

log = structlog.get_logger("seseragi.webhooks")


class Deliverer(Observer):
    """Delivers the rows of one webhook; `redact` maps content to what may leave the relay."""

    def __init__(
        self,
        webhook: Webhook,
        rows: RowQueues,
        client: HttpClient,
        redact: Callable[[str], Awaitable[str | None]],
        metrics: Metrics | None,
    ) -> None:
        self._webhook = webhook
        self._url = CallUrl.of(httpx2.URL(webhook.url))
        self._rows = rows
        self._client = client
        self._redact = redact
        self._waiting = 0
        self._oldest = ("", 0.0, 0.0)
        """The oldest stream of which the last call failed, when it ended, and until when that is
        sure: another process may deliver it."""
        self._gone = False
        self._calls: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._supervisor = Supervisor()
        self._count: Callable[[str], object] = lambda outcome: None
        if metrics is not None:
            self._count = metrics.add_webhook(webhook.name, self._measure)

    def ended(self, ended: StreamEnded) -> None:
        self._wake.set()

    async def open(self) -> None:
        """Start; the log may have rows from before."""
        self._supervisor.keep(self._webhook.queue, self._run)

    async def close(self) -> None:
        """Deliver what is due, within a time limit; the rest stays in a durable log."""
        await self._supervisor.close()
        with contextlib.suppress(TimeoutError, RelayError):
            async with asyncio.timeout(LAST_S):
                await self._take()
                while self._calls:
                    await asyncio.wait(self._calls)
        for call in self._calls:
            call.cancel()

    def _measure(self) -> tuple[float, float]:
        """Return how many rows wait, and the age of the oldest whose last call failed."""
        _, ended_at, until = self._oldest
        return self._waiting, now - ended_at if (now := time.time()) < until else 0

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(RelayError):  # the log reports its own failures
                await self._take()
                self._waiting = await self._rows.count_rows(self._webhook.queue)
            # Jitter: relays that share a log do not all look at once.
            await wait_for(self._wake, INTERVAL_S * random.uniform(0.7, 1.3))  # noqa: S311

    async def _take(self) -> None:
        """Call the endpoint for rows that are due, as many as may be called at once."""
        if not (free := CONCURRENCY - len(self._calls)):
            return
        queue = self._webhook.queue
        for stream, data in await self._rows.take_rows(queue, limit=free, for_s=LEASE_S):
            call = asyncio.create_task(self._deliver(stream, data), name=f"{queue} {stream}")
            self._calls.add(call)
            call.add_done_callback(self._called)

    def _called(self, call: "asyncio.Task[None]") -> None:
        self._calls.discard(call)
        self._wake.set()

    async def _deliver(self, stream: str, data: bytes) -> None:
        """Call the endpoint with a row, then forget the row or put it back."""
        again = await self._try(stream, data)
        queue = self._webhook.queue
        with contextlib.suppress(RelayError):  # it is due again once its lease is over
            if again is None:
                await self._rows.forget_rows([stream], queue=queue)
            else:
                row, after_s = again
                await self._rows.put_back_row(queue, stream, row, after_s=after_s)

    async def _try(self, stream: str, data: bytes) -> tuple[bytes, float] | None:
        """Call the endpoint with a row.

        Return the row to put back and when it is due again, or None for no more.
        """
        try:
            failed, row = unpack_delivery(data)
            if row.client_format not in CLIENT_FORMATS:  # a call without a stream
                return None
            content = await self._redact(row.content.decode()) if row.content else None
            body = build_body(row, content)
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            self._note(stream, "webhook dropped", log.error, why=type(error).__name__)
            return None
        status, wait_s = (GONE, None) if self._gone else await self._call(stream, body)
        if isinstance(status, int) and 200 <= status < 300:
            self._note(stream, "webhook delivered", log.info, attempt=failed + 1)
            return None
        self._gone = self._gone or status == GONE
        after_s = pause_after(failed + 1, chance=random.random(), wait_s=wait_s)  # noqa: S311
        if self._gone or after_s is None:
            self._note(stream, "webhook dropped", log.error, attempt=failed + 1, why=status)
            return None
        self._note(stream, "webhook failed", log.warning, attempt=failed + 1, why=status)
        now = time.time()
        if self._oldest[2] < now or row.ended_at < self._oldest[1]:
            self._oldest = stream, row.ended_at, now + after_s + LEASE_S
        return pack_delivery(Delivery(failed + 1, row)), after_s

    async def _call(self, stream: str, body: bytes) -> tuple[int | str, float | None]:
        """Return the status of the endpoint, or why there is none, and the wait it requests."""
        at = int(time.time())
        headers = {
            "content-type": "application/json",
            "accept-encoding": "identity",
            "user-agent": "seseragi",
            "connection": "close",
            **sign(stream, body, secrets=self._webhook.secrets, at=at),
        }
        try:
            async with asyncio.timeout(TIMEOUT_S):
                # Not on a free connection: one that turns out to be closed would be a failure.
                call = HttpCall("POST", self._url, headers, body)
                reply = await self._client.open(call, fresh=True)
                try:
                    await read_some(reply)  # else the endpoint would see a reset
                finally:
                    await reply.body.aclose()
        except (TimeoutError, *FAILURES) as error:
            return type(error).__name__, None
        return reply.status, read_wait(reply.headers, limited=True, now=at)

    def _note(self, stream: str, event: str, write: Callable[..., object], **facts: object) -> None:
        if stream == self._oldest[0]:
            self._oldest = "", 0.0, 0.0
        self._count(event.rpartition(" ")[2])
        write(event, webhook=self._webhook.name, stream=stream, **facts)

"""The tasks that deliver the rows of ended streams from the log to webhooks.

The log gets the row in the step that ends the stream, and loses it once the endpoint has accepted
it or all attempts have failed. Processes that share a log lease rows from each other, so that each
is sent once; one whose process is killed meanwhile is sent again, with the same id.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import httpx2
import msgspec
import structlog

from ..dialects.client_formats import CLIENT_FORMATS
from ..dialects.reading.rate_limits import read_wait
from ..errors import RelayError
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.supervision import Supervisor, wait_for
from ..eventlog.waiting_rows import RowQueues
from ..telemetry.observer import Observer
from ..telemetry.row import StreamRow
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

COUNT_S = 5.0
"""The interval of counting what waits: 100,000 rows take 2 ms."""

LAST_S = 2.0
"""The time for the last calls at shutdown; a memory log loses the rest."""

GONE = 410
"""The status by which an endpoint wants no more messages."""

log = structlog.get_logger("seseragi.webhooks")


class Deliverer:
    """Delivers the rows of one webhook.

    `redact` maps recorded content to what may leave the relay.
    """

    def __init__(
        self,
        webhook: Webhook,
        rows: RowQueues,
        client: HttpClient,
        *,
        redact: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self.name = webhook.name
        self.count: Callable[[str], object] = lambda outcome: None
        """Receives `delivered`, `failed` (another call follows) or `dropped`."""
        self._webhook = webhook
        self.waiting = 0
        """Rows in the log at the last look, of all processes."""
        self._url = CallUrl.of(httpx2.URL(webhook.url))
        self._rows = rows
        self._client = client
        self._redact = redact
        self._count_at = 0.0
        self._gone = False
        self._oldest = ("", 0.0, 0.0)
        """The oldest stream of which the last attempt failed, when it ended, and until when that
        is true: another process may deliver it."""
        self._supervisor = Supervisor()
        self._calls: set[asyncio.Task[None]] = set()
        self.wake = asyncio.Event()

    @property
    def oldest_s(self) -> float:
        """The age of the oldest end that could not be delivered; 0 for none."""
        _, ended_at, until = self._oldest
        return now - ended_at if ended_at < (now := time.time()) < until else 0.0

    def open(self) -> None:
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
        with contextlib.suppress(RelayError):
            if left := await self._rows.count_rows(self._webhook.queue):
                log.warning(
                    "webhook not called before the end: rows stay in the log, unless it is in "
                    "memory",
                    webhook=self.name,
                    rows=left,
                )

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(RelayError):  # the log reports its own failures
                await self._take()
                if (now := time.monotonic()) >= self._count_at:
                    self._count_at = now + COUNT_S
                    self.waiting = await self._rows.count_rows(self._webhook.queue)
            # Jitter: relays that share a log do not all look at once.
            await wait_for(self.wake, INTERVAL_S * random.uniform(0.7, 1.3))  # noqa: S311

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
        self.wake.set()
        error = None if call.cancelled() else call.exception()
        if error is not None and not isinstance(error, RelayError):
            log.error("webhook failed", webhook=self.name, why=type(error).__name__)

    async def _deliver(self, stream: str, data: bytes) -> None:
        """Call the endpoint with a row, then forget the row or put it back."""
        try:
            delivery = unpack_delivery(data)
            row = delivery.row
            body = build_body(row, await self._redact(row.content.decode()) if row.content else "")
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            await self._drop(stream, f"unreadable: {type(error).__name__}")
            return
        if self._wants(row):
            if self._gone:
                await self._drop(stream, "the endpoint has answered 410 Gone")
                return
            status, wait_s = await self._call(stream, body)
            if not (isinstance(status, int) and 200 <= status < 300):
                await self._fail(stream, delivery, status, wait_s)
                return
            self._note(stream, "delivered", log.info, attempt=delivery.failed + 1)
        await self._rows.forget_rows([stream], queue=self._webhook.queue)

    def _wants(self, row: StreamRow) -> bool:
        """Whether a row is that of a stream, rather than a call without one, and of its routes."""
        routes = self._webhook.routes
        return row.client_format in CLIENT_FORMATS and (routes is None or row.route in routes)

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

    async def _fail(
        self, stream: str, delivery: Delivery, status: int | str, wait_s: float | None
    ) -> None:
        failed = delivery.failed + 1
        after_s = pause_after(failed, chance=random.random(), wait_s=wait_s)  # noqa: S311
        if status == GONE:
            self._gone = True
        if status == GONE or after_s is None:
            await self._drop(stream, f"{status} at attempt {failed}")
            return
        self._note(
            stream, "failed", log.warning, attempt=failed, why=status, again_in_s=round(after_s)
        )
        ended_at, now = delivery.row.ended_at, time.time()
        if self._oldest[2] < now or ended_at < self._oldest[1]:
            self._oldest = stream, ended_at, now + after_s + LEASE_S
        data = pack_delivery(Delivery(failed, delivery.row))
        await self._rows.put_back_row(self._webhook.queue, stream, data, after_s=after_s)

    async def _drop(self, stream: str, why: str) -> None:
        self._note(stream, "dropped", log.error, why=why)
        await self._rows.forget_rows([stream], queue=self._webhook.queue)

    def _note(
        self, stream: str, outcome: str, write: Callable[..., object], **facts: object
    ) -> None:
        if stream == self._oldest[0]:
            self._oldest = "", 0.0, 0.0
        self.count(outcome)
        write(f"webhook {outcome}", webhook=self.name, stream=stream, **facts)


class Webhooks(Observer):
    """The webhooks of the settings."""

    def __init__(self, deliverers: Sequence[Deliverer]) -> None:
        self.deliverers = deliverers

    def ended(self, ended: StreamEnded) -> None:
        for deliverer in self.deliverers:
            deliverer.wake.set()

    async def open(self) -> None:
        """Start all."""
        for deliverer in self.deliverers:
            deliverer.open()

    async def close(self) -> None:
        """Close all at once."""
        await asyncio.gather(*(deliverer.close() for deliverer in self.deliverers))

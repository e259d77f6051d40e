"""The task that writes rows from the log to the database.

The log gets a row in the step that ends the stream, and deletes it once it is committed here.
Inserts are idempotent by the stream's id, so that a crash at any time loses or doubles no row.
While the database is unavailable, rows wait in the log, and streams go on. The operator's function
redacts content before it is stored.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import structlog
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from ..errors import RelayError
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.supervision import Supervisor
from ..eventlog.waiting_rows import WaitingRows
from ..telemetry.observer import Observer
from ..telemetry.row import unpack_row
from .address import FAILURES
from .content_hook import Redact, keep_all
from .database import Database
from .schema import values_of

log = structlog.get_logger("seseragi.records")


BATCH = 100
"""Rows of one transaction: 3 ms of this process."""

INTERVAL_S = 5.0
"""The interval of looking for rows that other processes left in the log."""

GATHER_S = 0.25
"""The wait for further rows after the end of a stream."""

STEP_S = 30.0
"""The timeout of one transaction."""

PAUSE_S, PAUSE_MOST_S = 0.5, 30.0
"""The first and the longest pause after a failure; it doubles."""

LAST_S = 8.0
"""The time for the last writes at shutdown; a memory log loses the rest."""

CLOSE_S = 2.0
"""The timeout of closing connections."""

CLEAN_S = 3600.0
CLEAN_AGAIN_S = 60.0
"""The interval of dropping old rows, and after a failure."""

MAX_REASON = 200

CLOSING_FAILURES: tuple[type[Exception], ...] = (*FAILURES, RelayError)


class RecorderState(msgspec.Struct):
    """The state of the recorder, for metrics."""

    written: int = 0
    dropped: int = 0
    """Rows that are unreadable, or that the database rejects."""
    failures: int = 0
    """Failed writes to the database."""
    away_since: float | None = None
    """Since when the database fails, in unix seconds; None while it works."""
    waiting: int = 0
    """Rows in the log at the last look."""


class Recorder(Observer):
    """Writes the rows of an open log."""

    def __init__(
        self,
        waiting: WaitingRows,
        database: Database,
        *,
        retention_days: int = 0,
        redact: Redact = keep_all,
        steps: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Prepare it; `steps` is called after each step, for tests that stop there."""
        self.state = RecorderState()
        self._waiting = waiting
        self._database = database
        self._retention_days = retention_days
        self._redact = redact
        self._did = steps
        self._supervisor = Supervisor()
        self._wake = asyncio.Event()
        self._working = asyncio.Lock()
        """Locked while the database is in use."""
        self._opened = False
        self._migrated = False
        self._clean_at = 0.0

    def ended(self, ended: StreamEnded) -> None:
        self._wake.set()

    async def open(self) -> None:
        """Start; failures of the database are logged and retried."""
        self._opened = True
        self._wake.set()  # the log may have rows from before
        self._supervisor.keep("records", self._run)

    async def close(self) -> None:
        """Write the waiting rows, within a time limit; the rest stays in a durable log."""
        if not self._opened:
            return
        until = asyncio.get_running_loop().time() + LAST_S
        # A cancelled SQLite statement holds the lock on the file until its cursor is collected.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._working.acquire()
        await self._supervisor.close()
        try:
            async with asyncio.timeout_at(until):
                await self._write_waiting()
                await self._database.close()
        except CLOSING_FAILURES as error:
            log.warning(
                "records not written before the end: rows stay in the log, unless it is in memory",
                records=str(self._database.address),
                error=self._explain(error),
            )
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(CLOSE_S):
                    await self._database.close()

    async def _run(self) -> None:
        pause_s = PAUSE_S
        while True:
            async with self._working:
                if done := await self._try(self._write_waiting):
                    await self._clean()
            if done:
                pause_s = PAUSE_S
                with contextlib.suppress(TimeoutError):
                    # Jitter: relays that share a log do not all look at once.
                    async with asyncio.timeout(INTERVAL_S * random.uniform(0.7, 1.3)):  # noqa: S311
                        await self._wake.wait()
                        await asyncio.sleep(GATHER_S)
            else:
                await asyncio.sleep(pause_s * random.uniform(0.7, 1.0))  # noqa: S311
                pause_s = min(2 * pause_s, PAUSE_MOST_S)

    async def _try(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Do some work; return False, and log it once, while the database is unusable."""
        try:
            await work()
        except FAILURES as error:
            self._note_failure(error)
            self._migrated = False  # another database may come back
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(CLOSE_S):
                    await self._database.close()
            return False
        except RelayError:  # the log reports its own failures
            return True
        finally:
            with contextlib.suppress(RelayError):
                self.state.waiting = await self._waiting.count_rows()
        self._note_success()
        return True

    def _note_failure(self, error: Exception) -> None:
        self.state.failures += 1
        if self.state.away_since is None:
            self.state.away_since = time.time()
            log.error(
                "records cannot be written; streams go on, their rows wait in the log",
                records=str(self._database.address),
                error=self._explain(error),
            )

    def _note_success(self) -> None:
        if (since := self.state.away_since) is not None:
            self.state.away_since = None
            log.warning("records are written again", after_s=round(time.time() - since, 1))

    def _explain(self, error: BaseException) -> str:
        """Return the message of a database error: one line, without rows or a password."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
        message = str(cause).partition("\n")[0][:MAX_REASON]
        return self._database.address.without_password(f"{type(cause).__name__}: {message}")

    async def _write_waiting(self) -> None:
        """Write all rows that wait in the log."""
        if not self._migrated:
            async with asyncio.timeout(STEP_S):
                await self._database.migrate()
            self._migrated = True
        while True:
            self._wake.clear()
            packed = await self._waiting.rows(limit=BATCH)
            if not packed:
                return
            self._did("read")
            rows = [row for stream, data in packed if (row := await self._read(stream, data))]
            async with asyncio.timeout(STEP_S):
                self.state.written += await self._write(rows)
            self._did("committed")
            await self._waiting.forget_rows([stream for stream, _ in packed])
            self._did("forgotten")
            if len(packed) < BATCH:
                return

    async def _read(self, stream: str, data: bytes) -> dict[str, Any] | None:
        """Return the columns of a packed row; log an unreadable one and return None."""
        try:
            values = values_of(unpack_row(data))
        except (ValueError, OverflowError, msgspec.MsgspecError) as error:
            self._drop(stream, str(error))
            return None
        if values["content"] is not None:
            values["content"] = await self._redact(values["content"])
        return values

    def _drop(self, stream: str, why: str) -> None:
        self.state.dropped += 1
        log.error("row of a stream cannot be recorded and is dropped", stream=stream, error=why)

    async def _write(self, rows: Sequence[dict[str, Any]]) -> int:
        """Write rows; drop only those that the database rejects."""
        try:
            return await self._database.write(rows, did=self._did)
        except (DataError, IntegrityError):
            self._database.forget_partitions()
        written = 0
        for row in rows:
            try:
                written += await self._database.write([row], did=self._did)
            except (DataError, IntegrityError) as error:
                self._drop(row["stream"], self._explain(error))
        return written

    async def _clean(self) -> None:
        """Drop old rows, every `CLEAN_S`."""
        now = time.monotonic()
        if now < self._clean_at:
            return
        self._clean_at = now + CLEAN_S
        try:
            dropped = await self._database.clean(self._retention_days)
        except FAILURES as error:
            self._clean_at = now + CLEAN_AGAIN_S
            log.warning("old records not dropped; trying again", error=self._explain(error))
            return
        if dropped:
            log.info("old records dropped", dropped=dropped, older_than_days=self._retention_days)

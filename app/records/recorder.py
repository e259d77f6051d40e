"""The task that brings rows from the log into the database.

A row is in the log from the step on that ends its stream, and is forgotten there once it is
committed here, where it is found by the stream's id: so it is written once, whoever dies when.
While the database is away rows wait in the log, and streams go on.
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
from ..eventlog.contract import Books
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.supervision import Supervisor
from ..telemetry.observer import Observer
from ..telemetry.row import unpack_row
from .address import FAILURES
from .database import Database
from .redaction import Redact, keep_all
from .rows import Unusable, values_of

BATCH = 100
"""Rows that are written at once: 3 ms of this process."""

INTERVAL_S = 5.0
"""How long rows may wait that others have left in the log."""

GATHER_S = 0.25
"""How long is waited for other rows, once a stream has ended."""

STEP_S = 30.0
"""How long one transaction may take."""

PAUSE_S, PAUSE_MOST_S = 0.5, 30.0
"""The pause after a failure: it doubles up to the longest."""

LAST_S = 8.0
"""How long is written yet when the relay stops; a log in memory takes the rest along."""

CLOSE_S = 2.0
"""How long connections may take to be closed."""

CLEAN_S = 3600.0
CLEAN_AGAIN_S = 60.0
"""How often is looked for what is too old; after a failure."""

MAX_REASON = 200

CLOSING_FAILURES: tuple[type[Exception], ...] = (*FAILURES, RelayError)

log = structlog.get_logger("seseragi.records")


class RecorderState(msgspec.Struct):
    """How it fares, for metrics."""

    written: int = 0
    dropped: int = 0
    """Rows that nobody can read, or the database takes none of."""
    failures: int = 0
    """How often the database could not be written to."""
    away_since: float | None = None
    """In unix seconds, while it cannot."""
    waiting: int = 0
    """How many rows waited in the log when it was last looked."""


class Recorder(Observer):
    """Writes the rows that a log keeps, as long as the log is open."""

    def __init__(
        self,
        event_log: Books,
        database: Database,
        *,
        retention_days: int = 0,
        redact: Redact = keep_all,
        steps: Callable[[str], None] = lambda step: None,
    ) -> None:
        """Prepare it; `steps` is told of each that is done, for tests that stop there."""
        self.state = RecorderState()
        self._log = event_log
        self._database = database
        self._retention_days = retention_days
        self._redact = redact
        self._did = steps
        self._supervisor = Supervisor()
        self._wake = asyncio.Event()
        self._working = asyncio.Lock()
        """Held while the database is being used."""
        self._opened = False
        self._migrated = False
        self._clean_at = 0.0

    def ended(self, ended: StreamEnded) -> None:
        self._wake.set()

    async def open(self) -> None:
        """Begin; what is wrong with the database is logged, and tried again."""
        self._opened = True
        self._wake.set()  # the log may have rows from before
        self._supervisor.keep("records", self._run)

    async def close(self) -> None:
        """Write what waits, within a bound; the rest stays in the log, if that is kept."""
        if not self._opened:
            return
        until = asyncio.get_running_loop().time() + LAST_S
        # A statement of SQLite whose cursor is cancelled keeps the lock on the file, until the
        # cursor is found among the garbage.
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
                "rows of streams stay in the log, or are lost with one in memory: no time was left",
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
                    # Not all relays at once, which share a log.
                    async with asyncio.timeout(INTERVAL_S * random.uniform(0.7, 1.3)):  # noqa: S311
                        await self._wake.wait()
                        await asyncio.sleep(GATHER_S)
            else:
                await asyncio.sleep(pause_s * random.uniform(0.7, 1.0))  # noqa: S311
                pause_s = min(2 * pause_s, PAUSE_MOST_S)

    async def _try(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Do some work; False, and it is told once, while the database cannot be used."""
        try:
            await work()
        except FAILURES as error:
            self._note_failure(error)
            self._migrated = False  # it may be another database that comes back
            with contextlib.suppress(*FAILURES):
                async with asyncio.timeout(CLOSE_S):
                    await self._database.close()
            return False
        except RelayError:  # the log tells of itself
            return True
        finally:
            with contextlib.suppress(RelayError):
                self.state.waiting = await self._log.count_rows()
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
        """Return what a database says, in one line that quotes no row and no password."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
        told = str(cause).partition("\n")[0][:MAX_REASON]
        return self._database.address.without_password(f"{type(cause).__name__}: {told}")

    async def _write_waiting(self) -> None:
        """Write all rows that wait in the log."""
        if not self._migrated:
            async with asyncio.timeout(STEP_S):
                await self._database.migrate()
            self._migrated = True
        while True:
            self._wake.clear()
            packed = await self._log.rows(limit=BATCH)
            if not packed:
                return
            self._did("read")
            rows = [row for stream, data in packed if (row := await self._read(stream, data))]
            async with asyncio.timeout(STEP_S):
                self.state.written += await self._write(rows)
            self._did("committed")
            await self._log.forget_rows([stream for stream, _ in packed])
            self._did("forgotten")
            if len(packed) < BATCH:
                return

    async def _read(self, stream: str, data: bytes) -> dict[str, Any] | None:
        """Return the columns of a packed row; None, and it is told, where it is none."""
        try:
            values = values_of(unpack_row(data))
        except (ValueError, msgspec.MsgspecError, Unusable) as error:
            self._drop(stream, str(error))
            return None
        if values["content"] is not None:
            values["content"] = await self._redact(values["content"])
        return values

    def _drop(self, stream: str, why: str) -> None:
        self.state.dropped += 1
        log.error("row of a stream cannot be recorded and is dropped", stream=stream, error=why)

    async def _write(self, rows: Sequence[dict[str, Any]]) -> int:
        """Write rows; one that the database refuses does not keep back the others."""
        try:
            return await self._database.write(rows, did=self._did)
        except (DataError, IntegrityError) as error:
            self._database.forget_partitions()
            if len(rows) > 1:
                half = len(rows) // 2
                return await self._write(rows[:half]) + await self._write(rows[half:])
            refused = error
        try:
            return await self._database.write(rows, did=self._did)
        except (DataError, IntegrityError):
            self._drop(rows[0]["stream"], self._explain(refused))
            return 0

    async def _clean(self) -> None:
        """Drop what is too old, now and then."""
        now = time.monotonic()
        if now < self._clean_at:
            return
        self._clean_at = now + CLEAN_S
        try:
            dropped = await self._database.clean(self._retention_days)
        except FAILURES as error:
            self._clean_at = now + CLEAN_AGAIN_S
            log.warning("old records could not be dropped yet", error=self._explain(error))
            return
        if dropped:
            log.info("old records dropped", dropped=dropped, older_than_days=self._retention_days)

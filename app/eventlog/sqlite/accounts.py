"""The accounts, reservations and waiting rows in a SQLite file.

All sync, in a transaction of `Database.transact`. An account is read at most once in a
transaction and written once at its end. It is cached until another process writes to the file.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection, Cursor

import msgspec
import structlog

from ...ledger.accounts import (
    Account,
    AccountState,
    Grant,
    LimitReached,
    Period,
    ReservationRequest,
    Settlement,
    day_of,
    month_of,
    reserve,
    settle,
)
from .. import waiting_rows
from ..waiting_rows import RECORDS

QUEUED_S = 40 * 86_400
"""How long rows wait whose webhook is no longer in the settings."""

COUNTED_EVERY = 101
"""After how many queued rows those of one queue are counted: 100,000 take 2 ms. It is a prime, so
that each of several queues gets its turn, although their rows alternate."""

FORGOTTEN_AT_ONCE = 500
"""How many accounts of past months one transaction removes."""

REMEMBERED = 1_000
"""How many accounts are cached, about 2 KB each: reading them cost 40 of 280 us a stream."""

MAX_NUMBER = 2**63 - 1
"""SQLite's largest integer: 9 billion dollars in nano-USD."""

log = structlog.get_logger("seseragi.eventlog")


class StoredReservation(msgspec.Struct, frozen=True, array_like=True):
    """The reservation of a running stream."""

    request: ReservationRequest
    output_tokens: int
    """The longest answer that is reserved."""


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(AccountState).decode
_decode_reservation = msgspec.msgpack.Decoder(StoredReservation).decode


class SqliteAccounts:
    """The accounts in the file of a connection; each transaction calls `begin` and `write`."""

    def __init__(self, connection: Connection, queues: Sequence[str] = (RECORDS,)) -> None:
        self._execute: Callable[..., Cursor] = connection.execute
        self._execute_all = connection.executemany
        self._queues = queues
        self._states: dict[str, AccountState] = {}
        self._changed: set[str] = set()
        self.dropped = 0
        """How many rows this transaction has dropped, because there were too many."""

    def begin(self, *, unchanged: bool) -> None:
        """Begin a transaction; `unchanged`: no other process has written since the last one."""
        if not unchanged or len(self._states) > REMEMBERED:
            self._states = {}
        self.dropped = 0

    def undo(self) -> None:
        """Forget the changes of a failed transaction."""
        self._states = {}
        self._changed = set()

    def write(self) -> None:
        """Write the changed accounts; call `written` after the commit."""
        changed = [(name, self._states[name]) for name in self._changed]
        if changed:
            self._execute_all(
                "INSERT INTO accounts VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "month = excluded.month, running = excluded.running, state = excluded.state",
                [(name, s.month.number, s.running, _pack_state(s)) for name, s in changed],
            )

    def written(self) -> None:
        """Note that the changes are committed."""
        self._changed.clear()

    def reserve(self, request: ReservationRequest) -> Grant:
        """Reserve the possible cost of a stream; then call `store_reservation`.

        Raises:
            LimitReached: an account lacks room; nothing is reserved.
        """
        self._load(request.accounts)
        try:
            grant = reserve(self._states, request)
        except LimitReached:
            for account in request.accounts:  # what `AccountState.turn` has changed
                stored = self._read(account.name)
                if stored.day.number and stored != self._states[account.name]:
                    self._changed.add(account.name)
            raise
        self._changed.update(account.name for account in request.accounts)
        return grant

    def store_reservation(self, key: int, request: ReservationRequest, grant: Grant) -> None:
        """Store the reservation of a stream."""
        data = _encode(StoredReservation(request, grant.output_tokens))
        self._execute("INSERT INTO reservations VALUES (?, ?)", (key, data))

    def granted(self, key: int) -> int | None:
        """Return the longest answer that is reserved for a stream; None without a reservation."""
        found = self._execute(
            "SELECT reservation FROM reservations WHERE stream = ?", (key,)
        ).fetchone()
        return None if found is None else _decode_reservation(found[0]).output_tokens

    def settle(self, key: int, stream: str, settlement: Settlement) -> bool:
        """Settle a stream and store its row; False if it has no reservation left.

        Then this or another process has settled it.
        """
        found = self._execute(
            "DELETE FROM reservations WHERE stream = ? RETURNING reservation", (key,)
        ).fetchall()
        if not found:
            return False
        try:
            stored = _decode_reservation(found[0][0])
        except msgspec.MsgspecError as error:
            log.error("reservation cannot be read", stream=stream, error=str(error))
        else:
            self._load(stored.request.accounts)
            reservation = stored.request.reservation(stored.output_tokens)
            settle(self._states, stored.request, reservation, settlement)
            self._changed.update(account.name for account in stored.request.accounts)
        for queue in self._queues if settlement.row else ():
            if queue == RECORDS:
                self._add_row(stream, settlement.row)
            else:
                self._queue_row(queue, stream, settlement.row)
        return True

    def forget_idle(self, *, now: float) -> None:
        """Remove some accounts last used before the previous month, and rows that nobody takes."""
        self._execute("DELETE FROM queued_rows WHERE due < ?", (now - QUEUED_S,))
        self._execute(
            "DELETE FROM accounts WHERE name IN "
            "(SELECT name FROM accounts WHERE month < ? AND running = 0 LIMIT ?)",
            (month_of(day_of(now)) - 1, FORGOTTEN_AT_ONCE),
        )

    # Rows

    def _add_row(self, stream: str, row: bytes) -> None:
        added = self._execute(
            "INSERT OR IGNORE INTO waiting_rows (stream, row) VALUES (?, ?)", (stream, row)
        )
        # Keys go on from the last row, and begin again when there is none.
        oldest = (added.lastrowid or 0) - waiting_rows.MAX_ROWS
        if oldest > 0:
            old = self._execute("DELETE FROM waiting_rows WHERE key <= ?", (oldest,))
            self.dropped += old.rowcount

    def _queue_row(self, queue: str, stream: str, row: bytes) -> None:
        added = self._execute(
            "INSERT OR IGNORE INTO queued_rows (queue, stream, due, row) VALUES (?, ?, ?, ?)",
            (queue, stream, time.time(), row),
        )
        if (added.lastrowid or 0) % COUNTED_EVERY == 0:
            old = self._execute(
                "DELETE FROM queued_rows WHERE key IN (SELECT key FROM queued_rows "
                "WHERE queue = ? ORDER BY due DESC LIMIT -1 OFFSET ?)",
                (queue, waiting_rows.MAX_ROWS),
            )
            self.dropped += old.rowcount

    def take_rows(self, queue: str, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        now = time.time()
        return self._execute(
            "UPDATE queued_rows SET due = ? WHERE key IN (SELECT key FROM queued_rows "
            "WHERE queue = ? AND due <= ? ORDER BY due LIMIT ?) RETURNING stream, row",
            (now + for_s, queue, now, limit),
        ).fetchall()

    def put_back_row(self, queue: str, stream: str, row: bytes, after_s: float) -> None:
        self._execute(
            "UPDATE queued_rows SET due = ?, row = ? WHERE queue = ? AND stream = ?",
            (time.time() + after_s, row, queue, stream),
        )

    def count_rows(self, queue: str = RECORDS) -> int:
        """Return how many rows wait."""
        if queue == RECORDS:
            found = self._execute("SELECT count(*) FROM waiting_rows")
        else:
            found = self._execute("SELECT count(*) FROM queued_rows WHERE queue = ?", (queue,))
        return int(found.fetchone()[0])

    def forget_rows(self, streams: Iterable[str], queue: str = RECORDS) -> None:
        for stream in streams:
            if queue == RECORDS:
                self._execute("DELETE FROM waiting_rows WHERE stream = ?", (stream,))
            else:
                by = (queue, stream)
                self._execute("DELETE FROM queued_rows WHERE queue = ? AND stream = ?", by)

    # Outside a transaction

    def rows(self, limit: int) -> list[tuple[str, bytes]]:
        return self._execute(
            "SELECT stream, row FROM waiting_rows ORDER BY key LIMIT ?", (limit,)
        ).fetchall()

    def accounts(self, names: Sequence[str]) -> list[AccountState]:
        return [self._read(name) for name in names]

    # Accounts

    def _load(self, accounts: Iterable[Account]) -> None:
        for account in accounts:
            if account.name not in self._states:
                self._states[account.name] = self._read(account.name)

    def _read(self, name: str) -> AccountState:
        found = self._execute("SELECT state FROM accounts WHERE name = ?", (name,)).fetchone()
        return AccountState() if found is None else _decode_state(found[0])


def _pack_state(state: AccountState) -> bytes:
    try:
        return _encode(state)
    except OverflowError:  # a request without limits asked for more than there is
        _limit(state)
        return _encode(state)


def _limit(state: AccountState) -> None:
    """Cap the numbers of an account at `MAX_NUMBER`."""
    for period in (state.day, state.month):
        for name in Period.__struct_fields__:
            setattr(period, name, min(MAX_NUMBER, getattr(period, name)))
    state.spans = {
        span: (min(MAX_NUMBER, requests), min(MAX_NUMBER, tokens))
        for span, (requests, tokens) in state.spans.items()
    }

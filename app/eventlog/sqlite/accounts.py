"""The accounts, reservations and waiting rows in a SQLite file.

All sync, in a transaction of `Database.transact`. An account is read once in a transaction and
written once at its end, however many of the streams in it take from it. Where other processes
write the same accounts, nothing is kept from one transaction to the next.
"""

from collections.abc import Callable, Iterable, Sequence
from sqlite3 import Connection, Cursor

import msgspec
import structlog

from ...ledger.accounts import (
    Account,
    AccountState,
    Grant,
    Period,
    ReservationRequest,
    Settlement,
    day_of,
    month_of,
    reserve,
    settle,
)
from .. import waiting_rows

FORGOTTEN_AT_ONCE = 500
"""How many accounts of past months one transaction removes."""

REMEMBERED = 1_000
"""How many accounts a process that has the file alone remembers, about 2 KB each: to read them
again for every stream took 40 us of 280."""

MAX_NUMBER = 2**63 - 1
"""SQLite's largest integer: 9 billion dollars in nano-USD."""

log = structlog.get_logger("seseragi.eventlog")


class Held(msgspec.Struct, frozen=True, array_like=True):
    """The reservation of a running stream."""

    request: ReservationRequest
    output_tokens: int
    """The longest answer that was reserved for."""


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(AccountState).decode
_decode_held = msgspec.msgpack.Decoder(Held).decode


class SqliteAccounts:
    """What is in the file of a connection; `begin` and `write` go around each transaction.

    `alone` says that no other process writes to the file.
    """

    def __init__(self, connection: Connection, *, alone: bool) -> None:
        self._execute: Callable[..., Cursor] = connection.execute
        self._execute_all = connection.executemany
        self._remembered = REMEMBERED if alone else 0
        self._states: dict[str, AccountState] = {}
        self._changed: set[str] = set()
        self.dropped = 0
        """Rows that this transaction has dropped, since nobody took them."""

    def begin(self) -> None:
        """Forget what was read in the transaction before, unless it is sure to be so still."""
        if len(self._states) > self._remembered:
            self._states = {}
        self.dropped = 0

    def undo(self) -> None:
        """Forget what a transaction has changed that has failed."""
        self._states = {}
        self._changed = set()

    def write(self) -> None:
        """Write the accounts that have changed; `written` has to follow the commit."""
        changed = [(name, self._states[name]) for name in self._changed]
        if changed:
            self._execute_all(
                "INSERT INTO accounts VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "month = excluded.month, running = excluded.running, state = excluded.state",
                [(name, s.month.number, s.running, _pack_state(s)) for name, s in changed],
            )

    def written(self) -> None:
        """Note that what has changed is in the file."""
        self._changed.clear()

    def reserve(self, request: ReservationRequest) -> Grant:
        """Take what a stream may cost from its accounts; `hold` it for the stream then.

        Raises:
            LimitReached: one of them has not enough left; nothing is taken.
        """
        self._load(request.accounts)
        grant = reserve(self._states, request)
        self._changed.update(account.name for account in request.accounts)
        return grant

    def hold(self, key: int, request: ReservationRequest, grant: Grant) -> None:
        """Store the reservation of a stream."""
        held = _encode(Held(request, grant.output_tokens))
        self._execute("INSERT INTO held VALUES (?, ?)", (key, held))

    def settle(self, key: int, stream: str, settlement: Settlement) -> bool:
        """Settle a stream and store its row; False if it has no reservation left.

        Then this or another process has settled it.
        """
        found = self._execute("DELETE FROM held WHERE stream = ? RETURNING held", (key,)).fetchall()
        if not found:
            return False
        try:
            held = _decode_held(found[0][0])
        except msgspec.MsgspecError as error:
            log.error("what a stream holds cannot be read", stream=stream, error=str(error))
        else:
            self._load(held.request.accounts)
            reservation = held.request.reservation(held.output_tokens)
            settle(self._states, held.request, reservation, settlement)
            self._changed.update(account.name for account in held.request.accounts)
        if settlement.row:
            self._add_row(stream, settlement.row)
        return True

    def forget_idle(self, *, now: float) -> None:
        """Remove some accounts that were last used before the previous month."""
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

    def count_rows(self) -> int:
        """Return how many rows wait."""
        return int(self._execute("SELECT count(*) FROM waiting_rows").fetchone()[0])

    def forget_rows(self, streams: Iterable[str]) -> None:
        for stream in streams:
            self._execute("DELETE FROM waiting_rows WHERE stream = ?", (stream,))

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
    except OverflowError:  # somebody asked for more than there is, where nothing limits it
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

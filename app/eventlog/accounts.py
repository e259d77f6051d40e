"""The accounts beside a log: only the log changes them.

A log with transactions reserves and settles in those. Any other log calls a `MemoryAccounts`
from three places, with no `await` between the call and the change of the stream:

- `create` calls `reserve` before the stream can be found; a `LimitReached` leaves no stream.
- `append` of a `stream.end` calls `settle` before a reader can see that end.
- Removing a stream calls `settle`: with the settlement of its `Close` if it was running, else
  with `NOTHING`. A stream is settled once: later calls change nothing.
"""

from collections.abc import Sequence
from copy import deepcopy as copy
from typing import Protocol

from ..ledger.accounts import (
    AccountState,
    Grant,
    Reservation,
    Settlement,
    fresh_states,
    is_over,
    reserve,
    settle,
)
from .stream_info import StreamInfo
from .waiting_rows import MemoryRows

FEW_ACCOUNTS = 1000
"""How many accounts are stored before the first cleanup (about 1 KiB each)."""


class Accounts(Protocol):
    """Read access to accounts."""

    async def read_accounts(self, names: Sequence[str]) -> list[AccountState]:
        """Return the states of accounts in the order of the names; zeros for an unknown one.

        Their periods may be over: see `AccountState.turn`.
        """


class MemoryAccounts:
    """The accounts of one process, and the `rows` of settled streams; gone with the process."""

    def __init__(self, rows: MemoryRows | None = None) -> None:
        self.rows = rows or MemoryRows()
        self._accounts: dict[str, AccountState] = {}
        self._clean_at = FEW_ACCOUNTS
        self._reserved: dict[str, Reservation] = {}
        """The reservation of each running stream that has accounts."""

    async def read_accounts(self, names: Sequence[str]) -> list[AccountState]:
        return [copy(self._accounts.get(name) or AccountState()) for name in names]

    def reserve(self, info: StreamInfo) -> Grant | None:
        """Reserve `info.reserve` for a new stream; None if there is nothing to reserve.

        Raises:
            LimitReached: an account lacks room; nothing is reserved.
        """
        request = info.reserve
        if request is None:
            return None
        states = fresh_states(self._accounts, request.accounts)
        grant = reserve(states, request)
        self._accounts |= states
        if len(self._accounts) > self._clean_at:
            self._clean(request.day)
        self._reserved[info.id] = request.reservation(grant.output_tokens)
        return grant

    def settle(self, info: StreamInfo, settlement: Settlement) -> None:
        """Replace the reservation of a stream by its cost, and store its row; once per stream."""
        reserved = self._reserved.pop(info.id, None)
        if reserved is None or info.reserve is None:
            return
        settle(self._accounts, info.reserve, reserved, settlement)
        if settlement.row:
            self.rows.add(info.id, settlement.row)

    def _clean(self, day: int) -> None:
        """Remove idle accounts of past periods; doubling the threshold keeps this linear."""
        self._accounts = {
            name: state for name, state in self._accounts.items() if not is_over(name, state, day)
        }
        self._clean_at = max(FEW_ACCOUNTS, 2 * len(self._accounts))

"""Accounts, reservations and rows in Redis: arguments and replies of the scripts."""

import asyncio
from collections.abc import Sequence
from struct import iter_unpack
from typing import NamedTuple, NoReturn

import msgspec

from ...errors import ServiceError
from ...ledger.accounts import (
    Account,
    AccountState,
    Grant,
    Period,
    Reservation,
    ReservationRequest,
    Settlement,
    fresh_states,
    reserve,
    with_rate_limits,
)
from ...ledger.config import LIMITS
from ..stream_info import StreamInfo, unpack_info
from ..waiting_rows import RECORDS, Dropped
from .account_scripts import HELD, USED, account_key, queue_keys
from .failures import result_of
from .link import Link
from .orphans import Lease
from .scripts import HOLD, PUT_BACK_ROW, TAKE_ROWS

FORGOTTEN_AT_ONCE = 1000

_encode = msgspec.msgpack.Encoder().encode


class Hold(NamedTuple):
    """The reservation of a stream."""

    info: StreamInfo
    reserved: Reservation


# Arguments of scripts


def pack_request(info: StreamInfo, *, given: int | None = None, redis_time: bool = True) -> bytes:
    """Pack the reservation for CREATE; empty if nothing is counted.

    A length `given` before is reserved again, even beyond the limit. Day, month and minute go by
    the clock of Redis; without `redis_time`, by that of the request.
    """
    request = info.reserve
    if request is None:
        return b""
    return _encode(
        (
            -1 if redis_time else int(request.at * 1000),
            request.input_tokens + request.again_tokens,
            *(request.output_tokens, request.least_output_tokens, request.choices),
            *(request.input_nano_usd + request.again_nano_usd, request.output_nano_usd),
            -1 if given is None else given,
            [_pack_account(account, request) for account in request.accounts],
        )
    )


def _pack_account(account: Account, request: ReservationRequest) -> list[object]:
    limits = []
    for limit in LIMITS:
        if (most := getattr(account, limit.field)) is not None:
            start, each = request.need(limit)
            if start or each:
                limits.append((most - start, each, *USED[limit]))
    return [account_key(account.name), account.counts_minutes, limits]


def pack_settlement(spent: Settlement, queues: bytes) -> bytes:
    """Pack the settlement for APPEND, END and DELETE, with the queues of its row."""
    nano = -1 if spent.nano_usd is None else spent.nano_usd
    numbers = (spent.input_tokens, spent.output_tokens, nano, spent.streams)
    return b"%d %d %d %d %s %s" % (*numbers, queues, spent.row)


# Replies of scripts


def grant_from(reply: Sequence[int], request: ReservationRequest) -> Grant:
    """Unpack the reservation from the reply of CREATE."""
    request = msgspec.structs.replace(request, at=reply[1] / 1000)
    grant = Grant(reply[0])
    for at in range(2, len(reply), 4):
        number, requests, tokens, last = reply[at : at + 4]
        state = AccountState(spans={last: (requests, tokens)})
        grant = with_rate_limits(grant, request.accounts[number - 1], state, request)
    return grant


def refuse(looked: Sequence[bytes], at_ms: int, request: ReservationRequest) -> NoReturn:
    """Raise what CREATE has refused a stream for, which has looked at these accounts then.

    Raises:
        LimitReached: as `reserve` says it.
    """
    request = msgspec.structs.replace(request, at=at_ms / 1000)
    found = zip(request.accounts, looked, strict=False)
    states = {account.name: state_from(packed) for account, packed in found}
    reserve(fresh_states(states, request.accounts), request)
    raise ServiceError("internal", "the event log refuses what its accounts have room for")


def state_from(packed: bytes | None) -> AccountState:
    """Unpack an account; zeros if Redis has none."""
    if not packed:
        return AccountState()
    numbers = [int(number) for (number,) in iter_unpack("<d", packed)]
    minute = {numbers[at]: (numbers[at + 1], numbers[at + 2]) for at in range(15, len(numbers), 3)}
    day, month, ahead = (minute.pop(mark, (0, 0)) for mark in (-2, -9, -16))
    return AccountState(
        *(numbers[0], Period(*(*numbers[1:8], *day)), Period(*(*numbers[8:15], *month))),
        *(minute, ahead[0]),
    )


async def hold_of(link: Link, stream: str) -> Hold | None:
    """Read the reservation of a stream; None without one."""
    found: list[bytes] | None = await link.run(HOLD, [HELD], stream)
    if found is None:
        return None
    tokens, nano, info = found
    return Hold(unpack_info(info, stream, started_at=0), Reservation(int(tokens), int(nano)))


class Rows:
    """The waiting rows of all processes that share a Redis.

    A row for the records is leased to one process at a time, for two leases; then another may
    take it.
    """

    def __init__(self, link: Link, *, lease: Lease) -> None:
        self._link = link
        self._lease = lease
        self._taken: dict[str, bytes] = {}
        self._taken_until = 0.0
        """Until when they are leased to this process, by the loop's clock."""
        self._dropped = Dropped()

    async def some(self, *, limit: int) -> list[tuple[str, bytes]]:
        """Return some rows, those already leased first."""
        now = asyncio.get_running_loop().time()
        if now >= self._taken_until:
            self._taken.clear()
        if (more := limit - len(self._taken)) > 0:
            times = 2 * self._lease.s
            until = self._taken_until if self._taken else now + times
            found = await self.take(RECORDS, limit=more, for_s=times)
            self._taken_until = until
            self._taken.update(found)
        return [*self._taken.items()][:limit]

    async def take(self, queue: str, *, limit: int, for_s: float) -> list[tuple[str, bytes]]:
        """Lease some rows of a queue."""
        sent = self._link.run(TAKE_ROWS, [*queue_keys(queue)], limit, int(for_s * 1000))
        dropped, *found = await result_of(sent)
        self._dropped.add(dropped)
        streams = [stream.decode() for stream in found[::2]]
        return [*zip(streams, found[1::2], strict=True)]

    async def put_back(self, queue: str, stream: str, row: bytes, *, after_s: float) -> None:
        """Replace a row, and its lease."""
        keys = [*queue_keys(queue)[:2]]
        await result_of(self._link.run(PUT_BACK_ROW, keys, stream, row, int(after_s * 1000)))

    async def count(self, queue: str) -> int:
        """Return how many rows wait."""
        found: int = await result_of(self._link.send("ZCARD", queue_keys(queue)[1]))
        return found

    async def forget(self, streams: Sequence[str], queue: str) -> None:
        """Remove rows that their consumer has."""
        rows, due, _ = queue_keys(queue)
        for at in range(0, len(streams), FORGOTTEN_AT_ONCE):
            some = streams[at : at + FORGOTTEN_AT_ONCE]
            # In this order: TAKE_ROWS removes the rest of a row that is half removed.
            forgotten = self._link.send("HDEL", rows, *some)
            await result_of(self._link.send("ZREM", due, *some))
            await result_of(forgotten)
            for stream in some if queue == RECORDS else ():
                self._taken.pop(stream, None)

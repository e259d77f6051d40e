"""A process whose streams cost something, and that says what was taken; made to be killed.

python -m tests.eventlog.spender PATH PREFIX [shared] [open]

With `open` it does nothing but open the log, which ends what others have left, some at a time.
"""

import asyncio
import contextlib
import random
import sys

import structlog

from app.errors import RelayError
from app.eventlog.recovery import Closing, OrphanedStream
from app.eventlog.sqlite import database
from app.eventlog.sqlite.log import SqliteLog
from app.eventlog.stream_info import StreamInfo
from app.events import StreamEnd, StreamStart, TextDelta
from app.ledger.accounts import Account, ReservationRequest, Settlement

AT = 1_700_000_000.0
NAMES = ("relay", "tenant:a", "tenant:b")
STREAMS = 150
"""At once."""


def reserving(dice: random.Random) -> ReservationRequest:
    """Return what is reserved: something of the relay's and of one tenant's money."""
    tenant = dice.choice(NAMES[1:])
    accounts = (Account("relay", nano_usd_per_day=10**15), Account(tenant, streams=10**6))
    return ReservationRequest(
        accounts,
        AT,
        input_tokens=10,
        output_tokens=100,
        least_output_tokens=1,
        input_nano_usd=10,
        output_nano_usd=1,
    )


def costing(nano: int) -> Settlement:
    """Return the settlement of a stream whose row says what it cost."""
    return Settlement(10, 20, nano, row=b"%d" % nano)


def close(lost: OrphanedStream) -> Closing:
    """Have a lost stream cost what it has."""
    return Closing(lost.ended, costing(1_000 + lost.weight))


async def spend(event_log: SqliteLog, prefix: str, number: int) -> None:
    """Run streams one after the other, which end in all the ways in which they may."""
    dice = random.Random(f"{prefix}{number}")
    for count in range(10**9):
        stream = f"{prefix}-{number}-{count}"
        creating = event_log.create(StreamInfo(stream, reserve=reserving(dice)))
        if dice.random() < 0.1:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(creating, 0.001)
                await event_log.delete(stream)
            continue
        await creating
        if dice.random() < 0.1:
            await event_log.delete(stream)
            continue
        await event_log.append(stream, [StreamStart(stream, "demo", 0)])
        print("begun", stream, 0, flush=True)
        for _ in range(dice.randrange(4)):
            await event_log.append(stream, [TextDelta(0, "1234")])
        if dice.random() < 0.2:
            await event_log.delete(stream)
            continue
        nano = dice.randrange(1_000)
        await event_log.append(stream, [StreamEnd("completed", "stop")], costing(nano))
        print("ended", stream, nano, flush=True)


async def main(path: str, prefix: str, *options: str) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    event_log = SqliteLog(path, retention_s=1000, max_bytes=10**9, shared="shared" in options)
    if "open" in options:
        database.RECOVERED_AT_ONCE = 2
    await event_log.open(close=close)
    if "open" in options:
        await event_log.close()
        return
    with contextlib.suppress(RelayError):
        await asyncio.gather(*(spend(event_log, prefix, number) for number in range(STREAMS)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A process that runs paid streams for ever and says what it knows of them; made to be killed.

python -m tests.replicas.books_producer URL NAME STREAMS
"""

import asyncio
import contextlib
import random
import sys
import time

from app.errors import RelayError
from app.eventlog.recovery import Closing, OrphanedStream
from app.eventlog.redis.address import Address
from app.eventlog.redis.log import RedisLog
from app.eventlog.stream_info import StreamInfo
from app.events import StreamEnd, StreamStart, TextDelta
from app.ledger.accounts import Account, ReservationRequest, Settlement

ACCOUNTS = (
    Account("relay", nano_usd_per_month=10**12),
    Account("tenant:a", streams=40, requests_per_minute=10**6),
    Account("key:a", tokens_per_minute=10**9),
    Account("user:a:a", nano_usd_per_day=10**12),
)


def asking() -> ReservationRequest:
    return ReservationRequest(
        ACCOUNTS,
        time.time(),
        input_tokens=10,
        output_tokens=100,
        least_output_tokens=5,
        input_nano_usd=10,
        output_nano_usd=1,
    )


def close(lost: OrphanedStream) -> Closing:
    """Cost as many nano-USD as the answer has quarters of tokens, or what was held."""
    nano = lost.weight if lost.reserved is None else lost.reserved.nano_usd
    return Closing(lost.ended, spent(nano))


def spent(nano: int) -> Settlement:
    return Settlement(10, nano, nano, row=b"%d" % nano)


async def opened(url: str) -> RedisLog:
    event_log = RedisLog(Address(url), retention_s=600, max_bytes=10**9)
    await event_log.open(close=close)
    return event_log


async def produce(event_log: RedisLog, name: str) -> None:
    """Run streams one after the other; say of each that it was begun, once the log has it."""
    number = 0
    while True:
        number += 1
        stream = f"st_{name}_{number}"
        with contextlib.suppress(RelayError, ValueError):
            key = stream if number % 3 == 0 else None
            await event_log.create(
                StreamInfo(stream, route="r", key=key, reserve=asking(), request=b"asked")
            )
            if number % 10 == 0:
                await event_log.delete(stream)  # it never began
                continue
            await event_log.append(stream, [StreamStart(stream, "demo", 0)])
            print(stream, flush=True)
            for _ in range(random.randrange(6)):
                await asyncio.sleep(random.uniform(0, 0.05))
                await event_log.append(stream, [TextDelta(0, "abcd")])
            if number % 10 == 5:
                await event_log.delete(stream)
                continue
            await event_log.append(stream, [StreamEnd("completed", "stop")], spent(7))
            continue
        await asyncio.sleep(0.05)


async def main(url: str, name: str, streams: int) -> None:
    event_log = await opened(url)
    await asyncio.gather(*(produce(event_log, f"{name}_{line}") for line in range(streams)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

"""A process that appends to streams for ever and says what was taken; made to be killed.

python -m tests.eventlog.producer PATH STREAMS [shared]
"""

import asyncio
import sys

from app.eventlog.sqlite.log import SqliteLog
from app.events import Event, StreamStart, TextDelta, TextStart, ToolCallDelta, ToolCallStart
from tests.eventlog.creating import create


async def produce(event_log: SqliteLog, stream: str) -> None:
    await create(event_log, stream)
    head: list[Event] = [StreamStart(stream, "demo", 0), TextStart(0), ToolCallStart(1, "c", "f")]
    await event_log.append(stream, head)
    number = len(head)
    print(stream, number, flush=True)
    while True:
        batch: list[Event] = [TextDelta(0, f"{number + 1}"), ToolCallDelta(1, f"{number + 2},")]
        await event_log.append(stream, batch)
        number += len(batch)
        print(stream, number, flush=True)


async def main(path: str, streams: int, *, shared: bool) -> None:
    event_log = SqliteLog(path, retention_s=1000, max_bytes=10**9, shared=shared)
    await event_log.open()
    await asyncio.gather(*(produce(event_log, f"st_{number}") for number in range(streams)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), shared="shared" in sys.argv[3:]))

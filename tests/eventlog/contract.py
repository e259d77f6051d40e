"""What every event log has to do, whatever it keeps the events in.

A test module for one of them imports `*` from here and gives a fixture `event_log`.
"""

import asyncio
from collections.abc import Sequence

import pytest

from app.errors import RequestError
from app.eventlog import EventLog, LogState
from app.events import Event, StreamEnd, StreamStart, TextDelta

START = StreamStart("st_1", "demo", 0)
END = StreamEnd("completed", "stop")


def deltas(*texts: str) -> list[Event]:
    return [TextDelta(0, text) for text in texts]


async def filled(event_log: EventLog, *batches: Sequence[Event]) -> None:
    await event_log.create("st_1")
    for batch in batches:
        await event_log.append("st_1", batch)


async def test_events_come_back_in_order_after_the_cursor(event_log):
    events = [START, *deltas("a", "b", "c"), END]
    await filled(event_log, events[:2], events[2:])
    for after in range(len(events) + 1):
        assert events[after:] == list(await event_log.read("st_1", after, timeout_s=0))


async def test_read_waits_for_the_next_event(event_log):
    await filled(event_log, [START])
    reading = asyncio.create_task(event_log.read("st_1", 1, timeout_s=5))
    await asyncio.sleep(0.01)
    assert not reading.done()
    await event_log.append("st_1", deltas("a", "b"))

    assert deltas("a", "b") == list(await asyncio.wait_for(reading, 1))


async def test_read_gives_up_after_its_time(event_log):
    await filled(event_log, [START])

    assert [] == list(await asyncio.wait_for(event_log.read("st_1", 1, timeout_s=0.02), 1))


async def test_all_readers_are_woken(event_log):
    await filled(event_log, [START])
    readings = [asyncio.create_task(event_log.read("st_1", 1, timeout_s=5)) for _ in range(50)]
    await asyncio.sleep(0.01)
    await event_log.append("st_1", deltas("a"))

    assert [deltas("a")] * 50 == [list(await reading) for reading in readings]


async def test_reader_that_goes_away_harms_nobody(event_log):
    await filled(event_log, [START])
    leaving = asyncio.create_task(event_log.read("st_1", 1, timeout_s=5))
    staying = asyncio.create_task(event_log.read("st_1", 1, timeout_s=5))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.sleep(0)
    await event_log.append("st_1", deltas("a"))

    assert deltas("a") == list(await asyncio.wait_for(staying, 1))


async def test_no_reader_misses_or_doubles_while_events_are_added(event_log):
    await filled(event_log, [START])

    async def read_all() -> list[Event]:
        seen: list[Event] = []
        while not seen or seen[-1] != END:
            seen += await event_log.read("st_1", len(seen), timeout_s=1)
        return seen

    readers = [asyncio.create_task(read_all()) for _ in range(20)]
    expected: list[Event] = [START]
    for number in range(200):
        batch = deltas(*(f"{number}.{part}" for part in range(number % 4)))
        if batch:
            await event_log.append("st_1", batch)
            expected += batch
        await asyncio.sleep(0)
    await event_log.append("st_1", [END])
    for reader in readers:
        assert [*expected, END] == await asyncio.wait_for(reader, 5)


async def test_state_tells_how_far_it_is(event_log):
    await filled(event_log)
    assert LogState(0, False) == await event_log.state("st_1")
    await event_log.append("st_1", [START])
    assert LogState(1, False) == await event_log.state("st_1")
    await event_log.append("st_1", [END])
    assert LogState(2, True) == await event_log.state("st_1")


async def test_read_at_the_end_of_an_ended_stream_does_not_wait(event_log):
    await filled(event_log, [START, END])

    assert [] == list(await asyncio.wait_for(event_log.read("st_1", 2, timeout_s=60), 1))


async def test_nothing_is_added_after_the_end(event_log):
    await filled(event_log, [START, END])
    with pytest.raises(ValueError, match="has ended"):
        await event_log.append("st_1", deltas("a"))


async def test_unknown_stream_is_told(event_log):
    with pytest.raises(RequestError) as caught:
        await event_log.read("st_2", 0, timeout_s=0)

    assert "not_found" == caught.value.code


async def test_deleted_stream_is_gone(event_log):
    await filled(event_log, [START, END])
    await event_log.delete("st_1")
    with pytest.raises(RequestError) as caught:
        await event_log.state("st_1")

    assert "stream_expired" == caught.value.code

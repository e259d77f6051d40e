"""The contract of every event log: events and names.

The test module of a log imports `*` from here and has a fixture `event_log`, which is open, has
the `LIMITS` and the fixture `callbacks`, and takes the time from the fixture `clock`. The contracts of what a log may have
beside it are `accounts_contract`, `rows_contract` and `broadcast_contract`.
"""

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from app.errors import RelayError, RequestError, ServiceError
from app.eventlog import Claim, EventLog, LogState, StreamExpired, read_all
from app.eventlog.contract import ChatBusy, Placed
from app.eventlog.listing import ListedStream, ListPosition, parse_position
from app.eventlog.recovery import Close, close_free
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo, scoped
from app.events import Event, StreamEnd, StreamStart, TextDelta
from app.ledger.accounts import Settlement
from tests.eventlog.creating import create, found
from tests.waiting import until

START = StreamStart("st_1", "demo", 0)
END = StreamEnd("completed", "stop")
LIMITS = {
    "retention_s": 100,
    "max_bytes": 1_000_000,
    "max_stream_bytes": 400_000,
    "max_stream_events": 2500,
}


class Clock:
    """Seconds that pass when a test says so."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Callbacks:
    """The callbacks of one log, or of several that share a storage, and what they received."""

    def __init__(self) -> None:
        self.ended: list[StreamEnded] = []
        self.stopped: list[tuple[str, str]] = []
        self.close: Close = close_free

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `EventLog.open`."""
        return {
            "on_ended": self.ended.append,
            "close": lambda orphan: self.close(orphan),
            "on_stop": lambda *stop: self.stopped.append(stop),
        }


class Elsewhere:
    """An event log whose streams are produced by `there` and read, named and removed by `here`.

    So what is reserved and settled there is seen here, in the accounts and the rows.
    """

    def __init__(self, there: EventLog, here: EventLog) -> None:
        self._there = there
        self._here = here

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        return await self._there.create(info, over=over)

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        return await self._there.append(stream, events, settlement)

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        return self._there.push(stream, events)

    def produced(self, stream: str) -> Sequence[Event]:
        return self._there.produced(stream)

    def __getattr__(self, name: str):
        return getattr(self._here, name)


def deltas(*texts: str) -> list[Event]:
    return [TextDelta(0, text) for text in texts]


def many(count: int) -> list[Event]:
    return deltas(*map(str, range(count)))


async def filled(event_log: EventLog, *batches: Sequence[Event]) -> None:
    await create(event_log, "st_1")
    for batch in batches:
        await event_log.append("st_1", batch)


async def ended(event_log: EventLog, stream: str, size: int = 1) -> None:
    """Make a stream that has ended, with a text of so many characters."""
    await create(event_log, stream)
    await event_log.append(stream, [StreamStart(stream, "demo", 0), *deltas("x" * size), END])


async def read_to_end(event_log: EventLog, after: int = 0) -> list[Event]:
    seen: list[Event] = []
    while not seen or seen[-1] != END:
        seen += await event_log.read("st_1", after + len(seen), timeout_s=1, limit=50)
    return seen


async def let_wait(event_log: EventLog, *readings: "asyncio.Task[Sequence[Event]]") -> None:
    """Let reads of the stream begin to wait: what is asked later is answered later."""
    for _ in range(5):
        await event_log.state("st_1")
        await asyncio.sleep(0)
    assert not any(reading.done() for reading in readings)


async def code_of(event_log: EventLog, stream: str) -> str | None:
    """Return the code of the error that a look at the stream ends in."""
    try:
        await event_log.state(stream)
    except RelayError as error:
        return error.code
    return None


async def test_events_come_back_in_order_after_the_cursor(event_log):
    events = [START, *deltas("a", "b", "c"), END]
    await filled(event_log, events[:2], events[2:])
    for after in range(len(events) + 1):
        assert events[after:] == list(await event_log.read("st_1", after, timeout_s=0))


async def test_log_that_keeps_events_is_healthy(event_log):
    assert event_log.healthy()
    await filled(event_log, [START, END])
    assert event_log.healthy()


async def test_size_is_what_this_process_keeps(event_log):
    assert (0, 0) == event_log.size()
    await filled(event_log, [START])
    streams, begun = event_log.size()
    await event_log.append("st_1", deltas("a" * 1000))

    grown = 1000 if streams else 0  # what another process produces is in the memory of that
    assert event_log.size() == (streams, pytest.approx(begun + grown, abs=500 if grown else 0))
    assert streams in (0, 1)


async def test_read_gives_no_more_than_asked_for(event_log):
    events = [START, *many(1500), END]
    await filled(event_log, events[:700], events[700:])
    for after, limit in ((0, 1), (1, 2), (699, 2), (500, 500), (1500, 10), (1502, 1)):
        page = list(await event_log.read("st_1", after, timeout_s=0, limit=limit))

        assert events[after : after + limit] == page
    assert 1000 == len(await event_log.read("st_1", 0, timeout_s=0))
    assert events == await read_all(event_log, "st_1")


async def test_read_waits_for_the_next_event(event_log):
    await filled(event_log, [START])
    reading = asyncio.create_task(event_log.read("st_1", 1, timeout_s=60))
    await let_wait(event_log, reading)
    await event_log.append("st_1", deltas("a", "b"))

    assert deltas("a", "b") == list(await asyncio.wait_for(reading, 20))


async def test_read_ahead_waits_though_earlier_events_come(event_log):
    """As a producer does whose last batches are not stored yet."""
    await filled(event_log, [START])
    reading = asyncio.create_task(event_log.read("st_1", 2, timeout_s=20))
    await let_wait(event_log, reading)
    await event_log.append("st_1", deltas("a"))
    await event_log.append("st_1", deltas("b"))

    assert deltas("b") == list(await asyncio.wait_for(reading, 20))


async def test_read_gives_up_after_its_time(event_log):
    await filled(event_log, [START])

    assert [] == list(await asyncio.wait_for(event_log.read("st_1", 1, timeout_s=0.02), 20))


async def test_all_readers_are_woken(event_log):
    await filled(event_log, [START])
    readings = [asyncio.create_task(event_log.read("st_1", 1, timeout_s=20)) for _ in range(50)]
    await let_wait(event_log, *readings)
    await event_log.append("st_1", deltas("a"))

    assert [deltas("a")] * 50 == [list(await reading) for reading in readings]


async def test_reader_that_goes_away_harms_nobody(event_log):
    await filled(event_log, [START])
    leaving = asyncio.create_task(event_log.read("st_1", 1, timeout_s=60))
    staying = asyncio.create_task(event_log.read("st_1", 1, timeout_s=60))
    await let_wait(event_log, leaving, staying)
    leaving.cancel()
    await asyncio.sleep(0)
    await event_log.append("st_1", deltas("a"))

    assert deltas("a") == list(await asyncio.wait_for(staying, 20))


async def test_no_reader_misses_or_doubles_while_events_are_added(event_log):
    """Two hundred readers come at random places and times."""
    chance = random.Random(7)
    expected: list[Event] = [START]
    await filled(event_log, expected)
    readers: list[tuple[int, asyncio.Task[list[Event]]]] = []
    for number in range(200):
        after = chance.randrange(len(expected) + 1)
        readers.append((after, asyncio.create_task(read_to_end(event_log, after))))
        batch = deltas(*(f"{number}.{part}" for part in range(chance.randrange(4))))
        if batch:
            await event_log.append("st_1", batch)
            expected += batch
        await asyncio.sleep(0)
    await event_log.append("st_1", [END])
    expected.append(END)
    for after, reader in readers:
        assert expected[after:] == await asyncio.wait_for(reader, 20)


async def test_state_tells_how_far_it_is(event_log, clock):
    start = clock.now
    await filled(event_log)
    assert LogState(0, False, started_at=start, ended_at=None) == await event_log.state("st_1")
    await event_log.append("st_1", [START])
    assert LogState(1, False, started_at=start, ended_at=None) == await event_log.state("st_1")
    clock.now += 7
    await event_log.append("st_1", [END])
    assert LogState(2, True, started_at=start, ended_at=start + 7) == await event_log.state("st_1")


async def test_read_at_the_end_of_an_ended_stream_does_not_wait(event_log):
    await filled(event_log, [START, END])

    assert [] == list(await asyncio.wait_for(event_log.read("st_1", 2, timeout_s=60), 20))


async def test_nothing_is_added_after_the_end(event_log):
    await filled(event_log, [START, END])
    with pytest.raises(ValueError, match="has ended"):
        await event_log.append("st_1", deltas("a"))


async def test_cancelled_append_is_made_before_the_next_one(event_log):
    await filled(event_log, [START])
    cancelled = asyncio.create_task(event_log.append("st_1", deltas("a")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await event_log.append("st_1", deltas("b"))

    assert [START, *deltas("a", "b")] == await read_all(event_log, "st_1")


async def test_events_that_can_be_pushed_are_added_before_later_ones(event_log):
    expected: list[Event] = [START]
    await filled(event_log, expected)
    for number in range(300):
        batch = deltas(f"{number}")
        if number % 7 == 0 or not event_log.push("st_1", batch):
            await event_log.append("st_1", batch)
        expected += batch
    await event_log.append("st_1", [END])
    assert not event_log.push("st_1", deltas("late"))
    assert not event_log.push("st_2", deltas("nowhere"))

    assert [*expected, END] == await read_all(event_log, "st_1")


async def test_all_that_was_appended_is_known_where_it_is_produced(event_log):
    await create(event_log, "st_1")
    await event_log.append("st_1", [START])
    texts = many(20)
    for text in texts:
        if not event_log.push("st_1", [text]):
            await event_log.append("st_1", [text])
    assert [START, *texts] == [*event_log.produced("st_1")]
    await event_log.append("st_1", [END])
    assert [] == [*event_log.produced("st_2")]


async def test_unknown_stream_is_told(event_log):
    assert "not_found" == await code_of(event_log, "st_2")
    with pytest.raises(RequestError):
        await event_log.read("st_2", 0, timeout_s=0)
    with pytest.raises(RequestError):
        await event_log.append("st_2", [START])
    with pytest.raises(RequestError):
        await event_log.delete("st_2")


async def test_deleted_stream_is_gone(event_log):
    await filled(event_log, [START, END])
    await event_log.delete("st_1")

    with pytest.raises(RequestError, match="it was deleted, or made room, or its 100 s") as caught:
        await event_log.state("st_1")
    assert "stream_expired" == caught.value.code


async def test_stream_deleted_under_its_reader_and_its_producer(event_log):
    await filled(event_log, [START])
    reading = asyncio.create_task(event_log.read("st_1", 1, timeout_s=60))
    await let_wait(event_log, reading)
    await event_log.delete("st_1")

    assert [] == list(await asyncio.wait_for(reading, 20))
    with pytest.raises(RequestError, match="is gone"):
        await event_log.read("st_1", 1, timeout_s=20)
    with pytest.raises(RequestError, match="is gone"):
        await event_log.append("st_1", deltas("a"))


async def list_all(event_log: EventLog, owner: str, *, limit: int = 2) -> list[ListedStream]:
    """Return the whole list of an owner, page by page, its positions passed on as text."""
    found: list[ListedStream] = []
    for is_ended in (False, True):
        page: Sequence[ListedStream] = [None] * limit  # type: ignore[list-item]
        after = ListPosition(ended=is_ended)
        while len(page) == limit:
            page = await event_log.list_streams(owner, after, limit=limit)
            assert all(one.position.ended == is_ended for one in page)
            found += page
            if page:
                position = parse_position(str(page[-1].position))
                assert position == page[-1].position
                after = position
    return found


async def test_streams_of_an_owner_are_listed_the_newest_first(event_log, clock):
    for number in range(7):
        clock.now += number % 3  # some start or end at one time
        owner = "other" if number == 3 else "me"
        await create(event_log, f"st_{number}", owner=owner, model="m", metadata={"n": f"{number}"})
        await event_log.append(f"st_{number}", [START])
    await create(event_log, "st_nobody")
    for number in (5, 0, 1, 3):
        await event_log.append(f"st_{number}", [END])
        clock.now += 1 if number == 5 else 0

    listed = await list_all(event_log, "me")
    assert ["st_6", "st_4", "st_2"] == [one.stream for one in listed[:3]]
    assert {"st_0", "st_1"} == {one.stream for one in listed[3:5]}
    assert "st_5" == listed[5].stream
    assert len(listed) == 6
    assert ["st_3"] == [one.stream for one in await list_all(event_log, "other")]
    assert [] == await list_all(event_log, "") == await list_all(event_log, "me:")
    for one in listed:
        state = await event_log.state(one.stream)
        assert ("m", {"n": one.stream[3:]}) == (one.model, one.metadata)
        assert (state.started_at, state.ended_at) == (one.started_at, one.ended_at)
        ending = ("completed", 2) if state.ended else (None, 0)
        assert ending == (one.status, one.last)


async def test_places_rise_though_clocks_step_back_and_the_part_was_empty(event_log, clock):
    """So a cursor of one place misses no later entry, whichever process stores it."""
    places: dict[bool, list[float]] = {False: [], True: []}
    for number in range(12):
        clock.now += (0, 0, 5, -3600)[number % 4]
        stream = f"st_{number}"
        await create(event_log, stream, owner="me")
        [running] = await event_log.list_streams("me", ListPosition(), limit=2)
        await event_log.append(stream, [START, END])
        ended = await event_log.list_streams("me", ListPosition(ended=True), limit=2)
        if number % 3 == 0:
            await event_log.delete(stream)
        assert running.stream == ended[0].stream == stream
        assert ended[0].ended_at == clock.now == running.started_at
        for one in (running, ended[0]):
            places[one.position.ended].append(one.position.at)
    for part in places.values():
        assert all(before < after for before, after in pairwise(part)), part


async def owners_are_found(first: EventLog, second: EventLog) -> None:
    """Check `changed_owners` of two processes' logs: each change is found once by each mark."""
    mark, owners = await second.changed_owners(0)
    assert owners is None, "without a mark all have changed"
    begun = mark
    for stream, owner in (("st_1", "me"), ("st_2", "you"), ("st_3", "")):
        await create(first, stream, owner=owner)
        await first.append(stream, [START])
    mark, owners = await second.changed_owners(mark)
    assert {"me", "you"} == {*(owners or ())} - {""}
    assert (mark, []) == (await _no_change(second, mark))
    await first.append("st_2", [*deltas("a")])
    assert (mark, []) == (await _no_change(second, mark))
    await first.append("st_1", [END])
    mark, owners = await second.changed_owners(mark)
    assert {"me"} == {*(owners or ())}
    for stream in ("st_4", "st_5"):
        await create(first, stream, owner="you")
    _, owners = await second.changed_owners(begun)
    assert {"me", "you"} == {*(owners or ())} - {""}


async def _no_change(event_log: EventLog, mark: float) -> tuple[float, list[str]]:
    mark, owners = await event_log.changed_owners(mark)
    assert owners is not None
    return mark, [*owners]


async def test_end_that_is_stored_late_has_a_later_place(event_log, clock):
    for stream in ("st_1", "st_2"):
        await create(event_log, stream, owner="me")
        await event_log.append(stream, [START])
    await event_log.append("st_1", [END])
    clock.now -= 50
    await event_log.append("st_2", [END])
    assert ["st_2", "st_1"] == [one.stream for one in await list_all(event_log, "me")]


async def test_stream_that_goes_leaves_the_list(event_log, clock):
    for stream in ("st_1", "st_2", "st_3", "st_4"):
        await create(event_log, stream, owner="me", route="r")
        await event_log.append(stream, [START])
    await event_log.append("st_1", [END])
    await event_log.append("st_2", [END])
    await event_log.delete("st_2")
    await event_log.delete("st_3")
    assert ["st_4", "st_1"] == [one.stream for one in await list_all(event_log, "me")]
    assert "r" == (await list_all(event_log, "me"))[0].model  # the request named none
    clock.now += 100
    assert ["st_4"] == [one.stream for one in await list_all(event_log, "me")]


async def test_list_goes_on_behind_a_stream_that_has_left_its_place(event_log, clock):
    for number in range(6):
        clock.now += 1
        await create(event_log, f"st_{number}", owner="me")
        await event_log.append(f"st_{number}", [START])
    page = await event_log.list_streams("me", ListPosition(), limit=3)
    await event_log.append("st_3", [END])
    await event_log.delete("st_2")
    rest = await event_log.list_streams("me", page[-1].position, limit=3)
    ended = await event_log.list_streams("me", ListPosition(ended=True), limit=3)

    assert ["st_5", "st_4", "st_3"] == [one.stream for one in page]
    assert ["st_1", "st_0"] == [one.stream for one in rest]
    assert ["st_3"] == [one.stream for one in ended]


async def test_ended_stream_is_kept_for_its_time(event_log, clock):
    await ended(event_log, "st_1")
    clock.now += 99
    assert (await event_log.state("st_1")).ended
    clock.now += 1
    with pytest.raises(RequestError) as caught:
        await event_log.read("st_1", 0, timeout_s=0)

    assert "stream_expired" == caught.value.code
    assert "100 s" in caught.value.message


async def test_running_stream_does_not_expire(event_log, clock):
    await create(event_log, "st_1")
    clock.now += 1e6

    assert not (await event_log.state("st_1")).ended


async def test_oldest_ended_streams_make_room(event_log, clock):
    for number in range(5):
        clock.now += 1
        await ended(event_log, f"st_{number}", size=300_000)
    codes = [await code_of(event_log, f"st_{number}") for number in range(5)]

    assert "stream_expired" == codes[0]
    assert [None, None, None] == codes[2:]


async def test_running_streams_that_fill_the_log_refuse_new_ones(event_log):
    for number in range(4):
        await create(event_log, f"st_{number}")
        await event_log.append(f"st_{number}", deltas("x" * 300_000))
    with pytest.raises(ServiceError) as caught:
        await create(event_log, "st_4")
    assert "overloaded" == caught.value.code
    await event_log.append("st_0", [END])
    await create(event_log, "st_4")


@pytest.mark.parametrize(
    ("batch", "limit"),
    [(many(2501), "2500 events"), (deltas("x" * 400_001), "400000 bytes")],
)
async def test_stream_beyond_its_limit_takes_only_its_end(event_log, batch, limit):
    await filled(event_log, [START])
    with pytest.raises(ServiceError, match=limit) as caught:
        await event_log.append("st_1", batch)
    assert "overloaded" == caught.value.code
    assert [START] == await read_all(event_log, "st_1")
    await event_log.append("st_1", [*batch, END])

    assert [START, *batch, END] == await read_all(event_log, "st_1")


async def test_key_stays_with_its_first_stream(event_log):
    first = await create(event_log, "st_1", key="key", digest="d1")
    second = await create(event_log, "st_2", key="key", digest="d2")

    assert Claim("st_1", "d1") == first == second == await event_log.claimed("key")
    assert "not_found" == await code_of(event_log, "st_2")
    assert Claim("st_2", "d2") == await create(event_log, "st_2", key="other", digest="d2")
    assert Claim("st_3", "") == await create(event_log, "st_3")
    assert None is await event_log.claimed("a third")


async def test_one_of_many_claims_wins(event_log):
    streams = [f"st_{number}" for number in range(50)]
    claims = await asyncio.gather(
        *(create(event_log, stream, key="key", digest=stream) for stream in streams)
    )

    assert 1 == len(set(claims))
    assert claims[0].stream == claims[0].digest
    for stream in streams:
        expected = None if stream == claims[0].stream else "not_found"
        assert expected == await code_of(event_log, stream)


@pytest.mark.parametrize("how", ["delete", "retention"])
async def test_key_is_free_when_its_stream_is_gone(event_log, clock, how):
    await create(event_log, "st_1", key="key", digest="d1")
    await event_log.append("st_1", [START, END])
    clock.now += 99
    assert Claim("st_1", "d1") == await create(event_log, "st_2", key="key", digest="d2")
    if how == "delete":
        await event_log.delete("st_1")
    else:
        clock.now += 1
    assert None is await event_log.claimed("key")

    assert Claim("st_2", "d2") == await create(event_log, "st_2", key="key", digest="d2")


async def test_key_is_taken_over_from_one_stream_once(event_log):
    await create(event_log, "st_1", key="key", digest="d1")
    await event_log.append("st_1", [START, END])
    streams = [f"st_{number}" for number in range(2, 12)]
    claims = await asyncio.gather(
        *(create(event_log, each, key="key", digest="d2", over="st_1") for each in streams)
    )

    assert 1 == len(set(claims))
    assert claims[0] == await event_log.claimed("key")
    assert [START, END] == await read_all(event_log, "st_1")
    await event_log.delete("st_1")
    assert claims[0] == await create(event_log, "st_12", key="key", digest="d2", over="st_1")


async def test_stream_is_found_by_its_name(event_log):
    await create(event_log, "st_1", names=("a chat", "せせらぎ"))
    await create(event_log, "st_2", names=("another",))

    assert None is await found(event_log, "no chat")
    assert "st_1" == await found(event_log, "a chat") == await found(event_log, "せせらぎ")
    assert "st_2" == await found(event_log, "another")


async def test_name_is_that_of_the_stream_named_last(event_log):
    for stream in ("st_1", "st_2"):
        await create(event_log, stream, names=("a chat", "a chat"))
    assert "st_2" == await found(event_log, "a chat")
    await event_log.delete("st_1")
    assert "st_2" == await found(event_log, "a chat")
    await event_log.delete("st_2")
    assert None is await found(event_log, "a chat")


@pytest.mark.parametrize("how", ["delete", "retention"])
async def test_name_is_forgotten_with_its_stream(event_log, clock, how):
    await create(event_log, "st_1", names=("a chat",))
    await event_log.append("st_1", [START, END])
    clock.now += 99
    assert "st_1" == await found(event_log, "a chat")
    if how == "delete":
        await event_log.delete("st_1")
    else:
        clock.now += 1

    assert None is await found(event_log, "a chat")


async def test_stream_that_is_not_created_gets_no_name(event_log):
    await create(event_log, "st_1", key="key", digest="d", names=("a chat",))
    await event_log.append("st_1", [START])
    names = ("a chat", "another")
    claim = await create(event_log, "st_2", key="key", digest="d", names=names)

    assert "st_1" == claim.stream
    assert "st_1" == await found(event_log, "a chat")
    assert None is await found(event_log, "another")


async def test_stream_that_replaces_another_takes_its_key_and_names(event_log):
    await create(event_log, "st_1", key="key", digest="d", names=("a chat", "of the first"))
    await event_log.append("st_1", [START, END])
    names = ("a chat", "of the second")
    claim = await create(event_log, "st_2", key="key", digest="d", over="st_1", names=names)

    assert "st_2" == claim.stream
    assert "st_2" == await found(event_log, "a chat") == await found(event_log, "of the second")
    assert "st_1" == await found(event_log, "of the first")


async def test_every_running_stream_of_a_name_is_found(event_log):
    for stream, name in (("st_1", "a chat"), ("st_2", "a chat"), ("st_3", "a chat\x1fst_9")):
        await create(event_log, stream, names=(name, f"of {stream}"))
        await event_log.append(stream, [START])
    await create(event_log, "st_4", owner="a", names=("a chat",))

    assert {"st_1", "st_2"} == set(await event_log.named(scoped("", "a chat")))
    assert ["st_4"] == list(await event_log.named(scoped("a", "a chat")))
    await event_log.delete("st_2")
    assert "st_1" in await event_log.named(scoped("", "a chat"))
    assert not await event_log.named(scoped("", "another"))


async def test_stream_that_is_to_run_alone_is_refused_while_another_of_its_name_runs(event_log):
    for stream in ("st_1", "st_2"):
        await create(event_log, stream, names=("a chat",))
        await event_log.append(stream, [START])
    await create(event_log, "st_3", names=("another",), alone=True)
    await create(event_log, "st_4", owner="a", names=("a chat",), alone=True)
    for running in ("st_2", "st_1"):
        with pytest.raises(ChatBusy) as refused:
            await create(event_log, "st_5", key="key", names=("a chat", "b"), alone=True)
        assert "conflict" == refused.value.code
        assert refused.value.stream in ("st_1", "st_2")
        assert "st_2" == await found(event_log, "a chat")
        assert None is await found(event_log, "b")
        assert None is await event_log.claimed("key")
        await event_log.append(running, [END])

    await create(event_log, "st_5", key="key", names=("a chat", "b"), alone=True)
    await event_log.append("st_5", [START])
    again = await create(event_log, "st_6", key="key", names=("a chat",), alone=True)
    assert "st_5" == again.stream
    await event_log.delete("st_5")
    await create(event_log, "st_7", names=("a chat",), alone=True)


async def test_first_of_many_streams_of_a_name_is_still_known_to_run(event_log):
    await create(event_log, "st_1", names=("a chat",))
    await event_log.append("st_1", [START])
    for n in range(2, 90):
        await create(event_log, f"st_{n}", names=("a chat",))
        await event_log.append(f"st_{n}", [START, END])

    assert "st_1" in await event_log.named(scoped("", "a chat"))
    with pytest.raises(ChatBusy, match="st_1 is running"):
        await create(event_log, "st_90", names=("a chat",), alone=True)


async def test_one_of_many_streams_that_are_to_run_alone_is_created(event_log):
    streams = [f"st_{n}" for n in range(20)]
    opening = (create(event_log, one, names=("a chat",), alone=True) for one in streams)
    opened = await asyncio.gather(*opening, return_exceptions=True)

    (claim,) = [one for one in opened if isinstance(one, Claim)]
    others = [one for one in opened if one is not claim]
    assert {claim.stream} == {one.stream for one in others if isinstance(one, ChatBusy)}
    assert [claim.stream] == list(await event_log.named(scoped("", "a chat")))
    assert 19 == len(others)


async def test_forgotten_name_leads_to_the_next_stream_only(event_log):
    for stream in ("st_1", "st_2"):
        await create(event_log, stream, names=("a chat", f"of {stream}"))
        await event_log.append(stream, [START])
    await event_log.forget_names("st_1")  # the chat's name leads to another by now
    assert None is await found(event_log, "of st_1")
    assert "st_2" == await found(event_log, "a chat")
    for _ in range(2):
        await event_log.forget_names("st_2")
        assert None is await found(event_log, "a chat")
        assert {"st_1", "st_2"} == set(await event_log.named(scoped("", "a chat")))
    await create(event_log, "st_3", names=("a chat",))
    assert "st_3" == await found(event_log, "a chat")
    assert {"st_1", "st_2", "st_3"} == set(await event_log.named(scoped("", "a chat")))
    await event_log.delete("st_3")
    assert None is await found(event_log, "a chat")


async def test_look_tells_what_state_and_reading_tell(event_log, clock):
    await create(event_log, "st_1", names=("a chat",))
    await event_log.append("st_1", [START, *deltas("a", "b")])
    for ends in (False, True):
        for after in (0, 1, 3, 4, 99):
            look = await event_log.look("st_1", after, limit=2)
            assert "st_1" == look.stream
            assert await event_log.state("st_1") == look.state
            assert look == await event_log.find("a chat", after, limit=2)
            assert list(look.events) in ([], [START, *deltas("a", "b"), END][after : after + 2])
            assert () == tuple((await event_log.look("st_1", after, limit=0)).events)
        if not ends:
            await event_log.append("st_1", [END])
    for stream in ("st_none", "st_1"):
        with pytest.raises(RequestError) as caught:
            await event_log.look(stream, 0, limit=2)
        assert ("not_found" if stream == "st_none" else "stream_expired") == caught.value.code
        if stream == "st_none":
            clock.now += 101


async def test_look_of_another_owner_finds_nothing_at_any_time(event_log, clock):
    await create(event_log, "st_1", owner="me")
    for events in ([START, *deltas("a", "b")], [END]):
        await event_log.append("st_1", events)
        assert "me" == (await event_log.look("st_1", 0, limit=2, owner="me")).state.owner
        assert "not_found there is no stream 'st_1'" == await _refused(event_log, "st_1", "me2")
        assert "not_found there is no stream 'st_1'" == await _refused(event_log, "st_1", "")
    clock.now += 101
    assert "not_found there is no stream 'st_1'" == await _refused(event_log, "st_1", "me2")
    assert (await _refused(event_log, "st_1", "me")).startswith("stream_expired ")


async def _refused(event_log, stream: str, owner: str) -> str:
    with pytest.raises(RequestError) as caught:
        await event_log.look(stream, 0, limit=2, owner=owner)
    return f"{caught.value.code} {caught.value}"


REQUEST = b'{"input":"\xe3\x81\x9b\xe3\x81\x9b\n\r\x00"}'


async def test_request_is_kept_with_its_stream_and_is_no_event(event_log):
    await create(event_log, "st_1", request=REQUEST)
    assert REQUEST == (await event_log.info("st_1")).request
    assert 0 == (await event_log.state("st_1")).last
    reading = asyncio.create_task(event_log.read("st_1", 0, timeout_s=60))
    await let_wait(event_log, reading)
    await event_log.append("st_1", [START])
    assert [START] == list(await asyncio.wait_for(reading, 20))
    await event_log.append("st_1", [*deltas("a"), END])

    assert REQUEST == (await event_log.info("st_1")).request
    assert [START, *deltas("a"), END] == await read_to_end(event_log)
    assert 3 == (await event_log.state("st_1")).last


async def test_stream_that_keeps_no_request_has_none(event_log):
    await create(event_log, "st_1")
    assert b"" == (await event_log.info("st_1")).request
    with pytest.raises(RequestError) as caught:
        await event_log.info("st_2")

    assert "not_found" == caught.value.code


INFO = StreamInfo(
    "st_1",
    owner="t/u",
    request_id="req_1",
    route="fast",
    key="key",
    digest="d",
    names=("a chat", "せせらぎ"),
    labels={"message_id": "m"},
    created_at=1_000_000.25,
    request=REQUEST,
)


async def test_record_is_kept_as_long_as_its_stream(event_log):
    await event_log.create(INFO)
    assert INFO == await event_log.info("st_1")
    assert "t/u" == (await event_log.state("st_1")).owner
    await event_log.append("st_1", [START, END])

    assert INFO == await event_log.info("st_1")
    assert "t/u" == (await event_log.state("st_1")).owner
    await event_log.delete("st_1")
    with pytest.raises(StreamExpired) as caught:
        await event_log.info("st_1")
    assert "t/u" == caught.value.owner


async def test_keys_and_names_are_those_of_their_owner(event_log):
    """The same words of three owners, one of whom is nobody, lead to three streams."""
    for number, owner in enumerate(("", "a", "b"), 1):
        stream = f"st_{number}"
        names = ("a chat",)
        claim = await create(event_log, stream, key="key", digest=owner, owner=owner, names=names)
        assert Claim(stream, owner) == claim
    for number, owner in enumerate(("", "a", "b"), 1):
        stream = f"st_{number}"
        assert Claim(stream, owner) == await event_log.claimed(scoped(owner, "key"))
        assert stream == await found(event_log, "a chat", owner=owner)
    await event_log.delete("st_2")

    assert None is await event_log.find(scoped("a", "a chat"))
    assert "a chat" == scoped("", "a chat")
    assert "st_1" == await found(event_log, "a chat")


async def test_append_of_an_end_returns_whether_it_is_in_its_place_and_nothing_else_tells(
    event_log, callbacks
):
    await create(event_log, "st_1")
    assert None is await event_log.append("st_1", [START, *deltas("a")])
    await create(event_log, "st_2")
    for stream, events in (("st_2", [START, END]), ("st_1", [END])):
        placed = await event_log.append(stream, events)
        assert placed is None or await asyncio.wait_for(placed, 20) is None
    with pytest.raises(ValueError, match="has ended"):
        await event_log.append("st_1", [END])
    assert [] == callbacks.stopped
    await event_log.delete("st_1")

    assert [] == callbacks.ended


async def test_stream_that_is_removed_while_it_runs_has_ended_by_that(event_log, callbacks):
    told = callbacks.ended
    for stream, events in (("st_1", [START, *deltas("a")]), ("st_2", [])):
        await create(event_log, stream, owner="o", request_id="r", request=b"asked")
        await event_log.append(stream, events)
    for stream in ("st_2", "st_1"):  # the former had not begun
        await event_log.delete(stream)
    await until(lambda: told)
    await create(event_log, "st_3")
    await event_log.append("st_3", [START])
    await event_log.delete("st_3")
    await until(lambda: told[-1].info.id == "st_3")

    ended, _ = told
    assert "st_1" == ended.info.id
    assert ("o", "r", b"") == (ended.info.owner, ended.info.request_id, ended.info.request)
    assert ("cancelled", 2) == (ended.end.status, ended.events)


async def test_request_of_another_stream_with_the_key_is_not_kept(event_log):
    await create(event_log, "st_1", key="key", digest="d", request=b"first")
    await create(event_log, "st_2", key="key", digest="d", request=b"second")
    assert b"first" == (await event_log.info("st_1")).request
    await event_log.append("st_1", [START, END])
    await create(event_log, "st_3", key="key", digest="d", over="st_1", request=b"third")

    assert b"third" == (await event_log.info("st_3")).request


@pytest.mark.parametrize("how", ["delete", "retention"])
async def test_request_is_gone_with_its_stream(event_log, clock, how):
    await create(event_log, "st_1", request=REQUEST)
    await event_log.append("st_1", [START, END])
    clock.now += 99
    assert REQUEST == (await event_log.info("st_1")).request
    if how == "delete":
        await event_log.delete("st_1")
    else:
        clock.now += 1
    with pytest.raises(RequestError) as caught:
        await event_log.info("st_1")

    assert "stream_expired" == caught.value.code


async def test_request_may_be_larger_than_the_events_of_a_stream(event_log):
    await create(event_log, "st_1", request=b"x" * 500_000)
    await event_log.append("st_1", [START, *deltas("x" * 300_000), END])

    assert b"x" * 500_000 == (await event_log.info("st_1")).request


async def test_requests_count_among_the_bytes_of_the_log(event_log, clock):
    for number in range(5):
        clock.now += 1
        stream = f"st_{number}"
        await create(event_log, stream, request=b"x" * 300_000)
        await event_log.append(stream, [START, END])
    codes = [await code_of(event_log, f"st_{number}") for number in range(5)]

    assert "stream_expired" == codes[0]
    assert [None, None] == codes[3:]


async def test_requests_of_running_streams_that_fill_the_log_refuse_new_ones(event_log):
    for number in range(4):
        await create(event_log, f"st_{number}", request=b"x" * 300_000)
    with pytest.raises(ServiceError) as caught:
        await create(event_log, "st_4")
    assert "overloaded" == caught.value.code

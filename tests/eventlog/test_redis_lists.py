"""Lists of streams in Redis: what ends, goes and is lost leaves them, and they never only grow."""

import pytest

from app.eventlog.listing import ListPosition
from app.eventlog.redis.log import RedisLog
from app.eventlog.redis.scripts import CHANGED, list_key, log_key
from tests.eventlog.contract import END, START, owners_are_found
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import LEASE_S, lose, opened, pair, watched
from tests.redis_server import RedisServer
from tests.waiting import until

pytestmark = pytest.mark.proving

RUNNING, ENDED = list_key("me", ended=False), list_key("me", ended=True)


def members(server: RedisServer, key: str) -> int:
    return int(server.ask("ZCARD", key).strip(b":\r\n"))


async def list_ids(event_log: RedisLog, *, ended: bool = False) -> list[str]:
    listed = await event_log.list_streams("me", ListPosition(ended=ended), limit=10)
    return [one.stream for one in listed]


async def begin(event_log: RedisLog, stream: str) -> None:
    await create(event_log, stream, owner="me")
    await event_log.append(stream, [START])


async def test_lost_stream_is_listed_as_ended(server):
    async with watched(server.url) as (first, second):
        await begin(first, "st_1")
        await create(first, "st_2", owner="me")
        lose(server, first)

        assert [] == await list_ids(second)
        [listed] = await second.list_streams("me", ListPosition(ended=True), limit=10)
        assert ("st_1", "interrupted") == (listed.stream, listed.status)
        assert (await second.state("st_1")).last == listed.last
        assert (0, 1) == (members(server, RUNNING), members(server, ENDED))


async def test_expired_streams_leave_the_list_with_the_next_one(server):
    async with opened(server.url) as event_log:
        for number in range(20):
            await begin(event_log, f"st_{number}")
            await event_log.append(f"st_{number}", [END])
            server.ask("ZADD", ENDED, "XX", "1000", f"st_{number}")  # in 1970
        assert 1 == members(server, ENDED) + members(server, RUNNING)
        await begin(event_log, "st_20")
        assert (1, 0) == (members(server, RUNNING), members(server, ENDED))
        await event_log.append("st_20", [END])
        for key, least_ms in ((RUNNING, -2), (ENDED, 100_000)):
            assert least_ms <= int(server.ask("PTTL", key).strip(b":\r\n")) <= 4_000_000


async def test_list_drops_what_it_finds_gone(server):
    async with opened(server.url) as event_log:
        await begin(event_log, "st_1")
        for owner in ("", "other"):
            await create(event_log, f"st_of_{owner}", owner=owner)
            server.ask("ZADD", RUNNING, "1e10", f"st_of_{owner}")
        for number in range(30):
            server.ask("ZADD", RUNNING, "1e10", f"st_gone_{number}")

        assert ["st_1"] == await list_ids(event_log)
        assert 1 == members(server, RUNNING)


async def test_stream_without_events_does_not_end_the_list_early(server):
    async with opened(server.url) as event_log:
        for number in range(3):
            await begin(event_log, f"st_{number}")
            await event_log.append(f"st_{number}", [END])
        server.ask("DEL", log_key("st_2"))

        listed = await event_log.list_streams("me", ListPosition(ended=True), limit=2)
        assert ["st_1", "st_0"] == [one.stream for one in listed]


@pytest.mark.parametrize("lost", ["FLUSHALL", f"DEL {RUNNING}"])
async def test_list_that_redis_has_lost_comes_back_with_its_streams(server, lost):
    async with opened(server.url, lease_s=LEASE_S) as event_log:
        await begin(event_log, "st_1")
        [before] = await event_log.list_streams("me", ListPosition(), limit=1)
        server.ask(*lost.split())
        await until(lambda: members(server, RUNNING))

        [after] = await event_log.list_streams("me", ListPosition(), limit=1)
        assert before == after._replace(position=before.position)
        assert before.position < after.position  # no cursor of before may miss it


async def test_owners_whose_lists_grow_are_found_by_the_other_process(server):
    async with pair(server.url) as (first, second):
        await create(first, "st_0", owner="me")
        assert 0 == int(server.ask("EXISTS", CHANGED).strip(b":\r\n")), "nobody watches"
        await owners_are_found(first, second)

        assert 0 < int(server.ask("PTTL", CHANGED).strip(b":\r\n")) <= 10_000
        mark, _ = await second.changed_owners(0)
        server.ask("DEL", CHANGED)  # as where Redis has lost it
        await create(first, "st_8", owner="me")
        found = await second.changed_owners(mark)
        assert None is found[1]
        assert (found[0], []) == await second.changed_owners(found[0])


async def test_owners_that_have_changed_are_bounded(server):
    async with opened(server.url) as event_log:
        mark, _ = await event_log.changed_owners(0)
        await create(event_log, "st_1", owner="first")
        server.ask("ZADD", CHANGED, repr(mark + 10_002), "last")
        newest, owners = await event_log.changed_owners(mark)
        assert (mark + 10_002, ["first", "last"]) == (newest, owners)
        assert 2 == members(server, CHANGED), (
            "the last and the number from which on none is missing"
        )
        assert (newest, None) == await event_log.changed_owners(mark)
        assert (newest, []) == await event_log.changed_owners(newest)

"""The contract of a log with a broadcast: posts hold for their time, and have bounds.

A test module of a log that processes share imports `*` from here too; see `contract`.
"""

import pytest

from app.errors import ServiceError
from app.eventlog.broadcast import MAX_POST_BYTES, MAX_POSTS, Broadcast
from tests.waiting import until


@pytest.fixture
def broadcast(event_log) -> Broadcast:
    return event_log


async def test_post_is_read_until_another_takes_its_place_or_it_is_removed(broadcast):
    await broadcast.post("commands", "a", b"one", for_s=60)
    await broadcast.post("commands", "b/\u00fc", b"\x00\xff", for_s=60)
    await broadcast.post("snapshots", "a", b"board", for_s=60)
    assert {"a": b"one", "b/\u00fc": b"\x00\xff"} == await broadcast.posts("commands")
    assert {"a": b"board"} == await broadcast.posts("snapshots")

    await broadcast.post("commands", "a", b"two", for_s=60)
    await broadcast.post("snapshots", "a", b"", for_s=0)
    await broadcast.post("snapshots", "never there", b"", for_s=0)
    assert b"two" == (await broadcast.posts("commands"))["a"]
    assert {} == await broadcast.posts("snapshots")


async def test_post_holds_for_its_time(broadcast, clock):
    await broadcast.post("commands", "short", b"", for_s=0.05)
    await broadcast.post("commands", "long", b"", for_s=60)
    clock.now += 1  # those that go by another clock take a moment

    async def is_gone() -> bool:
        return "short" not in await broadcast.posts("commands")

    await until(is_gone)
    assert ["long"] == list(await broadcast.posts("commands"))


async def test_posts_have_bounds(broadcast):
    await broadcast.post("snapshots", "a", b"x" * MAX_POST_BYTES, for_s=60)
    with pytest.raises(ServiceError, match="longer than"):
        await broadcast.post("snapshots", "a", b"x" * (MAX_POST_BYTES + 1), for_s=60)
    for number in range(MAX_POSTS):
        await broadcast.post("commands", f"{number}", b"", for_s=60)
    with pytest.raises(ServiceError, match=f"{MAX_POSTS} posts"):
        await broadcast.post("commands", "one more", b"", for_s=60)
    await broadcast.post("commands", "7", b"again", for_s=60)
    assert MAX_POSTS == len(await broadcast.posts("commands"))
    await broadcast.post("commands", "7", b"", for_s=0)
    await broadcast.post("commands", "one more", b"", for_s=60)

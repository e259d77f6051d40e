"""The contract of a log with a broadcast: posts hold for their time, and have bounds.

A test module of a log that processes share imports `*` from here too; see `contract`.
"""

import pytest

from app.errors import ServiceError
from app.eventlog.broadcast import MAX_MESSAGE_BYTES, MAX_MESSAGES, Broadcast
from tests.waiting import until


@pytest.fixture
def broadcast(event_log) -> Broadcast:
    return event_log


async def test_post_is_read_until_another_takes_its_place_or_it_is_removed(broadcast):
    await broadcast.post("orders", "a", b"one", for_s=60)
    await broadcast.post("orders", "b/\u00fc", b"\x00\xff", for_s=60)
    await broadcast.post("boards", "a", b"board", for_s=60)
    assert {"a": b"one", "b/\u00fc": b"\x00\xff"} == await broadcast.posts("orders")
    assert {"a": b"board"} == await broadcast.posts("boards")

    await broadcast.post("orders", "a", b"two", for_s=60)
    await broadcast.post("boards", "a", b"", for_s=0)
    await broadcast.post("boards", "never there", b"", for_s=0)
    assert b"two" == (await broadcast.posts("orders"))["a"]
    assert {} == await broadcast.posts("boards")


async def test_post_holds_for_its_time(broadcast, clock):
    await broadcast.post("orders", "short", b"", for_s=0.05)
    await broadcast.post("orders", "long", b"", for_s=60)
    clock.now += 1  # those that go by another clock take a moment

    async def is_gone() -> bool:
        return "short" not in await broadcast.posts("orders")

    await until(is_gone)
    assert ["long"] == list(await broadcast.posts("orders"))


async def test_posts_have_bounds(broadcast):
    await broadcast.post("boards", "a", b"x" * MAX_MESSAGE_BYTES, for_s=60)
    with pytest.raises(ServiceError, match="longer than"):
        await broadcast.post("boards", "a", b"x" * (MAX_MESSAGE_BYTES + 1), for_s=60)
    for number in range(MAX_MESSAGES):
        await broadcast.post("orders", f"{number}", b"", for_s=60)
    with pytest.raises(ServiceError, match=f"{MAX_MESSAGES} posts"):
        await broadcast.post("orders", "one more", b"", for_s=60)
    await broadcast.post("orders", "7", b"again", for_s=60)
    assert MAX_MESSAGES == len(await broadcast.posts("orders"))
    await broadcast.post("orders", "7", b"", for_s=0)
    await broadcast.post("orders", "one more", b"", for_s=60)

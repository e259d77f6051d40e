"""The contract of a log with a broadcast: messages hold for their time, and have bounds.

A test module of a log that processes share imports `*` from here too; see `contract`.
"""

import pytest

from app.errors import ServiceError
from app.eventlog.peers import MAX_MESSAGE_BYTES, MAX_MESSAGES, Broadcast
from tests.waiting import until


@pytest.fixture
def broadcast(event_log) -> Broadcast:
    return event_log


async def test_post_is_read_until_another_takes_its_place_or_it_is_removed(broadcast):
    await broadcast.publish("commands", "a", b"one", for_s=60)
    await broadcast.publish("commands", "b/\u00fc", b"\x00\xff", for_s=60)
    await broadcast.publish("snapshots", "a", b"snapshot", for_s=60)
    assert {"a": b"one", "b/\u00fc": b"\x00\xff"} == await broadcast.messages("commands")
    assert {"a": b"snapshot"} == await broadcast.messages("snapshots")

    await broadcast.publish("commands", "a", b"two", for_s=60)
    await broadcast.publish("snapshots", "a", b"", for_s=0)
    await broadcast.publish("snapshots", "never there", b"", for_s=0)
    assert b"two" == (await broadcast.messages("commands"))["a"]
    assert {} == await broadcast.messages("snapshots")


async def test_post_holds_for_its_time(broadcast, clock):
    await broadcast.publish("commands", "short", b"", for_s=0.05)
    await broadcast.publish("commands", "long", b"", for_s=60)
    clock.now += 1  # those that go by another clock take a moment

    async def is_gone() -> bool:
        return "short" not in await broadcast.messages("commands")

    await until(is_gone)
    assert ["long"] == list(await broadcast.messages("commands"))


async def test_messages_have_bounds(broadcast):
    await broadcast.publish("snapshots", "a", b"x" * MAX_MESSAGE_BYTES, for_s=60)
    with pytest.raises(ServiceError, match="longer than"):
        await broadcast.publish("snapshots", "a", b"x" * (MAX_MESSAGE_BYTES + 1), for_s=60)
    for number in range(MAX_MESSAGES):
        await broadcast.publish("commands", f"{number}", b"", for_s=60)
    with pytest.raises(ServiceError, match=f"{MAX_MESSAGES} messages"):
        await broadcast.publish("commands", "one more", b"", for_s=60)
    await broadcast.publish("commands", "7", b"again", for_s=60)
    assert MAX_MESSAGES == len(await broadcast.messages("commands"))
    await broadcast.publish("commands", "7", b"", for_s=0)
    await broadcast.publish("commands", "one more", b"", for_s=60)

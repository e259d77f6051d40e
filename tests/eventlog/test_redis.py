"""The log in a real redis-server: the contract, at the producer and at another process."""

import pytest

from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.broadcast_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import END, START, Elsewhere, code_of, ended
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import opened
from tests.eventlog.rows_contract import *  # noqa: F403

pytestmark = pytest.mark.proving


@pytest.fixture(params=["here", "elsewhere"])
async def event_log(request, server, clock, once, callbacks):
    arguments = {"wall": clock, **callbacks.arguments}
    async with opened(server.url, **arguments) as there:
        if request.param == "here":
            yield there
            return
        async with opened(server.url, **arguments) as here:
            yield Elsewhere(there, here)


async def test_oldest_ended_streams_make_room(event_log, clock):  # type: ignore[no-redef]
    """Room in Redis is Redis's own affair: streams that have ended leave the memory only."""
    for number in range(5):
        clock.now += 1
        await ended(event_log, f"st_{number}", size=300_000)

    assert [None] * 5 == [await code_of(event_log, f"st_{number}") for number in range(5)]


async def test_requests_count_among_the_bytes_of_the_log(event_log, clock):  # type: ignore[no-redef]
    """The same of requests: they leave the memory of their process, and Redis gives them."""
    for number in range(5):
        clock.now += 1
        stream = f"st_{number}"
        await create(event_log, stream, request=b"x" * 300_000)
        await event_log.append(stream, [START, END])

    requests = [(await event_log.info(f"st_{number}")).request for number in range(5)]
    assert [b"x" * 300_000] * 5 == requests
    kept, size = getattr(event_log, "_there", event_log).size()
    assert (kept < 5, size <= 1_000_000) == (True, True)


async def test_messages_go_with_the_last_of_them(event_log, server):
    await event_log.publish("commands", "a", b"", for_s=60)
    await event_log.publish("commands", "b", b"", for_s=5)
    for key in ("seseragi:broadcast:commands", "seseragi:broadcast:commands:until"):
        left_ms = int(server.ask("PTTL", key).strip(b":\r\n"))
        assert 30_000 < left_ms <= 60_000

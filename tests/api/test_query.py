"""What a query says twice is refused, since nobody can tell what is meant."""

import httpx2
import pytest

from tests.serving import HELLO, serve_relay

TWICE = [
    ("/v1/streams/STREAM/events", "after"),
    ("/v1/streams/STREAM/events", "lastEventId"),
    ("/v1/streams/STREAM/events", "format"),
    ("/v1/streams/STREAM/events", "from"),
    ("/v1/streams/STREAM/events", "suffix"),
    ("/v1/responses/resp_none", "stream"),
    ("/v1/responses/resp_none", "starting_after"),
    ("/readyz", "verbose"),
]


async def ask(path: str, **headers: str) -> httpx2.Response:
    """Ask for what a path names, in which STREAM stands for a stream that is there."""
    async with serve_relay() as relay:
        begun = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        return await relay.client.get(path.replace("STREAM", begun.json()["id"]), headers=headers)


@pytest.mark.parametrize(("path", "name"), TWICE)
async def test_name_that_is_there_twice_is_refused(path, name):
    twice = await ask(f"{path}?{name}=1&other=&other=&{name}=2")

    assert 400 == twice.status_code
    assert f"{name}: the query has it 2 times" in twice.text


async def test_name_that_is_there_twice_is_refused_with_a_cursor_too():
    twice = await ask("/v1/streams/STREAM/events?after=1&after=1", **{"last-event-id": "1"})

    assert (400, "invalid_request") == (twice.status_code, twice.json()["code"])

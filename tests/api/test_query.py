"""What a query says twice is refused, since nobody can tell what is meant."""

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
    ("/v1/models", "limit"),
    ("/v1/models", "after_id"),
    ("/v1/models", "before_id"),
    ("/readyz", "verbose"),
]


@pytest.mark.parametrize(("path", "name"), TWICE)
async def test_name_that_is_there_twice_is_refused(path, name):
    async with serve_relay() as relay:
        begun = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        url = path.replace("STREAM", begun.json()["id"])
        headers = {"anthropic-version": "2023-06-01"} if path == "/v1/models" else {}
        twice = await relay.client.get(f"{url}?{name}=1&other=&other=&{name}=2", headers=headers)

    assert 400 == twice.status_code
    assert f"{name}: the query has it 2 times" in twice.text


async def test_name_that_is_there_twice_is_refused_with_a_cursor_too():
    async with serve_relay() as relay:
        begun = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
        url = f"{begun.json()['events_url']}?after=1&after=1"
        twice = await relay.client.get(url, headers={"last-event-id": "1"})

    assert (400, "invalid_request") == (twice.status_code, twice.json()["code"])

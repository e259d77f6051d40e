"""Reading a stream by its id: EventSource's way in."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from app.framing.sse import Decoder, Message
from app.testing.upstream import DONE, FINISH, Hold, Step, Until, head, send, text
from tests.clock import Clock
from tests.serving import (
    HELLO,
    Relay,
    cut_off,
    events_of,
    read_messages,
    serve_script,
    text_of,
    text_so_far,
)
from tests.waiting import until

SAID: list[Step] = [head(), *(send(text(letter)) for letter in "abcd"), send(FINISH + DONE)]
RUNS: list[Step] = [head(), send(text("a")), Hold()]


async def start(relay: Relay, **fields) -> dict[str, Any]:
    response = await relay.client.post(
        "/v1/chat", json={**HELLO, **fields}, headers={"prefer": "wait=5, respond-async"}
    )
    assert 202 == response.status_code
    assert "respond-async" == response.headers["preference-applied"]
    accepted = response.json()
    assert f"/v1/streams/{accepted['id']}" == response.headers["location"]
    return accepted


async def read(relay: Relay, url: str, *, after: str | None = None) -> list[Message]:
    headers = {} if after is None else {"last-event-id": after}
    async with relay.client.stream("GET", url, headers=headers) as response:
        assert 200 == response.status_code, await response.aread()
        return await read_messages(response)


class Ended(NamedTuple):
    """A stream that has ended, and all that it said."""

    relay: Relay
    url: str
    whole: list[Message]

    async def read(self, query: str = "", *, after: str | None = None) -> list[Message]:
        return await read(self.relay, f"{self.url}{query}", after=after)


@pytest.fixture
async def ended() -> AsyncIterator[Ended]:
    async with serve_script(SAID) as (relay, _):
        url = (await start(relay))["events_url"]
        yield Ended(relay, url, await read(relay, url))


async def test_two_readers_of_a_running_stream_see_the_same_and_so_does_a_later_one():
    rest_comes = Until()
    script: list[Step] = [
        head(),
        send(text("a")),
        rest_comes,
        send("".join(map(text, "bcd")) + FINISH + DONE),
    ]
    async with serve_script(script) as (relay, upstream):
        accepted = await start(relay)
        reading = asyncio.gather(*(read(relay, accepted["events_url"]) for _ in range(2)))
        await until(lambda: relay.hub.load().readers == 2)
        await text_so_far(relay, accepted["id"], "a")
        rest_comes.told.set()
        live, beside = await reading
        again = await read(relay, accepted["events_url"])

        assert "abcd" == text_of(events_of(live))
        assert live == beside == again
        assert 1 == len(upstream.calls)


async def test_cursor_gives_the_rest_at_every_place(ended):
    for message in ended.whole[:-1]:
        number = int(message.id.rpartition(".")[2])
        by_header = await ended.read(after=message.id)
        by_query = await ended.read(f"?after={message.id}")
        by_number = await ended.read(f"?after={number}")

        assert ended.whole[number:] == by_header == by_query == by_number


@pytest.mark.parametrize(
    "name", ["lastEventId", "lastEventID", "last-event-id", "Last-Event-ID", "evs_last_event_id"]
)
async def test_cursor_has_the_names_that_libraries_give_it(name, ended):
    for cursor in (ended.whole[2].id, "3"):
        assert ended.whole[3:] == await ended.read(f"?{name}={cursor}")
    assert ended.whole == await ended.read(f"?{name}=")
    other = await ended.relay.client.get(ended.url, params={name: "st_other.3"})
    assert (400, "invalid_request") == (other.status_code, other.json()["code"])


@pytest.mark.parametrize(
    ("header", "query"),
    [(4, "after=2"), (2, "after=4"), (None, "after=2&lastEventId=4"), (3, "after=1&lastEventId=4")],
)
async def test_newest_of_several_cursors_counts(header, query, ended):
    after = None if header is None else ended.whole[header - 1].id

    assert ended.whole[4:] == await ended.read(f"?{query}", after=after)


async def test_end_of_a_stream_answers_204(ended):
    last = {"last-event-id": ended.whole[-1].id}
    response = await ended.relay.client.get(ended.url, headers=last)

    assert (204, b"") == (response.status_code, response.content)


@pytest.mark.parametrize(
    ("cursor", "status", "code"),
    [
        ("nonsense!", 400, "invalid_request"),
        ("st_other.3", 400, "invalid_request"),
        ("{id}.u3", 400, "invalid_request"),
        ("{id}.", 400, "invalid_request"),
        ("-1", 400, "invalid_request"),
        ("{id}.9999", 409, "conflict"),
    ],
)
async def test_cursor_that_cannot_be_is_refused(cursor, status, code):
    async with serve_script(RUNS) as (relay, _):
        accepted = await start(relay)
        response = await relay.client.get(
            accepted["events_url"],
            headers={"last-event-id": cursor.replace("{id}", accepted["id"])},
        )

        assert (status, code) == (response.status_code, response.json()["code"])


async def test_unknown_and_removed_streams_differ():
    async with serve_script(SAID, retention_s=0) as (relay, _):
        accepted = await start(relay)
        await read(relay, accepted["events_url"])
        await until(lambda: relay.log.size().streams == 0)
        unknown = await relay.client.get("/v1/streams/st_nothing/events")
        gone = await relay.client.get(accepted["events_url"])

        assert (404, "not_found") == (unknown.status_code, unknown.json()["code"])
        assert (410, "stream_expired") == (gone.status_code, gone.json()["code"])


async def test_cancel_ends_the_stream_and_closes_the_upstream():
    async with serve_script(RUNS) as (relay, upstream):
        accepted = await start(relay)
        reading = asyncio.create_task(read(relay, accepted["events_url"]))
        await text_so_far(relay, accepted["id"], "a")
        response = await relay.client.post(accepted["cancel_url"])
        (call,) = upstream.calls
        await asyncio.wait_for(call.closed.wait(), 20)
        events = events_of(await reading)

        assert (202, "cancelled") == (response.status_code, response.json()["status"])
        assert "a" == response.json()["text"]
        assert ("cancelled", "cancelled") == (events[-1]["status"], events[-1]["finish_reason"])
        again = await relay.client.post(accepted["cancel_url"])
        assert (202, "cancelled") == (again.status_code, again.json()["status"])


async def test_cancel_after_the_end_changes_nothing():
    async with serve_script(SAID) as (relay, _):
        accepted = await start(relay)
        await read(relay, accepted["events_url"])
        response = await relay.client.post(accepted["cancel_url"])

        assert (202, "completed") == (response.status_code, response.json()["status"])


async def test_stream_that_nobody_reads_is_cancelled(monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script(RUNS, linger_s=20) as (relay, upstream):
        accepted = await start(relay)
        await text_so_far(relay, accepted["id"], "a")
        await clock.pass_(21)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)
        kept = (await relay.client.get(accepted["url"])).json()

        assert ("cancelled", "a") == (kept["status"], kept["text"])
        assert 0 < kept["timings"]["ended_at"] - kept["timings"]["started_at"] < 60


async def test_first_reader_of_an_accepted_stream_has_time_to_come(monkeypatch):
    clock = Clock(monkeypatch)
    rest_comes = Until()
    script: list[Step] = [head(), send(text("a")), rest_comes, send(text("b") + FINISH + DONE)]
    async with serve_script(script, linger_s=20) as (relay, _):
        accepted = await start(relay, on_disconnect="cancel")
        await text_so_far(relay, accepted["id"], "a")
        await clock.pass_(15)
        rest_comes.told.set()

        assert "ab" == text_of(events_of(await read(relay, accepted["events_url"])))


async def test_first_reader_has_as_long_as_the_request_says(monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script(RUNS, linger_s=10) as (relay, upstream):
        accepted = await start(relay, on_disconnect=100)
        await text_so_far(relay, accepted["id"], "a")
        await clock.pass_(50)
        assert "running" == (await relay.client.get(accepted["url"])).json()["status"]
        await clock.pass_(51)
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_reader_that_comes_back_in_time_keeps_it_running(monkeypatch):
    clock = Clock(monkeypatch)
    async with serve_script([], linger_s=30) as (relay, upstream):
        rest_comes, more = Until(), send("".join(map(text, "efgh")) + FINISH + DONE)
        upstream.script = [head(), send("".join(map(text, "abcd"))), rest_comes, more]
        accepted = await start(relay)
        seen = []
        decoder = Decoder()
        async with relay.client.stream("GET", accepted["events_url"]) as response:
            async for data in response.aiter_bytes():
                seen += decoder.feed(data)
                if len(seen) > 4:
                    break
        await cut_off(relay, others=0)
        await clock.pass_(20)
        url, after = accepted["events_url"], {"last-event-id": seen[-1].id}
        async with relay.client.stream("GET", url, headers=after) as response:
            await clock.pass_(20)
            rest_comes.told.set()
            rest = await read_messages(response)

        assert "abcdefgh" == text_of(events_of([*seen, *rest]))
        assert "completed" == events_of(rest)[-1]["status"]


async def test_failure_of_an_accepted_stream_is_in_the_stream():
    async with serve_script([head("401 No"), send("{}")]) as (relay, _):
        accepted = await start(relay)
        events = events_of(await read(relay, accepted["events_url"]))

        assert ["stream.start", "stream.end"] == [event["type"] for event in events]
        assert "upstream_auth" == events[-1]["error"]["code"]


async def test_too_many_readers_are_told_to_come_back():
    async with serve_script(RUNS, max_readers=1) as (relay, _):
        accepted = await start(relay)
        async with relay.client.stream("GET", accepted["events_url"]):
            plain = await relay.client.get(accepted["events_url"])
            browser = await relay.client.get(
                accepted["events_url"], headers={"accept": "text/event-stream"}
            )

        assert 503 == plain.status_code
        assert 200 == browser.status_code
        name, _, wait_ms = browser.text.partition(": ")
        assert "retry" == name
        assert 5000 <= int(wait_ms) <= 10_000
        assert browser.text.endswith("\n\n")


async def test_reader_that_takes_nothing_is_cut_off(capfd):
    async with serve_script(
        [head(), *([send(text("x" * 100_000))] * 200), send(FINISH + DONE)],
        send_timeout_s=0.3,
        linger_s=30,
    ) as (relay, _):
        accepted = await start(relay)
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port, limit=1024)
        writer.write(f"GET {accepted['events_url']} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())

        async def has_ended() -> bool:
            return (await relay.log.state(accepted["id"])).ended

        await until(has_ended)
        state = await relay.log.state(accepted["id"])
        await cut_off(relay, others=1)
        received = await read_until_cut(reader)
        writer.close()

        assert b"event: stream.end" not in received
        assert not received.endswith(b"0\r\n\r\n")
        assert "Traceback" not in capfd.readouterr().err
        (end,) = await read(relay, accepted["events_url"], after=str(state.last - 1))
        assert "completed" == events_of([end])[0]["status"]


async def read_until_cut(reader: asyncio.StreamReader) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            received += data
    return received


async def test_head_request_opens_no_stream():
    async with serve_script(RUNS, linger_s=5) as (relay, _):
        accepted = await start(relay)
        response = await relay.client.head(accepted["events_url"])

        assert (200, b"") == (response.status_code, response.content)
        assert "text/event-stream; charset=utf-8" == response.headers["content-type"]

"""The relay as a process that is killed, stopped and started again over one SQLite file."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from app.framing.sse import Decoder, Message
from app.ledger.accounts import AccountState
from tests.commands.test_command import running
from tests.eventlog.files import opened
from tests.replicas.processes import children

BODY = json.dumps({"model": "demo-long", "messages": [{"role": "user", "content": "a river"}]})


@contextmanager
def relay(tmp_path, workers: int = 1):
    with running(
        *("--log", f"sqlite:///{tmp_path / 'streams.db'}"),
        cwd=tmp_path,
        SESERAGI_DRAIN_S="0.2",
        SESERAGI_WORKERS=str(workers),
    ) as (process, url):
        yield process, urlsplit(url).port


@contextmanager
def connected(port: int):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


def start(port: int) -> str:
    headers = {"content-type": "application/json", "prefer": "respond-async"}
    with connected(port) as connection:
        connection.request("POST", "/v1/chat", BODY, headers)
        return json.load(connection.getresponse())["id"]


def read(port: int, stream: str, after: str | None, *, most: int | None = None) -> list[Message]:
    """Read from a cursor: to the end, to a break, or only so many messages."""
    decoder, messages = Decoder(), []
    headers = {"last-event-id": after} if after else {}
    with connected(port) as connection, contextlib.suppress(http.client.HTTPException, OSError):
        connection.request("GET", f"/v1/streams/{stream}/events", headers=headers)
        with connection.getresponse() as response:
            assert response.status in (200, 204), response.read()
            while data := response.read1(65536):
                messages += decoder.feed(data)
                if most is not None and len(messages) >= most:
                    return messages[:most]
    return messages


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.id.rpartition(".")[2]) for message in messages]


def post(port: int) -> tuple[str, bytes]:
    """Ask for a short answer by a key."""
    body = '{"max_tokens":10,"messages":[{"role":"user","content":"hi"}]}'
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    with connected(port) as connection:
        connection.request("POST", "/v1/chat", body, headers)
        with connection.getresponse() as response:
            return response.headers["stream-id"], response.read()


async def account_of_the_relay(tmp_path) -> AccountState:
    async with opened(tmp_path / "streams.db") as event_log:
        (state,) = await event_log.read_accounts(["relay"])
    return state


@pytest.mark.parametrize(
    ("sent", "workers"),
    [
        (signal.SIGKILL, 1),
        pytest.param(signal.SIGKILL, 3, marks=pytest.mark.proving),
        pytest.param(signal.SIGTERM, 1, marks=pytest.mark.proving),
    ],
)
def test_relay_that_comes_back_has_what_was_logged_and_its_honest_end(tmp_path, sent, workers):
    with relay(tmp_path, workers) as (process, port):
        finished = post(port)
        streams = [start(port) for _ in range(5)]
        seen = {
            stream: read(port, stream, None, most=20 + 10 * n) for n, stream in enumerate(streams)
        }
        for pid in (process.pid, *(children(process.pid) if sent == signal.SIGKILL else ())):
            os.kill(pid, sent)
        process.wait(60)
    with relay(tmp_path, workers) as (process, port):
        for stream, messages in seen.items():
            messages += read(port, stream, messages[-1].id)
            again = read(port, stream, None)
            end = json.loads(messages[-1].data)

            assert list(range(1, len(messages) + 1)) == numbers(messages)
            assert [m.data for m in again] == [m.data for m in messages]
            assert ("stream.end", "interrupted") == (end["type"], end["status"])
            assert "producer_lost" == end["error"]["code"]
            assert [] == read(port, stream, messages[-1].id)
        # The key is known all along, and starts nothing again.
        assert finished == post(port)
        assert Decoder().feed(finished[1]) == read(port, finished[0], None)
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60)

    state = asyncio.run(account_of_the_relay(tmp_path))
    assert (0, 0, 6) == (state.running, state.day.held_nano_usd, state.month.requests)
    # As they are estimated, since nobody was there to be told.
    assert state.month.input_tokens >= 6
    assert state.month.output_tokens >= 6


@pytest.mark.proving
def test_readers_over_many_kills_see_every_event_once(tmp_path):
    """Killed after a random number of events, always coming back: exact, and honest of the end."""
    dice = random.Random(11)
    seen: dict[str, list[Message]] = {}
    for _ in range(4):
        with relay(tmp_path) as (process, port):
            for stream, messages in seen.items():
                messages += read(port, stream, messages[-1].id if messages else None)
            stream = start(port)
            seen[stream] = read(port, stream, None, most=dice.randrange(1, 60))
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
    with relay(tmp_path) as (process, port):
        for stream, messages in seen.items():
            messages += read(port, stream, messages[-1].id)

            assert list(range(1, len(messages) + 1)) == numbers(messages)
            assert "stream.end" == messages[-1].event
            assert all(message.event != "stream.end" for message in messages[:-1])

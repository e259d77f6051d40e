"""The relay as a process that is killed, stopped and started again over one SQLite file."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import signal
import subprocess
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from app.eventlog.sqlite.log import SqliteLog
from app.framing.sse import Decoder, Message
from tests.replicas.processes import children
from tests.test_command import COMMAND, environment, running

BODY = json.dumps({"model": "demo-long", "messages": [{"role": "user", "content": "a river"}]})


@contextmanager
def relay(tmp_path, **variables: str):
    arguments = ("--log", f"sqlite:///{tmp_path / 'streams.db'}")
    with running(*arguments, cwd=tmp_path, **variables) as (process, url):
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


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_every_reader_gets_the_rest_of_what_was_logged_and_the_end(tmp_path, sent):
    with relay(tmp_path, SESERAGI_DRAIN_S="0.2") as (process, port):
        streams = [start(port) for _ in range(5)]
        seen = {
            stream: read(port, stream, None, most=20 + 10 * n) for n, stream in enumerate(streams)
        }
        process.send_signal(sent)
        process.wait(60)
    with relay(tmp_path) as (process, port):
        for stream, messages in seen.items():
            messages += read(port, stream, messages[-1].id)
            again = read(port, stream, None)
            end = json.loads(messages[-1].data)

            assert list(range(1, len(messages) + 1)) == numbers(messages)
            assert [m.data for m in again] == [m.data for m in messages]
            assert ("stream.end", "interrupted") == (end["type"], end["status"])
            assert "producer_lost" == end["error"]["code"]
            assert [] == read(port, stream, messages[-1].id)


def post(port: int, body: str) -> tuple[str, bytes]:
    headers = {"content-type": "application/json", "idempotency-key": "k"}
    with connected(port) as connection:
        connection.request("POST", "/v1/chat", body, headers)
        with connection.getresponse() as response:
            return response.headers["stream-id"], response.read()


def test_finished_stream_survives_restarts(tmp_path):
    body = '{"max_tokens":10,"messages":[{"role":"user","content":"hi"}]}'
    found = []
    for _ in range(3):
        with relay(tmp_path) as (process, port):
            found.append(post(port, body))
            stream, whole = found[0]
            assert Decoder().feed(whole) == read(port, stream, None)
            process.send_signal(signal.SIGTERM)
            assert 0 == process.wait(60)

    # The key of the first POST is known all along, and starts nothing again.
    assert [found[0]] * 3 == found


def test_readers_over_many_kills_see_every_event_once(tmp_path):
    """Killed at random moments, always coming back: exact, and honest about the end."""
    dice = random.Random(11)
    seen: dict[str, list[Message]] = {}
    for _ in range(4):
        with relay(tmp_path) as (process, port):
            for stream, messages in seen.items():
                messages += read(port, stream, messages[-1].id if messages else None)
            stream = start(port)
            seen[stream] = read(port, stream, None, most=dice.randrange(1, 60))
            time.sleep(dice.random() * 0.05)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
    with relay(tmp_path) as (process, port):
        for stream, messages in seen.items():
            messages += read(port, stream, messages[-1].id)

            assert list(range(1, len(messages) + 1)) == numbers(messages)
            assert "stream.end" == messages[-1].event
            assert all(message.event != "stream.end" for message in messages[:-1])


def test_second_process_on_one_file_is_refused(tmp_path):
    with relay(tmp_path):
        done = subprocess.run(
            [*COMMAND, "--port", "0", "--log", f"sqlite:///{tmp_path / 'streams.db'}"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert 2 == done.returncode
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert "streams.db" in done.stderr


async def account_of_the_relay(tmp_path):
    event_log = SqliteLog(tmp_path / "streams.db", retention_s=1000, max_bytes=10**9)
    await event_log.open()
    (state,) = await event_log.accounts(["relay"])
    await event_log.close()
    return state


@pytest.mark.parametrize("workers", [1, 3])
def test_killed_streams_are_counted_once_and_hold_nothing(tmp_path, workers):
    with relay(tmp_path, SESERAGI_WORKERS=str(workers)) as (process, port):
        streams = [start(port) for _ in range(9)]
        for stream in streams:
            assert read(port, stream, None, most=9)
        pids = children(process.pid)
        for pid in (process.pid, *pids):
            os.kill(pid, signal.SIGKILL)
        process.wait(60)
    with relay(tmp_path, SESERAGI_WORKERS=str(workers)) as (process, port):
        assert "stream.end" == read(port, streams[-1], None)[-1].event
        process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60)

    state = asyncio.run(account_of_the_relay(tmp_path))
    assert (0, 0, 9) == (state.running, state.day.held_nano_usd, state.month.requests)
    # As they are estimated, since nobody was there to be told.
    assert state.month.input_tokens >= 9
    assert state.month.output_tokens >= 9

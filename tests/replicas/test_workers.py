"""Several workers on one socket, as processes: what users, operators and supervisors see."""

import asyncio
import json
import os
import random
import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from app.testing.upstream import serve_upstream
from tests.commands.test_command import COMMAND, ask, environment, until_draining
from tests.commands.test_command import running as running_command
from tests.leaks import runs
from tests.replicas.processes import (
    DRIPPING,
    Reader,
    Replica,
    browser,
    children,
    holds_connection,
    running,
    start,
)
from tests.serving import HELLO
from tests.waiting import until

pytestmark = pytest.mark.proving

LONG = b'{"model":"demo-long","messages":[{"role":"user","content":"hi"}]}'


def file_of(folder: Path) -> str:
    return f"sqlite:///{folder}/log.db"


def descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def until_gone(pids: list[int], within_s: float) -> None:
    await until(lambda: not any(map(runs, pids)), limit_s=within_s)


def said(replica: Replica, event: str) -> list[dict]:
    lines = [json.loads(line) for line in replica.said]
    return [line for line in lines if line["event"] == event]


async def told(replica: Replica, event: str) -> list[dict]:
    """Wait for the lines of an event: the first may be on its way."""
    await until(lambda: said(replica, event))
    return said(replica, event)


async def follow(
    client: httpx2.AsyncClient, replica: Replica, reader: Reader, *, redis: bool
) -> None:
    """Read to the end by connections that are each a worker's, cut after some events.

    A Redis that is too busy to answer is away for a while.
    """
    dice = random.Random(reader.stream)
    while not reader.ended:
        await reader.read(replica, most=dice.choice((5, 40, None)))
        if reader.statuses and reader.statuses[-1] != 200:
            assert redis
            assert reader.statuses[-1] == 503
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("log", ["sqlite", "redis"])
async def test_streams_outlive_the_connections_and_end_when_their_worker_dies(
    log, tmp_path, request
):
    """Every client sees every event once and in order; `Reader` holds that."""
    place = file_of(tmp_path) if log == "sqlite" else request.getfixturevalue("redis").url
    place += "?lease_s=1.5" if log == "redis" else ""
    async with (
        serve_upstream() as upstream,
        running(1, tmp_path, place, workers=3, script=upstream) as (relay,),
        browser() as client,
    ):
        upstream.script = DRIPPING
        streams: list[str] = []
        producers: list[int] = []
        async with asyncio.timeout(60):
            while len(streams) < 24 or len(producers) < 2:
                streams.append(await start(client, relay, "openai/m"))
                workers = children(relay.pid)
                producers = [pid for pid in workers if holds_connection(pid, upstream.port)]
        killed = producers[0]
        readers = [Reader(client, stream) for stream in streams for _ in range(3)]
        reading = [
            asyncio.create_task(follow(client, relay, reader, redis=log == "redis"))
            for reader in readers
        ]
        for reader in readers:
            await reader.has_seen(10)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: lost(readers))
        ended = lost(readers)[0]
        # The others go on: some of them are stopped here, by whichever worker is asked.
        await asyncio.gather(
            *(client.post(f"{relay.url}/v1/streams/{stream}/cancel") for stream in streams)
        )
        await asyncio.gather(*reading)

        ends = {reader.stream: reader.end for reader in readers}
        assert {"interrupted", "cancelled"} == {end["status"] for end in ends.values()}
        assert "producer_lost" == ended["error"]["code"]
        for reader in readers:
            assert ends[reader.stream] == reader.end
        await until(lambda: len(children(relay.pid)) == 3)
        (line,) = await told(relay, "worker has ended and is started again")
        assert (killed, -9) == (line["pid"], line["code"])


def lost(readers: list[Reader]) -> list[dict]:
    """Return the ends of those whose relay was lost."""
    return [r.end for r in readers if r.ended and r.end["status"] == "interrupted"]


async def test_workers_share_connections_are_replaced_and_end_with_their_parent(tmp_path):
    """One after the other, since processes take their time to start."""
    async with (
        running(1, tmp_path, file_of(tmp_path), workers=2, drain_s=60) as (relay,),
        browser() as client,
    ):
        await check_replaced(client, relay)
        await check_spread(client, relay)
        await check_end(client, relay)


async def check_spread(client: httpx2.AsyncClient, relay: Replica) -> None:
    reading: list[asyncio.Task[None]] = []

    async def are_spread() -> bool:  # a worker that the system does not let run takes none
        readers = [Reader(client, await start(client, relay)) for _ in range(40)]
        reading.extend(asyncio.create_task(reader.read(relay)) for reader in readers)
        for reader in readers:
            await reader.has_seen(1)
        held = [descriptors(pid) for pid in children(relay.pid)]
        return max(held) < 4 * min(held)

    await until(are_spread, limit_s=60)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)


async def check_replaced(client: httpx2.AsyncClient, relay: Replica) -> None:
    """A worker that is told to stop by itself drains."""
    before = children(relay.pid)
    os.kill(before[0], signal.SIGTERM)
    await until_gone(before[:1], 20)
    # The one that has ended is a child until its parent has noticed.
    await until(lambda: len({*children(relay.pid)} - {before[0]}) == 2)
    assert before[1] in children(relay.pid)
    for _ in range(5):
        assert 200 == (await client.get(f"{relay.url}/readyz")).status_code
    (line,) = await told(relay, "worker has ended and is started again")
    assert 0 == line["code"]


async def check_end(client: httpx2.AsyncClient, relay: Replica) -> None:
    reader = Reader(client, await start(client, relay))
    reading = asyncio.create_task(reader.read(relay))
    await reader.has_seen(5)
    workers = children(relay.pid)
    assert 2 == len(workers)
    relay.signal(signal.SIGKILL)
    await asyncio.wait_for(reading, 20)
    # One at the worker that does not produce the stream may be sent away before its end.
    assert not reader.ended or "interrupted" == reader.end["status"]
    await until_gone(workers, 20)


async def post_all(url: str, **fields: str) -> list[str]:
    """Ask many times, with one key or these fields; return the streams, or why there is none."""
    headers = {"prefer": "respond-async", "connection": "close"}
    if not fields:
        headers["idempotency-key"] = "k"
    async with browser() as client:
        asked = [
            client.post(f"{url}/v1/chat", json={**HELLO, **fields}, headers=headers)
            for _ in range(30)
        ]
        replies = [reply.json() for reply in await asyncio.gather(*asked)]
        return [reply.get("id") or reply["code"] for reply in replies]


def test_one_of_many_refused_requests_runs_over_all_workers(tmp_path):
    arguments = ("--workers", "2", "--log", file_of(tmp_path))
    with running_command(*arguments, cwd=tmp_path) as (process, url):
        asked = {"model": "demo-long", "chat": "c", "overlap": "refuse"}
        first = asyncio.run(post_all(url, **asked))
        again = asyncio.run(post_all(url, **asked))
        process.kill()

    assert 29 == first.count("conflict")
    assert 30 == again.count("conflict")


def test_key_is_one_generation_and_a_signal_drains_whichever_worker_is_asked(tmp_path):
    arguments = ("--workers", "2", "--log", file_of(tmp_path))
    with running_command(*arguments, cwd=tmp_path, SESERAGI_DRAIN_S="30") as (process, url):
        assert 1 == len(set(asyncio.run(post_all(url))))
        body = b'{"max_tokens":30,"messages":[{"role":"user","content":"hi"}]}'
        with ask(url, body) as reply:
            first = reply.read(300)
            # As a supervisor or a terminal does, which reach every process.
            for pid in (process.pid, *children(process.pid)):
                os.kill(pid, signal.SIGINT)
            whole = first + reply.read()
        _, err = process.communicate(timeout=60)

    assert b'"status":"completed"' in whole
    assert 0 == process.returncode
    assert "Traceback" not in err
    assert "listening" not in err  # which was said once, when all served
    assert ["log.db"] == [path.name for path in tmp_path.iterdir()]


def test_second_signal_hastens_all_workers(tmp_path):
    arguments = ("--workers", "2", "--log", file_of(tmp_path))
    with running_command(*arguments, cwd=tmp_path, SESERAGI_DRAIN_S="60") as (process, url):
        with ask(url, LONG) as reply:
            reply.read(1000)
            process.send_signal(signal.SIGTERM)
            until_draining(process)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            body = reply.read()
        process.communicate(timeout=60)

    assert b'"status":"interrupted"' in body
    assert 0 == process.returncode


async def test_worker_whose_parent_dies_as_it_starts_ends_too(tmp_path):
    for _ in range(3):
        async with running(1, tmp_path, file_of(tmp_path), workers=2) as (relay,):
            (first, _) = workers = children(relay.pid)
            os.kill(first, signal.SIGKILL)
            async with asyncio.timeout(20):
                while first in workers or len(workers) < 2:
                    await asyncio.sleep(0)  # to meet the new one as it starts
                    workers = children(relay.pid)
            relay.signal(signal.SIGKILL)
            await until_gone(workers, 20)


def run(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command, which is to end at once."""
    return subprocess.run(
        [*COMMAND, "--port", "0", *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )


BAD_STARTS = [
    ("memory", ["--log", "memory"], "--log sqlite:///PATH or --log redis://HOST/DB"),
    ("no log", [], "--log sqlite:///PATH"),
    ("no directory", ["--log", "sqlite:///none/log.db"], "'none' does not exist"),
    ("no Redis", ["--log", "redis://127.0.0.1:1/0"], "127.0.0.1:1"),
    ("no number", ["--workers", "many", "--log", "sqlite:///log.db"], "--workers: 'many'"),
]


@pytest.mark.parametrize(("arguments", "told"), [row[1:] for row in BAD_STARTS], ids=[row[0] for row in BAD_STARTS])  # fmt: skip
def test_bad_start_of_workers_says_why_in_one_line(arguments, told, tmp_path):
    done = run("--workers", "3", *arguments, cwd=tmp_path)

    assert 2 == done.returncode
    assert 1 == len(done.stderr.splitlines()), done.stderr
    assert done.stderr.startswith("seseragi: ")
    assert told in done.stderr


def test_file_of_another_relay_is_refused_both_ways(tmp_path):
    alone = ("--log", file_of(tmp_path))
    workers = (*alone, "--workers", "2")
    for first, others in ((alone, (alone, workers)), (workers, (alone,))):
        with running_command(*first, cwd=tmp_path):
            for second in others:
                done = run(*second, cwd=tmp_path)

                assert (2, 1) == (done.returncode, len(done.stderr.splitlines()))
                assert f"{tmp_path}/log.db: another process uses it" in done.stderr

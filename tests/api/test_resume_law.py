"""The resume law: what was read up to a cut and what is read after it are the whole.

Frames are compared as bytes. `retry:` stands in the first frame of every connection, so it
is taken off before.
"""

import asyncio
import itertools
import random
from collections.abc import Sequence

import aiohttp
import httpx2
import pytest

from app.testing.upstream import DONE, FINISH, USAGE, Step, event, head, reply, send, text, wait
from tests.api.test_recordings import script
from tests.cutting import cutting_proxy, randomly
from tests.dialects.streams import DIALECT_OF, body_of, recordings
from tests.serving import HELLO, Relay, serve_script

RETRY = b"retry: 2000\n"


def split(raw: bytes) -> tuple[list[bytes], bytes]:
    """Whole frames without `retry:` and heartbeats, and what is left of a cut one."""
    *frames, rest = raw.replace(b": hb\n", b"").split(b"\n\n")
    return [frame.removeprefix(RETRY) + b"\n\n" for frame in frames], rest


def id_of(frame: bytes) -> str:
    return frame.removesuffix(b"\n\n").rpartition(b"\nid: ")[2].decode()


async def start(relay: Relay) -> str:
    reply = await relay.client.post("/v1/chat", json=HELLO, headers={"prefer": "respond-async"})
    return reply.json()["events_url"]


async def read(relay: Relay, url: str, *, after: str | None = None) -> list[bytes]:
    headers = {} if after is None else {"last-event-id": after}
    reply = await relay.client.get(url, headers=headers)
    assert reply.status_code in (200, 204)
    assert reply.status_code == 204 or reply.content.startswith(RETRY)
    return split(reply.content)[0]


async def check_law(relay: Relay) -> list[bytes]:
    """Read a stream to its end, and after each of its events; return its frames."""
    url = await start(relay)
    whole = await read(relay, url)
    for k in range(1, len(whole) + 1):
        assert whole[k:] == await read(relay, url, after=id_of(whole[k - 1]))
    return whole


CALL = {"index": 0, "id": "c1", "function": {"name": "now", "arguments": '{"a":1}'}}
SCRIPTS: dict[str, tuple[list[Step], bytes]] = {
    "a text": ([head(), *map(send, map(text, ("せせ", "ら", "ぎ🌊"))), send(FINISH + DONE)], b"completed"),
    "a thought and a call": (
        [
            *(head(), send(event({"reasoning_content": "Hm.", "tool_calls": [CALL]}))),
            send(event(finish_reason="tool_calls") + USAGE + DONE),
        ],
        b"completed",
    ),
    "two answers": (
        [
            *(head(), send(event({"content": "one"}, index=1) + text("two"))),
            send(FINISH + event(finish_reason="stop", index=1) + DONE),
        ],
        b"completed",
    ),
    "a cut": ([head(), send(text("half") + text(" of"))], b"failed"),
    "a refusal": (reply("401 No", "{}"), b"failed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("name", SCRIPTS)
async def test_law_holds_at_every_event(name, kind, tmp_path):
    script, status = SCRIPTS[name]
    log = kind if kind == "memory" else f"sqlite:///{tmp_path}/streams.db"
    async with serve_script(script, log=log) as (relay, upstream):
        whole = await check_law(relay)

        assert b'"status":"%b"' % status in whole[-1]
        assert 1 == len(upstream.calls)


@pytest.mark.proving
@pytest.mark.parametrize("row", recordings())
async def test_law_holds_at_every_event_of_a_recorded_stream(row):
    body, dialect = body_of(row), DIALECT_OF[row["format"]]
    async with serve_script(script(body, seed=1), dialect=dialect) as (relay, upstream):
        await check_law(relay)
        assert 1 == len(upstream.calls)


def paced(count: int, *, seed: int) -> Sequence[Step]:
    dice = random.Random(seed)
    steps: list[Step] = [head()]
    for number in range(count):
        steps.append(send(text(f"{number} せせらぎ🌊 ")))
        if dice.random() < 0.3:
            steps.append(wait(dice.choice([0, 0.002, 0.01])))
    return [*steps, send(FINISH + DONE)]


async def read_with_cuts(session: aiohttp.ClientSession, url: str, *, seed: int) -> list[bytes]:
    """A reader that is cut at random bytes and comes back with the last whole frame's id."""
    dice = random.Random(seed)
    seen: list[bytes] = []
    for _ in itertools.count():
        headers = {"last-event-id": id_of(seen[-1])} if seen else {}
        raw = b""
        left = dice.randrange(1, 9000)  # some 600 cuts, in frames of a hundred bytes
        async with session.get(url, headers=headers) as reply:
            if reply.status == 204:
                return seen
            assert 200 == reply.status
            async for data in reply.content.iter_any():
                raw += data[:left]
                left -= len(data)
                if left <= 0:
                    reply.close()
                    break
        seen += split(raw)[0]
        if seen and b'"type":"stream.end"' in seen[-1]:
            return seen
    raise AssertionError


@pytest.mark.proving
async def test_many_readers_at_random_places_while_events_come(log):
    async with (
        serve_script(paced(300, seed=1), max_readers=100, log=log) as (relay, upstream),
        # Hundreds of requests: those of httpx2 take four times as long as their answers.
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        url = await start(relay)
        readers = [
            asyncio.create_task(read_with_cuts(session, relay.url + url, seed=seed))
            for seed in range(80)
        ]
        all_seen = await asyncio.gather(*readers)
        whole = await read(relay, url)

        assert len(whole) > 300
        assert all(whole == seen for seen in all_seen)
        assert 1 == len(upstream.calls)


@pytest.mark.proving
@pytest.mark.parametrize("seed", range(2))
async def test_connections_cut_on_the_way_lose_and_double_nothing(seed):
    """FIN, RST and frozen connections, cut by a proxy inside frames and characters."""
    async with serve_script(paced(150, seed=seed)) as (relay, _):
        url = await start(relay)
        plan = randomly(seed, most=4000, hows=("fin", "rst", "freeze"))
        seen: list[bytes] = []
        async with (
            cutting_proxy(relay.port, plan) as proxy,
            httpx2.AsyncClient(timeout=5, verify=False) as client,
        ):
            while not seen or b'"type":"stream.end"' not in seen[-1]:
                headers = {"last-event-id": id_of(seen[-1])} if seen else {}
                raw = b""
                try:
                    async with client.stream(
                        "GET", f"http://127.0.0.1:{proxy.port}{url}", headers=headers
                    ) as reply:
                        if reply.status_code == 204:
                            break
                        async for data in reply.aiter_bytes():
                            raw += data
                except httpx2.HTTPError:
                    pass
                seen += split(raw)[0]
            assert proxy.cuts > 3

        assert await read(relay, url) == seen

"""Clients that send their POST again, with the same key, until they have the whole answer.

Meanwhile relays are killed and stopped, and their ways to Redis are cut. The upstream counts
what it is asked for each key: `Asking.faults` tells what a key does not promise and happened.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from app.framing.sse import Decoder
from app.testing.upstream import (
    DONE,
    FINISH,
    Call,
    Step,
    Upstream,
    head,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.redis_server import Wire, redis_server, wire_to
from tests.replicas.processes import Progress, Replica, browser, running, running_over
from tests.replicas.storm import Storm, mend, raging
from tests.waiting import until

LEASE_S = 3.0

WAYS = (("stream", "async"), ("result",))
"""How the clients of a key ask: for events or the address of the stream, or for one result."""

DOCUMENTED = {(503, "overloaded"), (502, "producer_lost")}
"""What a key may be answered with, besides its stream, while upstreams do not fail."""


def key_of(call: Call) -> str:
    """Return the key that a call of the upstream is for: the prompt says it."""
    key: str = call.json["messages"][-1]["content"]
    return key


def slowly(dice: random.Random) -> list[Step]:
    """An answer that takes a while to begin, as they do, and some pieces."""
    pieces = [(send(text(letter)), wait(dice.uniform(0, 0.05))) for letter in "abcdefgh"]
    begin = wait(dice.choice((0, 0.02, 0.1, 0.3)))
    return [head(), begin, *(step for piece in pieces for step in piece), send(FINISH + DONE)]


@dataclass
class Told:
    """What one POST came to."""

    stream: str
    content: str
    """All events, to the last, or the result."""


@dataclass
class Asking:
    """All POSTs with one key."""

    key: str
    ways: Sequence[str]
    whole: list[Told] = field(default_factory=list)
    errors: Counter[tuple[int, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def judge(self, calls: int, *, partitions: bool) -> None:
        """Look for what must not be, once nobody asks any more."""
        if calls > 1:
            self.faults.append(f"{calls} calls of the upstream")
        # Killed between its first event and the call, a relay leaves a key that nobody uses.
        told_lost = any('"producer_lost"' in told.content for told in self.whole)
        if not calls and not told_lost and not self.errors[502, "producer_lost"]:
            self.faults.append("no call of the upstream, and nobody was told why")
        streams = {told.stream for told in self.whole}
        if len(streams) > 1:
            self.faults.append(f"{len(streams)} streams: {streams}")
        for stream in streams:
            contents = {told.content for told in self.whole if told.stream == stream}
            if partitions:  # a relay that is cut off goes on for the readers it has
                lost = {content for content in contents if '"producer_lost"' in content}
                contents -= lost if len(lost) == 1 else set()
            if len(contents) > 1:
                self.faults.append(f"{len(contents)} contents of {stream}")
        self.faults += [
            f"{status} {code}" for status, code in self.errors if (status, code) not in DOCUMENTED
        ]


class Client:
    """Sends a POST with a key until it has the whole answer, or the error that stays."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        urls: Sequence[Replica],
        asking: Asking,
        *,
        dice: random.Random,
        progress: Progress,
    ) -> None:
        self._http = http
        self._replicas = urls
        self._asking = asking
        self._dice = dice
        self._progress = progress
        self._way = dice.choice(asking.ways)

    async def live(self) -> None:
        while not await self._ask():
            self._progress.count += 1
            await asyncio.sleep(self._dice.uniform(0.01, 0.1))
        self._progress.count += 1

    async def _ask(self) -> bool:
        """POST once; tell whether there is nothing more to be had."""
        body = {
            "model": "openai/m",
            "messages": [{"role": "user", "content": self._asking.key}],
            "on_disconnect": "continue",
            "stream": self._way != "result",
        }
        headers = {"idempotency-key": self._asking.key, "connection": "close"}
        if self._way == "async":
            headers["prefer"] = "respond-async"
        url = f"{self._dice.choice(self._replicas).url}/v1/chat"
        with suppress(httpx2.TransportError):
            async with self._http.stream("POST", url, json=body, headers=headers) as reply:
                if reply.status_code == 200:
                    return await self._read(reply)
                content = await reply.aread()
                if reply.status_code == 202:
                    return await self._follow(json.loads(content))
                return self._refused(reply.status_code, json.loads(content), started=False)
        return False

    async def _follow(self, accepted: dict[str, Any]) -> bool:
        """Read the stream that was started, or found, wherever it is asked for."""
        while True:
            url = self._dice.choice(self._replicas).url + accepted["events_url"]
            with suppress(httpx2.TransportError):
                async with self._http.stream("GET", url) as reply:
                    if reply.status_code == 200:
                        if await self._read(reply):
                            return True
                    else:
                        problem = json.loads(await reply.aread())
                        if problem["code"] != "overloaded":
                            return self._refused(reply.status_code, problem, started=True)
            await asyncio.sleep(0.05)

    async def _read(self, reply: httpx2.Response) -> bool:
        stream = reply.headers.get("stream-id", "")
        if self._way == "result":
            content = (await reply.aread()).decode()
            self._asking.whole.append(Told(stream, content))
            return True
        decoder, messages = Decoder(), []
        async for piece in reply.aiter_bytes():
            messages += decoder.feed(piece)
        if not messages or messages[-1].event != "stream.end":
            self._asking.faults.append(f"{stream} ended without its end")
            return False
        content = "\n".join(f"{message.id} {message.data}" for message in messages)
        self._asking.whole.append(Told(stream, content))
        return True

    def _refused(self, status: int, problem: dict[str, Any], *, started: bool) -> bool:
        code = problem["code"]
        self._asking.errors[status, code] += 1
        if started:
            self._asking.faults.append(f"the stream was given, and then {status} {code}")
        return code != "overloaded"


class Round:
    """One go: relays over a log, keys that are asked for, and what happens meanwhile."""

    def __init__(self, log: str, folder: Path, seed: int, *, keys: int, blows: int) -> None:
        self.log = log
        self._folder = folder
        self._dice = random.Random(seed)
        self._keys = keys
        self._blows = blows
        self._progress = Progress()
        self._storm = Storm(self._dice, self._progress, pause=6, lease_s=LEASE_S)
        self._wires: list[Wire] = []
        self.askings: list[Asking] = []
        self.calls: Counter[str] = Counter()

    async def run(self) -> None:
        dice = self._dice
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(serve_upstream())
            upstream.choose = lambda _: slowly(dice)
            replicas, bad = await self._relays(stack, upstream)
            http = await stack.enter_async_context(browser())
            living = [asyncio.create_task(self._live(http, replicas, n)) for n in range(self._keys)]
            async with raging(*bad) as tasks:
                await until(lambda: self._is_over(tasks, living), limit_s=120)
            await mend(replicas, wires=self._wires)
            await asyncio.wait_for(asyncio.gather(*living), 40)
            self.calls.update(map(key_of, upstream.calls))
        for asking in self.askings:
            asking.judge(self.calls[asking.key], partitions=self.log.startswith("redis"))

    def _is_over(
        self, tasks: Sequence["asyncio.Future[None]"], living: Sequence["asyncio.Future[None]"]
    ) -> bool:
        if tasks and (self._storm.blows >= self._blows or any(task.done() for task in tasks)):
            return True
        return all(task.done() for task in living)

    async def _live(self, http: httpx2.AsyncClient, replicas: list[Replica], number: int) -> None:
        """Let some clients ask with one key: some at once, some later."""
        dice = random.Random(f"{self._dice.random()} {number}")
        asking = Asking(f"key-{number}", dice.choice(WAYS))
        self.askings.append(asking)
        blows = dice.randrange(self._blows) if self._blows else 0
        await until(lambda: self._storm.blows >= blows, limit_s=120)

        async def come(after: int) -> None:
            if after:
                await self._progress.more(after)
            await Client(http, replicas, asking, dice=dice, progress=self._progress).live()

        waits = [0, *(dice.choice((0, 0, 1, 5, 20)) for _ in range(dice.randint(1, 4)))]
        await asyncio.gather(*map(come, waits))

    async def _relays(
        self, stack: AsyncExitStack, upstream: Upstream
    ) -> tuple[list[Replica], list[Coroutine[Any, Any, None]]]:
        folder = self._folder
        settings: dict[str, Any] = {
            "script": upstream,
            "attempts": 1,
            "status_wait_s": 1,
            "drain_s": 0.2,
        }
        if not self.log.startswith("redis"):
            place = "memory" if self.log == "memory" else f"sqlite:///{folder}/log.db"
            workers = 3 if self.log == "workers" else 1
            relays = running(1, folder, place, workers=workers, **settings)
            replicas = await stack.enter_async_context(relays)
            if self.log == "memory":  # which a kill takes away
                return replicas, []
            return replicas, [self._storm.strike(replicas, workers=workers > 1)]
        redis = stack.enter_context(redis_server(folder))
        self._wires = [await stack.enter_async_context(wire_to(redis.port)) for _ in range(3)]
        places = [f"{wire.url}?lease_s={LEASE_S}" for wire in self._wires]
        replicas = await stack.enter_async_context(running_over(places, folder, **settings))
        return replicas, [self._storm.strike(replicas), self._storm.strike_wires(self._wires)]

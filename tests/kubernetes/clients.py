"""Browsers under load: each starts a stream, or watches another's, and comes back when it is cut."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

import httpx2

from app.eventlog import STRIDE
from app.framing.sse import Decoder, Message
from app.testing.upstream import DONE, FINISH, USAGE, Call, Step, head, send, text, wait

TOKEN_S = 0.05
"""20 tokens a second."""


def answer(call: Call) -> list[Step]:
    """Play the provider: as many tokens as the question says, each with its number."""
    count = int(call.json["messages"][-1]["content"])
    steps: list[Step] = [head()]
    for number in range(count):
        steps += [wait(TOKEN_S), send(text(f"{number} "))]
    return [*steps, send(FINISH + USAGE + DONE)]


@dataclass
class Count:
    """What clients have seen."""

    started: int = 0
    completed: int = 0
    interrupted: int = 0
    watched: int = 0
    cut: int = 0
    """How often a relay ended a response before the stream's end: that somebody read elsewhere."""
    dropped: int = 0
    """How often a client did, as a phone does that changes its network."""
    resumed: int = 0
    """How often one of these read on."""
    lost: int = 0
    """Readers that miss something of a stream which says that it was completed."""
    duplicated: int = 0
    """Events that came twice, or in another order."""
    failed: int = 0
    """Requests that got no answer: connections refused or reset."""
    refused: int = 0
    """Answers other than 200."""
    longest_gap_s: float = 0.0
    """Of silence, as a reader saw it."""
    errors: list[str] = field(default_factory=list)


class Browser:
    """One stream as one page sees it."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        key: str,
        count: Count,
        *,
        drop_at: int | None = None,
    ) -> None:
        self._http = http
        self._drop_at = drop_at
        """With which event it loses its connection once."""
        self._url = url
        self._headers = {
            "authorization": f"Bearer {key}",
            "host": "chat.example.com",
            "accept": "text/event-stream",
            "connection": "close",
        }
        self._count = count
        self._seen: list[Message] = []
        self._gap = 0
        self._last = 0.0
        self.stream: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Empty if its relay was killed before its answer began: its key then says so for ever."""

    @property
    def _ended(self) -> bool:
        return bool(self._seen) and self._seen[-1].event == "stream.end"

    async def start(self, name: str, tokens: int) -> None:
        """Ask for an answer of so many tokens, and read it to its end."""
        body = {"model": "fast", "messages": [{"role": "user", "content": str(tokens)}]}
        headers = {**self._headers, "idempotency-key": name}
        self._count.started += 1
        while not self.stream.done():
            await self._read("POST", "/v1/chat", headers=headers, json=body)
            if not self.stream.done():
                await asyncio.sleep(0.2)
        if not self.stream.result():
            self._count.interrupted += 1
            return
        await self._go_on()
        status = json.loads(self._seen[-1].data)["status"]
        if status == "completed":
            self._count.completed += 1
        else:
            assert "interrupted" == status
            self._count.interrupted += 1
        self._check(status, tokens)

    async def watch(self, other: "Browser", tokens: int) -> None:
        """Read what another browser has started."""
        self.stream.set_result(await other.stream)
        if not self.stream.result():
            return
        self._count.watched += 1
        await self._go_on()
        self._check(json.loads(self._seen[-1].data)["status"], tokens)

    async def _go_on(self) -> None:
        while not self._ended:
            if self._seen:
                self._count.resumed += 1
            cursor = {"last-event-id": self._seen[-1].id} if self._seen else {}
            path = f"/v1/streams/{self.stream.result()}/events"
            await self._read("GET", path, headers={**self._headers, **cursor})
            if not self._ended:
                await asyncio.sleep(0.1)

    async def _read(self, method: str, path: str, **more: Any) -> None:
        """Read one response, to the end or to a cut."""
        answered = False
        decoder = Decoder()
        with contextlib.suppress(httpx2.TransportError):
            async with self._http.stream(method, f"{self._url}{path}", **more) as reply:
                answered = True
                if reply.status_code != 200:
                    self._refuse((await reply.aread()).decode())
                    return
                if not self.stream.done():
                    self.stream.set_result(reply.headers["stream-id"])
                async for chunk in reply.aiter_bytes():
                    for message in decoder.feed(chunk):
                        self._take(message)
                    if self._drop_at is not None and len(self._seen) >= self._drop_at:
                        self._drop_at = None
                        self._count.dropped += 1
                        return
        if not answered:
            self._count.failed += 1
        elif not self._ended:
            self._count.cut += 1

    def _refuse(self, body: str) -> None:
        if '"producer_lost"' in body and not self.stream.done():
            self.stream.set_result("")
            return
        self._count.refused += 1
        self._count.errors.append(body[:300])

    def _take(self, message: Message) -> None:
        now = asyncio.get_running_loop().time()
        if self._seen:
            self._count.longest_gap_s = max(self._count.longest_gap_s, now - self._last)
        self._last = now
        stream, number = self.stream.result(), len(self._seen) + 1
        if not self._gap and message.id != f"{stream}.{number}":
            self._gap = number * STRIDE  # it was ended for a lost relay
        if self._ended or message.id != f"{stream}.{self._gap + number}":
            self._count.duplicated += 1
        self._seen.append(message)

    def _check(self, status: str, tokens: int) -> None:
        """Note it if the text is not what the provider has said, or for a cut one its beginning."""
        events = [json.loads(message.data) for message in self._seen]
        words = "".join(one["text"] for one in events if one["type"] == "text.delta").split()
        expected = [str(number) for number in range(tokens)]
        if words != (expected if status == "completed" else expected[: len(words)]):
            self._count.lost += 1


class Load:
    """Starts streams at a steady rate until it is told to stop, and has each watched by another.

    Every fourth reader loses its connection once.
    """

    def __init__(self, url: str, key: str, *, rate: float, tokens: tuple[int, ...]) -> None:
        self.count = Count()
        self._url = url
        self._key = key
        self._rate = rate
        self._tokens = tokens
        self._stopped = asyncio.Event()
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Run until `stop` is called, and the last reader has its end."""
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        async with (
            httpx2.AsyncClient(timeout=30, trust_env=False, verify=False, limits=limits) as http,
            asyncio.TaskGroup() as group,
        ):
            number = 0
            while not self._stopped.is_set():
                tokens = self._tokens[number % len(self._tokens)]
                one, other = (
                    Browser(http, self._url, self._key, self.count, drop_at=drop_at)
                    for drop_at in (tokens // 2 if number % 2 else None, None)
                )
                group.create_task(one.start(f"question-{number}", tokens))
                group.create_task(other.watch(one, tokens))
                number += 1
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), 1 / self._rate)
        self._over.set()

    async def stop(self) -> None:
        """Start no more streams, and wait for the ends of those that run."""
        self._stopped.set()
        await self._over.wait()

"""A client of `GET /v1/streams/watch`, which can be cut off and come back."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from app.framing.sse import Decoder

Told = dict[str, Any]


class Watched:
    """One connection of a watch, and what it was told."""

    def __init__(self, reply: httpx2.Response) -> None:
        self.reply = reply
        self.told: list[Told] = []
        self.id = ""
        """That of the last event taken."""
        self.over = False
        """Whether the body has ended, whole."""
        self._chunks = reply.aiter_bytes()
        self._decoder = Decoder()
        self._came: list[Any] = []

    async def take(self, *, within_s: float = 20) -> Told | None:
        """Return the next event, with its id; None at the end."""
        async with asyncio.timeout(within_s):
            while not self._came and not self.over:
                try:
                    self._came += self._decoder.feed(await anext(self._chunks))
                except StopAsyncIteration:
                    self.over = True
        if not self._came:
            return None
        message = self._came.pop(0)
        event = json.loads(message.data)
        assert event["type"] == message.event
        self.id = message.id
        self.told.append(event)
        return event

    async def until(self, type: str, **fields: Any) -> Told:
        """Take events up to one of a type, with these fields; return it."""
        while (event := await self.take()) is not None:
            if event["type"] == type and fields.items() <= event.items():
                return event
        raise AssertionError(f"the watch ended before a {type}: {self.told}")


@asynccontextmanager
async def watching(
    client: httpx2.AsyncClient, query: str = "", *, after: str = "", who: str = "ann"
) -> AsyncIterator[Watched]:
    headers = {"authorization": f"Bearer {who}", "accept": "text/event-stream"}
    if after:
        headers["last-event-id"] = after
    async with client.stream("GET", f"/v1/streams/watch{query}", headers=headers) as reply:
        assert 200 == reply.status_code, await reply.aread()
        yield Watched(reply)

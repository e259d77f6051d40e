"""Clients that ask for streams, and read them, leave them, cancel them or never come back."""

import asyncio
import json
import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import httpx2

from app.framing.sse import Decoder
from tests.money.company import Member
from tests.money.judge import Asked
from tests.money.provider import Plan
from tests.replicas.processes import Replica

Way = Literal["read", "leave", "cancel", "delete", "result", "async", "chat", "messages", "key"]
WAYS: tuple[Way, ...] = (
    *("read", "leave", "cancel", "delete", "result", "async", "chat", "messages", "key"),
)

REFUSED_TRIES = 60
"""How often a client asks that is refused as the log is away."""


class Client:
    """Asks once, in one way, and notes what it was told."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        replicas: Sequence[Replica],
        plan: Plan,
        *,
        way: Way,
        member: Member,
        upstream: str = "openai",
        max_tokens: int | None = None,
        dice: random.Random,
        tries: int = 60,
    ) -> None:
        self._http = http
        self._replicas = replicas
        self._way = way
        self._dice = dice
        self._tries = tries if way == "key" else 1
        self.asked = Asked(plan.name, keyed=way == "key", way=way)
        self._plan = plan
        self._body: dict[str, Any] = {
            # Each has a model of its own: none is passed over for what others came to.
            "model": upstream if upstream == "smart" else f"{upstream}/m-{plan.name}",
            "messages": [{"role": "user", "content": plan.prompt}],
        }
        if max_tokens is not None:
            self._body["max_tokens"] = max_tokens
        # Each on a connection of its own, so that any worker may have it.
        self._headers = {**member.headers, "x-request-id": plan.name, "connection": "close"}

    async def live(self) -> Asked:
        """Ask, and do with the stream what one of this way does."""
        for number in range(max(self._tries, REFUSED_TRIES)):
            with suppress(httpx2.TransportError, httpx2.StreamError):
                await self._reach()
            if self.asked.end is not None or self.asked.status in (401, 402, 429, 400, 502, 504):
                break
            if self.asked.status == 503:  # else one outage refuses all
                self.asked.status = None
            elif number + 1 >= self._tries:
                break
            await asyncio.sleep(self._dice.uniform(0.05, 0.3))
        return self.asked

    async def _reach(self) -> None:
        """Ask a relay that there is: one that is started again is not there for a while."""
        for _ in range(200):
            try:
                return await self._ask()
            except httpx2.ConnectError:
                if self.asked.status is not None:  # it was for the stream that is there
                    return
                await asyncio.sleep(0.1)

    @property
    def _url(self) -> str:
        return self._dice.choice(self._replicas).url

    async def _ask(self) -> None:
        headers, body, path = dict(self._headers), dict(self._body), "/v1/chat"
        match self._way:
            case "chat":
                path, body["stream"] = "/v1/chat/completions", True
            case "messages":
                path, body["stream"] = "/v1/messages", True
                body.setdefault("max_tokens", 1000)
            case "result":
                body["stream"] = False
            case "key":
                headers["idempotency-key"] = self._plan.name
                body["on_disconnect"] = "continue"
            case "async":
                headers["prefer"] = "respond-async"
        async with self._http.stream("POST", self._url + path, json=body, headers=headers) as reply:
            self.asked.status = reply.status_code
            # A stream may be taken back where nobody was called for it, which this status says.
            refused = reply.status_code == (529 if self._way == "messages" else 503)
            if (stream := reply.headers.get("stream-id")) and not refused:
                self.asked.streams.add(stream)
            if reply.status_code >= 300:
                self._note(await reply.aread())
            elif self._way in ("result", "async"):
                await reply.aread()
                self.asked.end = "done"
            else:
                await self._read(reply, stream)

    def _note(self, content: bytes) -> None:
        """Note the code of a problem, in whichever format."""
        with suppress(ValueError, AttributeError):
            problem = json.loads(content)
            error = problem.get("error") or {}
            self.asked.code = problem.get("code") or error.get("code") or error.get("type") or ""

    async def _read(self, reply: httpx2.Response, stream: str | None) -> None:
        """Read to the end, or until the client has seen enough."""
        enough = self._dice.randint(0, self._plan.tokens + 3)
        decoder, seen = Decoder(), 0
        async for piece in reply.aiter_bytes():
            for message in decoder.feed(piece):
                seen += 1
                if message.event == "stream.end":
                    self.asked.end = json.loads(message.data)["status"]
                elif message.data == "[DONE]" or message.event == "message_stop":
                    self.asked.end = "done"
            if seen > enough and self._way == "leave":
                return
            if seen > enough and self._way in ("cancel", "delete"):
                await self._stop(stream)
                return

    async def _stop(self, stream: str | None) -> None:
        url = f"{self._url}/v1/streams/{stream}"
        if self._way == "cancel":
            await self._http.post(f"{url}/cancel", headers=self._headers)
        else:
            await self._http.delete(url, headers=self._headers)

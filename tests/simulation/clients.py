"""Clients: they ask at each door, leave and come back, read what others started, and stop it."""

import asyncio
import contextlib
import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import websockets

from app.framing.sse import Decoder

from .history import History
from .http_client import WHOLE_S, Answer, Cut, Silent, ask

NATIVE: Final = "native"

PATHS: Final = {
    NATIVE: "/v1/chat",
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "socket": "/v1/responses",
}
"""The doors, by the format of their answers."""


@dataclass(frozen=True)
class Plan:
    """What one client does; drawn before the run, so that it does not depend on its order."""

    marker: str
    tokens: int
    door: str
    model: str
    begins_at: float
    credential: str | None
    key: str | None
    streams: bool
    asynchronous: bool
    leaves_after: tuple[int, ...]
    """The frames after which it leaves, at each of its connections; then it stays."""
    silently: bool
    comes_back: bool
    pause_s: float
    readers: int
    """How many others read the stream, natively."""
    stops: str
    """`cancel` or `delete`, by another connection; "" for neither."""
    stops_after: int
    max_tokens: int | None
    takes_s: float
    """How long it, and who reads along, works on each piece."""
    repeats: tuple[float, ...]
    """When others send its request again, with its key: seconds after it."""

    @classmethod
    def draw(
        cls, dice: random.Random, number: int, *, models: Sequence[str], credentials: Sequence[str]
    ) -> "Plan":
        door = dice.choices([*PATHS], [6, 1, 1, 1])[0]
        tokens = dice.choice((1, 3, 5, 8, 12, 30))
        has_key = dice.random() < 0.4
        stop = dice.random()
        return cls(
            marker=f"q{number}",
            tokens=tokens,
            door=door,
            model=dice.choice(models),
            begins_at=dice.choice((0, 0, 0.05, 0.5, 3)),
            credential=dice.choice(credentials) if credentials else None,
            key=f"key-{number}" if has_key else None,
            streams=dice.random() < 0.85,
            asynchronous=door == NATIVE and dice.random() < 0.15,
            leaves_after=tuple(
                dice.randint(0, tokens + 5) for _ in range(dice.choice((0, 0, 1, 2)))
            ),
            silently=dice.random() < 0.2,
            comes_back=dice.random() < 0.8,
            pause_s=dice.choice((0, 0.01, 0.5, 4, 9)),
            readers=dice.choice((0, 0, 1, 2)),
            stops="cancel" if stop < 0.12 else "delete" if stop < 0.2 else "",
            stops_after=dice.randint(0, tokens),
            max_tokens=dice.choice((None, None, None, 2, 50)),
            takes_s=dice.choice((0, 0, 0, 0, 0.05, 0.8)),
            repeats=tuple(
                dice.choice((0, 0.02, 0.3, 2, 8, 20)) for _ in range(dice.choice((0, 0, 1, 2)))
            )
            if has_key and door != "socket"
            else (),
        )


class Client:
    """Lives through one plan; `choose` returns the address of a relay to ask."""

    def __init__(
        self,
        plan: Plan,
        history: History,
        choose: Callable[[], tuple[str, int]],
        *,
        spawn: Callable[[Any], object],
    ) -> None:
        self.plan = plan
        self.stream = ""
        self._history = history
        self._choose = choose
        self._spawn = spawn
        self._seen = 0
        """Frames of the own connections."""
        self._more = asyncio.Event()
        self._sessions = itertools.count(1)

    async def live(self) -> None:
        """Ask, leave, come back, until the end is read or the plan says not to."""
        plan = self.plan
        await asyncio.sleep(plan.begins_at)
        if plan.door == "socket":
            await self._converse()
            return
        for after_s in plan.repeats:
            self._spawn(self._repeat(after_s))
        leaves = [*plan.leaves_after]
        cursor: str | None = None
        for attempt in range(12):
            try:
                if cursor is None or (plan.key and plan.door != NATIVE):
                    answer = await self._start()
                else:
                    answer = await self._return(cursor)
                if answer is None:
                    return
                if answer.status in (429, 503):  # not now
                    answer.leave()
                    if not plan.key:
                        return
                    await asyncio.sleep(1 + 2 * attempt)
                    continue
                if not plan.streams or answer.status != 200:
                    await self._read_document(answer)
                    return
                most = leaves.pop(0) if leaves else None
                session = f"{plan.marker}.{next(self._sessions)}"
                last, over = await self._read(
                    answer, plan.door, session=session, most=most, after=cursor or ""
                )
                cursor = last or cursor
                if over:
                    return
            except Cut as cut:
                if isinstance(cut, Silent):
                    self._history.add("silence", session=plan.marker)
                if not plan.key and not self.stream:
                    return
            if not plan.comes_back:
                return
            await asyncio.sleep(plan.pause_s)
            if plan.door != NATIVE and not plan.key:
                return

    async def _converse(self) -> None:
        """Ask over a WebSocket, and read the answer's messages."""
        plan, note = self.plan, self._history.add
        most = plan.leaves_after[0] if plan.leaves_after else None
        host, port = self._choose()
        content = f"{plan.marker} {plan.tokens}"
        create = {"type": "response.create", "model": plan.model, "input": content}
        note("ask", marker=plan.marker, door=plan.door, key=None)
        note("read", session=plan.marker, stream="", door=plan.door, after="")
        url = f"ws://{host}:{port}{PATHS[plan.door]}"
        try:
            async with (
                asyncio.timeout(WHOLE_S),
                websockets.connect(
                    url, proxy=None, additional_headers=self._headers, close_timeout=1
                ) as socket,
            ):
                await socket.send(json.dumps(create))
                count = 0
                while most is None or count < most:
                    message = json.loads(await socket.recv())
                    note("frame", session=plan.marker, id="", data=json.dumps(message))
                    count += 1
                    if message["type"] in _LAST:
                        break
        except TimeoutError:
            note("silence", session=plan.marker)
        except (OSError, websockets.exceptions.WebSocketException) as error:
            note("cut", session=plan.marker, why=type(error).__name__)

    @property
    def _headers(self) -> dict[str, str]:
        found = {"x-request-id": self.plan.marker}
        if self.plan.credential is not None:
            found["authorization"] = f"Bearer {self.plan.credential}"
        return found

    async def _start(self) -> Answer | None:
        """Ask for the answer; return None if another connection has to read it."""
        plan = self.plan
        headers = self._headers
        if plan.key is not None:
            headers["idempotency-key"] = plan.key
        if plan.asynchronous:
            headers["prefer"] = "respond-async"
        content = f"{plan.marker} {plan.tokens}"
        body: dict[str, Any] = {
            "model": plan.model,
            "stream": plan.streams,
            "messages": [{"role": "user", "content": content}],
        }
        if plan.max_tokens is not None or plan.door == "messages":
            body["max_tokens"] = plan.max_tokens or 100
        self._history.add("ask", marker=plan.marker, door=plan.door, key=plan.key)
        answer = await ask(self._choose(), "POST", PATHS[plan.door], body=body, headers=headers)
        found = answer.headers.get("stream-id", "")
        self._history.add("told", marker=plan.marker, status=answer.status, stream=found)
        if found and found != self.stream:
            self.stream = found
            self._begin_others()
        if plan.asynchronous and answer.status == 202:
            content_ = json.loads(await answer.read())
            answer.leave()
            return await self._return("", content_["id"])
        return answer

    async def _repeat(self, after_s: float) -> None:
        """Send the request again, with the same key, and read the answer."""
        await asyncio.sleep(after_s)
        with contextlib.suppress(Cut):
            answer = await self._start()
            if answer is None:
                return
            if not self.plan.streams or answer.status != 200:
                await self._read_document(answer)
                return
            session = f"{self.plan.marker}.again{next(self._sessions)}"
            await self._read(answer, self.plan.door, session=session, most=None, after="")

    async def _return(self, cursor: str, stream: str = "") -> Answer:
        headers = {**self._headers, **({"last-event-id": cursor} if cursor else {})}
        return await ask(
            self._choose(), "GET", f"/v1/streams/{stream or self.stream}/events", headers=headers
        )

    async def _read_document(self, answer: Answer) -> None:
        content = await answer.read()
        answer.leave()
        self._history.add(
            "document", marker=self.plan.marker, status=answer.status, size=len(content)
        )

    async def _read(
        self,
        answer: Answer,
        door: str,
        *,
        session: str,
        most: int | None,
        after: str,
        stream: str = "",
    ) -> tuple[str, bool]:
        """Read frames; return the last id, and whether the end was among them."""
        decoder, last, count = Decoder(), "", 0
        note, answer.takes_s = self._history.add, self.plan.takes_s
        stream = stream or answer.headers.get("stream-id", "") or self.stream
        note("read", session=session, stream=stream, door=door, after=after)
        try:
            async for piece in answer.pieces():
                for message in decoder.feed(piece):
                    if not message.data:
                        continue
                    note("frame", session=session, id=message.id, data=message.data)
                    last = message.id or last
                    count += 1
                    self._seen += 1
                    self._more.set()
                    if _is_end(door, message.data):
                        answer.leave()
                        return last, True
                    if most is not None and count >= most:
                        break
                if most is not None and count >= most:
                    break
        except Cut as cut:
            answer.leave()
            note("silence" if isinstance(cut, Silent) else "cut", session=session)
            return last, False
        answer.leave(silently=self.plan.silently)
        note("left", session=session, whole=most is None or count < most)
        return last, answer.status == 204

    # Others

    def _begin_others(self) -> None:
        plan = self.plan
        for number in range(plan.readers):
            self._spawn(
                self._read_along(f"{plan.marker}.r{next(self._sessions)}{number}", self.stream)
            )
        if plan.stops:
            self._spawn(self._stop_later())

    async def _read_along(self, name: str, stream: str) -> None:
        cursor, over = "", False
        for session in range(8):
            with contextlib.suppress(Cut):
                answer = await self._return(cursor, stream)
                if answer.status != 200:
                    answer.leave()
                    return
                last, over = await self._read(
                    answer,
                    NATIVE,
                    session=f"{name}.{session}",
                    most=None,
                    after=cursor,
                    stream=stream,
                )
                cursor = last or cursor
            if over:
                return
            await asyncio.sleep(0.5)

    async def _stop_later(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.plan.pause_s):
                while self._seen < self.plan.stops_after:
                    await self._more.wait()
                    self._more.clear()
        await self.stop(self.plan.stops)

    async def stop(self, how: str) -> None:
        """Stop the stream, or delete it."""
        path = f"/v1/streams/{self.stream}"
        method, path = ("DELETE", path) if how == "delete" else ("POST", f"{path}/cancel")
        self._history.add("stop", stream=self.stream, how=how)
        with contextlib.suppress(Cut):
            answer = await ask(self._choose(), method, path, headers=self._headers)
            await answer.read()
            answer.leave()
            self._history.add("stopped", stream=self.stream, status=answer.status)


_LAST: Final = ("response.completed", "response.incomplete", "response.failed", "error")


def _is_end(door: str, data: str) -> bool:
    if door == NATIVE:
        return '"type":"stream.end"' in data
    return data == "[DONE]" or '"type":"message_stop"' in data

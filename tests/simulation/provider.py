"""A simulated provider of three wire formats, with a book of what each call is billed.

The answer to a request is known: its prompt is `MARKER N`, the name of the request and the tokens
of its answer. So whatever a client reads can be compared with it, and what was billed with what
the relay has settled.
"""

import asyncio
import contextlib
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from .history import History

INPUT_NANO: Final = 1000
OUTPUT_NANO: Final = 2000
"""Nano-USD for a token: 1 and 2 USD for a million."""

INPUT_TOKENS: Final = 4
"""What each prompt counts: less than a relay estimates, so that no budget is overrun by it."""

HOW: Final = {
    "whole": 10,
    "busy": 2,
    "broken": 2,
    "drop": 1,
    "mute": 1,
    "cut": 2,
    "torn": 2,
    "reset": 2,
    "stall": 1,
    "error": 1,
    "silent": 2,
}
"""The ways in which a call is answered, with their weights."""


def answer_of(marker: str, count: int) -> list[str]:
    """Return the tokens of the answer to a request, of four characters each."""
    first = int(marker[1:])
    return [f" {number:02}{'abcdefghij'[(first + number) % 10]}" for number in range(count)]


@dataclass
class Call:
    """One call, with what it costs."""

    number: int
    target: str
    marker: str
    how: str
    length: int
    begun: bool = False
    """Whether a model has begun: it costs its input."""
    sent: int = 0
    """The tokens that were generated."""
    whole: bool = False
    """Whether the end of the answer was sent."""
    told: bool = False
    """Whether the usage was sent too."""
    skipped: int = 0
    """The tokens that it did not repeat, since the request had them."""
    times: list[float] = field(default_factory=list)
    """When each token was sent; empty for one that is generated without a reader."""
    places: list[int] = field(default_factory=list)
    """Where each of them ends among the bytes of the connection."""

    @property
    def billed(self) -> int:
        return INPUT_NANO * INPUT_TOKENS + OUTPUT_NANO * self.sent if self.begun else 0


@dataclass
class Stored:
    """An answer that is generated without a reader, and can be read on."""

    call: Call
    events: list[bytes] = field(default_factory=list)
    over: bool = False
    more: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def add(self, event: bytes) -> None:
        self.events.append(event)
        self.more.set()
        self.more.clear()


class Provider:
    """Serves one host."""

    def __init__(self, name: str, wire: str, dice: random.Random, history: History) -> None:
        self.name, self.wire = name, wire
        self.calls: list[Call] = []
        self.well = False
        """Whether every call is answered wholly."""
        self.trouble = 0.0
        """The share of calls that are drawn from `HOW`."""
        self._dice = dice
        self._history = history
        self._stored: dict[str, Stored] = {}

    def stop(self) -> None:
        """Stop answers that are generated without a reader."""
        for stored in self._stored.values():
            if stored.task is not None:
                stored.task.cancel()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the calls of one connection."""
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        found = re.search(r"content-length: (\d+)", head.lower())
        raw = await reader.readexactly(int(found[1])) if found else b""
        if (stored := self._find(path)) is not None:
            await self._serve_stored(method, path, stored, writer)
            return False
        if method == "GET":
            writer.write(_document(404, {"error": {"message": "no"}}))
            return True
        body = json.loads(raw)
        call = self._begin(body)
        gone = asyncio.get_running_loop().create_task(reader.read(1))
        try:
            return await self._answer(call, body, writer, gone)
        finally:
            gone.cancel()
            self._note(call, writer.transport)
            await asyncio.wait({gone})

    def _begin(self, body: dict[str, Any]) -> Call:
        dice = self._dice
        how = "whole"
        if not self.well and dice.random() < self.trouble:
            how = dice.choices(list(HOW), list(HOW.values()))[0]
        marker, count, before = _read_prompt(body)
        limit = body.get("max_tokens") or body.get("max_output_tokens")
        number = len(self.calls) + 1
        call = Call(number, f"{self.name}/{body['model']}", marker, how, count)
        call.skipped = len(before) // 4
        call.length = max(0, count - call.skipped)
        if limit is not None:
            call.length = min(call.length, limit)
        self.calls.append(call)
        self._history.add("call", marker=marker, target=call.target, number=number, how=how)
        return call

    def _note(self, call: Call, transport: Any = None) -> None:
        arrived = sum(transport is not None and one <= transport.delivered for one in call.places)
        self._history.add(
            "billed",
            marker=call.marker,
            target=call.target,
            number=call.number,
            nano=call.billed,
            sent=call.sent,
            skipped=call.skipped,
            whole=call.whole,
            told=call.told,
            how=call.how,
            times=call.times,
            arrived=arrived,
        )

    async def _answer(
        self,
        call: Call,
        body: dict[str, Any],
        writer: asyncio.StreamWriter,
        gone: "asyncio.Future[Any]",
    ) -> bool:
        """Play an answer; return whether the connection goes on."""
        dice, how = self._dice, call.how
        pace_s = dice.choice((0, 0, 0.001, 0.02, 0.3))
        await _pause(dice.choice((0, 0.001, 0.05, 0.5)), gone)
        if how == "busy":
            writer.write(_document(429, {"error": {"message": "busy", "type": "rate_limit_error"}}))
            return True
        if how == "broken":
            writer.write(_document(500, {"error": {"message": "broken", "type": "api_error"}}))
            return True
        call.begun = True
        if how == "mute":
            await asyncio.wait({gone}, timeout=3000)
            return False
        if how == "drop":
            _reset(writer)
            return False
        tokens = answer_of(call.marker, call.skipped + call.length)[call.skipped :]
        stops_at = dice.randint(0, len(tokens)) if how in _BROKEN else len(tokens)
        wire = _WIRES[self.wire](call, body)
        writer.write(_HEAD)
        if body.get("background"):
            stored = self._stored[wire.id] = Stored(call)
            stored.task = asyncio.create_task(self._generate(stored, wire, tokens, pace_s))
            await self._send_stored(stored, writer, gone, after=-1, stop_after=stops_at, how=how)
            return False
        for event in wire.begin():
            _chunk(writer, event)
        for token in tokens[:stops_at]:
            await _pause(pace_s, gone)
            if gone.done():
                return False
            call.sent += 1
            call.times.append(round(asyncio.get_running_loop().time(), 6))
            _chunk(writer, wire.token(token))
            transport: Any = writer.transport
            call.places.append(transport.delivered + transport.get_write_buffer_size())
            await writer.drain()
        if how in _BROKEN:
            if how == "torn":
                call.sent += stops_at < len(tokens)  # generated, and lost on its way
                rest = wire.token(tokens[stops_at] if stops_at < len(tokens) else " end")
                _chunk(writer, rest[: dice.randint(1, len(rest) // 2)])
            if how == "error" and not call.sent:
                call.begun = False  # an error in place of an answer is a refusal, which is free
            await _break(how, writer, gone, wire)
            return False
        call.whole, call.told = True, how != "silent" and wire.tells
        end = b"".join(wire.end(told=call.told, cut=call.length < call.length))
        _chunk(writer, end)
        await _pause(dice.choice((0, 0, 0.001, 0.05, 0.5)), gone)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return dice.random() < 0.7 and not gone.done()

    # Stored answers

    def _find(self, path: str) -> Stored | None:
        found = re.search(r"/responses/([^/?]+)", path)
        return self._stored.get(found[1]) if found else None

    async def _generate(
        self, stored: Stored, wire: "_Responses", tokens: list[str], pace_s: float
    ) -> None:
        try:
            for event in wire.begin():
                stored.add(event)
            for token in tokens:
                await asyncio.sleep(pace_s)
                stored.call.sent += 1
                stored.add(wire.token(token))
            stored.call.whole = stored.call.told = True
            for event in wire.end(told=True, cut=False):
                stored.add(event)
        finally:
            stored.over = True
            stored.more.set()
            self._note(stored.call)

    async def _serve_stored(
        self, method: str, path: str, stored: Stored, writer: asyncio.StreamWriter
    ) -> None:
        if method == "POST":  # a cancel
            if stored.task is not None and not stored.over:
                stored.task.cancel()
            writer.write(_document(200, {"id": "r", "status": "cancelled"}))
            return
        after = int(parse_qs(urlsplit(path).query).get("starting_after", ["-1"])[0])
        writer.write(_HEAD)
        how = "whole"
        if not self.well and self._dice.random() < self.trouble / 2:
            how = self._dice.choice(("cut", "reset"))
        stop = after + self._dice.randint(1, 3)
        never: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        await self._send_stored(stored, writer, never, after=after, stop_after=stop, how=how)

    async def _send_stored(
        self,
        stored: Stored,
        writer: asyncio.StreamWriter,
        gone: "asyncio.Future[Any]",
        *,
        after: int,
        stop_after: int,
        how: str,
    ) -> None:
        place = after + 1
        while True:
            while place < len(stored.events):
                if how in _BROKEN and place > stop_after:
                    await _break("reset" if how == "reset" else "cut", writer, gone, None)
                    return
                _chunk(writer, stored.events[place])
                place += 1
            if stored.over or gone.done():
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stored.more.wait(), 0.5)
        writer.write(b"0\r\n\r\n")


_BROKEN: Final = ("cut", "torn", "reset", "stall", "error")


async def _break(
    how: str, writer: asyncio.StreamWriter, gone: "asyncio.Future[Any]", wire: Any
) -> None:
    match how:
        case "stall":
            await asyncio.wait({gone}, timeout=3000)
        case "reset":
            await asyncio.sleep(0.05)
            _reset(writer)
        case "error":
            _chunk(writer, wire.error())
            writer.write(b"0\r\n\r\n")


class _Chat:
    """Chat Completions."""

    def __init__(self, call: Call, body: dict[str, Any]) -> None:
        self._call = call
        self.tells = bool((body.get("stream_options") or {}).get("include_usage"))
        self.id = f"c{call.number}"

    def begin(self) -> list[bytes]:
        return [self._piece({"role": "assistant", "content": ""})]

    def token(self, text: str) -> bytes:
        return self._piece({"content": text})

    def error(self) -> bytes:
        return _data({"error": {"type": "server_error", "message": "failed", "code": "failed"}})

    def end(self, *, told: bool, cut: bool) -> list[bytes]:
        last = [self._piece({}, "length" if cut else "stop")]
        if told:
            sent = self._call.sent
            usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": sent}
            usage["total_tokens"] = INPUT_TOKENS + sent
            last.append(_data({"id": self.id, "choices": [], "usage": usage}))
        return [*last, b"data: [DONE]\n\n"]

    def _piece(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({"id": self.id, "object": "chat.completion.chunk", "choices": [choice]})


class _Messages:
    """Anthropic's Messages."""

    tells = True

    def __init__(self, call: Call, body: dict[str, Any]) -> None:
        self._call = call
        self.id = f"m{call.number}"
        self._model = body["model"]

    def begin(self) -> list[bytes]:
        message = {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }
        if self._call.how != "silent":
            message["usage"] = {"input_tokens": INPUT_TOKENS, "output_tokens": 1}
        block = {"type": "text", "text": ""}
        return [
            _event("message_start", message=message),
            _event("content_block_start", index=0, content_block=block),
        ]

    def token(self, text: str) -> bytes:
        return _event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})

    def error(self) -> bytes:
        return _event("error", error={"type": "api_error", "message": "failed"})

    def end(self, *, told: bool, cut: bool) -> list[bytes]:
        reason = {"stop_reason": "max_tokens" if cut else "end_turn", "stop_sequence": None}
        usage = {"usage": {"output_tokens": self._call.sent}} if told else {}
        return [
            _event("content_block_stop", index=0),
            _event("message_delta", delta=reason, **usage),
            _event("message_stop"),
        ]


class _Responses:
    """OpenAI Responses, with numbered events."""

    tells = True

    def __init__(self, call: Call, body: dict[str, Any]) -> None:
        self._call = call
        self.id = f"resp{call.number}"
        self._number = -1

    def _one(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return _event(kind, sequence_number=self._number, **fields)

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        model = self._call.target.partition("/")[2]
        return {"id": self.id, "object": "response", "model": model, "status": status, **fields}

    def begin(self) -> list[bytes]:
        item = {"type": "message", "id": "m1", "role": "assistant", "content": []}
        return [
            self._one("response.created", response=self._response("in_progress")),
            self._one("response.output_item.added", output_index=0, item=item),
        ]

    def token(self, text: str) -> bytes:
        return self._one(
            "response.output_text.delta", output_index=0, content_index=0, item_id="m1", delta=text
        )

    def error(self) -> bytes:
        return self._one("error", code="server_error", message="failed", param=None)

    def end(self, *, told: bool, cut: bool) -> list[bytes]:
        sent = self._call.sent
        usage = {"input_tokens": INPUT_TOKENS, "output_tokens": sent}
        usage["total_tokens"] = INPUT_TOKENS + sent
        item = {"type": "message", "id": "m1", "role": "assistant", "content": []}
        fields = {"usage": usage} if told else {}
        return [
            self._one("response.output_item.done", output_index=0, item=item),
            self._one(
                "response.completed", response=self._response("completed", output=[], **fields)
            ),
        ]


_WIRES: Final[dict[str, Any]] = {
    "openai_chat": _Chat,
    "anthropic": _Messages,
    "openai_responses": _Responses,
}

_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


def _read_prompt(body: dict[str, Any]) -> tuple[str, int, str]:
    """Return the marker, the length of the answer, and what the request has of it already."""
    messages = body.get("messages") or body["input"]
    texts = [(one["role"], _text(one["content"])) for one in messages if "role" in one]
    found = next(m for role, text in texts if (m := re.search(r"(q\d+) (\d+)", text)))
    before = "".join(text for role, text in texts if role == "assistant")
    return found[1], int(found[2]), before


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def _pause(seconds: float, gone: "asyncio.Future[Any]") -> None:
    if seconds:
        await asyncio.wait({gone}, timeout=seconds)
    else:
        await asyncio.sleep(0)


def _reset(writer: asyncio.StreamWriter) -> None:
    transport: Any = writer.transport
    transport.reset()


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _document(status: int, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: "
    return head.encode() + b"%d\r\n\r\n" % len(content) + content


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})

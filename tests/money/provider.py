"""A provider that keeps its own ledger: what it was asked, what it has sent, what it bills.

It speaks Chat Completions and Anthropic's Messages on a real socket. What it does with a call
is written into the prompt, by a `Plan`. It bills the prompt of every call that it takes, and
each token of the answer that it had written before it saw the connection go.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from app.ledger.config import PriceConfig

PRICE = PriceConfig(target="*", input=1, output=4)
"""What it costs: 1 USD a million tokens of input, 4 of output."""
INPUT_NANO, OUTPUT_NANO = 1_000, 4_000
"""The same for one token, in nano-USD."""

How = Literal[
    "whole",  # the answer, and usage where that is told
    "silent",  # the answer without usage
    "early",  # usage at the beginning, where the format has it, and none at the end
    "cut",  # the connection is reset after the tokens
    "error",  # an event says that it failed, after the tokens
    "stall",  # nothing more after the tokens, until the relay goes
    "mute",  # not even a head, until the relay goes
    "drop",  # the connection is reset before the head, and the call is billed
    "429",
    "500",
    "401",
    "busy",  # 429 for the first call, then the answer
    "again",  # the first call is cut off before its first token, then the answer
]
REFUSALS = {
    "429": (429, "rate_limit_error"),
    "500": (500, "server_error"),
    "401": (401, "authentication_error"),
}


@dataclass(frozen=True)
class Plan:
    """What the provider is to do with a request; `name` tells it from all others."""

    name: str
    how: How = "whole"
    tokens: int = 10
    pace_ms: float = 0
    """Before each token."""
    first_ms: float = 0
    """Before the head."""

    @property
    def prompt(self) -> str:
        return f"{self.name} {self.how} {self.tokens} {self.pace_ms:g} {self.first_ms:g}"


def ceiling(calls: int, input_tokens: int, output_tokens: int) -> int:
    """Return what so many calls cost at most, in nano-USD."""
    return calls * (input_tokens * INPUT_NANO + output_tokens * OUTPUT_NANO)


def read_plan(prompt: str) -> Plan:
    """Read what `Plan.prompt` has written; words that follow count as input only."""
    name, how, tokens, pace_ms, first_ms = prompt.split()[:5]
    assert how in How.__args__, how  # type: ignore[attr-defined]  # a Literal has them
    return Plan(name, how, int(tokens), pace_ms=float(pace_ms), first_ms=float(first_ms))  # type: ignore[arg-type]  # as asserted


@dataclass
class Call:
    """One call, as the provider remembers it."""

    plan: Plan
    input_tokens: int
    estimate: int
    """Of these, by a relay."""
    max_tokens: int | None
    """The longest answer that was asked for."""
    taken: bool = False
    """Whether it is billed at all: it was not refused."""
    sent: int = 0
    """Tokens of output."""
    told: bool = False
    """Whether the whole usage was told."""
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """The connection, at the relay's end."""

    @property
    def billed(self) -> int:
        """What it costs, in nano-USD."""
        if not self.taken:
            return 0
        return self.input_tokens * INPUT_NANO + self.sent * OUTPUT_NANO


class Provider:
    """Takes calls on 127.0.0.1 and keeps the ledger of them, by the names of their plans."""

    def __init__(self, *, skew: float = 1.0) -> None:
        """Count `skew` times the input tokens that a relay estimates."""
        self.port = 0
        self.ledger: dict[str, list[Call]] = {}
        self.running = 0
        self.most_running = 0
        self._skew = skew

    @property
    def calls(self) -> list[Call]:
        return [call for calls in self.ledger.values() for call in calls]

    @property
    def billed(self) -> int:
        """All that it bills, in nano-USD."""
        return sum(call.billed for call in self.calls)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which is one call."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
            size = int(_header(head, b"content-length") or 0)
            body = await reader.readexactly(size)
            if method == "GET":
                writer.write(_reply(404, {}))
            else:
                await self._take(path, json.loads(body), reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async def _take(
        self,
        path: str,
        body: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        prompt = _last_text(body["messages"])
        estimate = _count(body["messages"])
        call = Call(
            read_plan(prompt),
            round(self._skew * estimate),
            estimate,
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        )
        calls = self.ledger.setdefault(call.plan.name, [])
        calls.append(call)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        watch = asyncio.create_task(_watch(reader, call.gone))
        wire = _Messages(body) if path.endswith("/messages") else _ChatCompletions(body)
        try:
            await self._answer(call, wire, writer, first=len(calls) == 1)
        finally:
            self.running -= 1
            watch.cancel()

    async def _answer(
        self, call: Call, wire: "_Wire", writer: asyncio.StreamWriter, *, first: bool
    ) -> None:
        plan, how = call.plan, call.plan.how
        if how == "busy":
            how = "429" if first else "whole"
        await _pause(call, plan.first_ms)
        if how in REFUSALS:
            status, kind = REFUSALS[how]
            writer.write(_reply(status, {"error": {"type": kind, "message": how, "code": kind}}))
            return
        call.taken = True
        if how == "mute":
            await call.gone.wait()
            return
        if how == "drop":
            _reset(writer)
            return
        writer.write(_HEAD + wire.begin(call.input_tokens, told=how != "silent"))
        if how == "again" and first:
            await writer.drain()
            _reset(writer)
            return
        for piece in self._pieces(call, wire):
            await _pause(call, plan.pace_ms)
            if call.gone.is_set():
                return
            writer.write(piece)
            call.sent += 1
            await writer.drain()
        match how:
            case "cut":
                await asyncio.sleep(0.5)  # a reset discards what a busy relay has not read yet
                _reset(writer)
            case "stall":
                await call.gone.wait()
            case "error":
                writer.write(wire.error())
            case _:
                whole = how not in ("silent", "early")
                call.told = whole and wire.tells
                writer.write(wire.end(call, told=whole, cut=call.sent < plan.tokens))
        await writer.drain()

    def _pieces(self, call: Call, wire: "_Wire") -> Iterator[bytes]:
        """Yield the tokens: four letters each, which is what a relay takes for one."""
        length = call.plan.tokens
        if call.max_tokens is not None:
            length = min(length, call.max_tokens)
        for number in range(length):
            yield wire.token(f" {number % 1000:03}")


class _ChatCompletions:
    """What Chat Completions look like."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.tells = bool((body.get("stream_options") or {}).get("include_usage"))

    def begin(self, _: int, *, told: bool) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def token(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def error(self) -> bytes:
        return _data({"error": {"type": "server_error", "message": "failed", "code": "failed"}})

    def end(self, call: Call, *, told: bool, cut: bool) -> bytes:
        end = self._chunk({}, "length" if cut else "stop")
        if told and self.tells:
            usage = {
                "prompt_tokens": call.input_tokens,
                "completion_tokens": call.sent,
                "total_tokens": call.input_tokens + call.sent,
            }
            end += _data({"id": "c", "choices": [], "usage": usage})
        return end + b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})


class _Messages:
    """What Anthropic's Messages look like."""

    tells = True

    def __init__(self, body: dict[str, Any]) -> None:
        self._model = body["model"]

    def begin(self, input_tokens: int, *, told: bool) -> bytes:
        # As Anthropic does: a first token of output is told before there is any.
        usage = {"usage": {"input_tokens": input_tokens, "output_tokens": 1}} if told else {}
        message = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            **usage,
        }
        return _event("message_start", message=message) + _event(
            "content_block_start", index=0, content_block={"type": "text", "text": ""}
        )

    def token(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return _event("content_block_delta", index=0, delta=delta)

    def error(self) -> bytes:
        return _event("error", error={"type": "api_error", "message": "failed"})

    def end(self, call: Call, *, told: bool, cut: bool) -> bytes:
        reason = {"stop_reason": "max_tokens" if cut else "end_turn", "stop_sequence": None}
        usage = {"usage": {"output_tokens": call.sent}} if told else {}
        return (
            _event("content_block_stop", index=0)
            + _event("message_delta", delta=reason, **usage)
            + _event("message_stop")
        )


_Wire = _ChatCompletions | _Messages

_HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n"


@contextlib.asynccontextmanager
async def serve_provider(*, skew: float = 1.0) -> AsyncIterator[Provider]:
    """Run a provider on a free port."""
    provider = Provider(skew=skew)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, backlog=2048)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        for call in provider.calls:
            call.gone.set()


def _count(messages: list[dict[str, Any]]) -> int:
    """Count the tokens of a prompt: four letters each, four a message and three."""
    return 3 + sum(4 + -(-len(_text(message)) // 4) for message in messages)


def _last_text(messages: list[dict[str, Any]]) -> str:
    return _text(messages[-1])


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def _pause(call: Call, ms: float) -> None:
    if ms:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(call.gone.wait(), ms / 1000)
    else:
        await asyncio.sleep(0)


async def _watch(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    with contextlib.suppress(ConnectionError):
        await reader.read()
    gone.set()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Send RST instead of FIN."""
    linger = struct.pack("ii", 1, 0)
    with contextlib.suppress(OSError):  # the relay has gone already
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.partition(b":")
        if found.lower() == name:
            return value.strip()
    return None


def _reply(status: int, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} Error\r\ncontent-type: application/json\r\n"
        f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **fields})

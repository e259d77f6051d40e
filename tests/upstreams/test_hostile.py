"""Upstreams that mean harm: bodies that hold up the loop, answers that nobody asked for."""

import asyncio
import contextlib
import gzip
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.framing.eventstream import Decoder as FrameDecoder
from app.framing.json_array import JsonArrayDecoder
from app.framing.lenient import LenientDecoder
from app.framing.ndjson import NdjsonDecoder
from app.testing.upstream import (
    DONE,
    FINISH,
    Step,
    chunk,
    chunked_head,
    head,
    send,
    serve_upstream,
    text,
)
from app.upstreams.connection import BURST
from tests.serving import HELLO, chat, serve_relay, text_of
from tests.tcp_server import serve_tcp

SIZE = 2**16
"""Sixteen times what is decoded in a turn."""
DECODERS = (LenientDecoder, NdjsonDecoder, JsonArrayDecoder, FrameDecoder)


def frame(payload: bytes) -> bytes:
    """A frame of Amazon's without headers."""
    prelude = struct.pack(">II", 16 + len(payload), 0)
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + payload
    return message + struct.pack(">I", zlib.crc32(message))


def fill(piece: bytes) -> bytes:
    return piece * (SIZE // len(piece))


BODIES = {
    "lines": ("openai_chat", fill(b"\n")),
    "events": ("openai_chat", fill(b"data:{}\n\n")),
    "tokens": ("openai_chat", fill(text("a").encode())),
    "messages": ("anthropic", fill(b"data:{}\n\n")),
    "ndjson": ("ollama", fill(b"{}\n")),
    "open brackets": ("ollama", fill(b"[\n")),
    "an array": ("gemini", b"[" + fill(b"{},")),
    "frames": ("bedrock_converse", fill(frame(b"{}"))),
}


class Turns:
    """Counts the turns of the loop, and what is decoded in each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turn = 0
        self.decoded: dict[int, int] = {}
        for decoder in DECODERS:
            self._watch(decoder, monkeypatch)

    def _watch(self, decoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        feed: Callable[[Any, bytes], Any] = decoder.feed

        def watched(decoder: Any, data: bytes) -> Any:
            if decoder.__dict__.setdefault("_outermost", True):
                self.decoded[self.turn] = self.decoded.get(self.turn, 0) + len(data)
            decoder._outermost = False
            try:
                return feed(decoder, data)
            finally:
                decoder._outermost = True

        monkeypatch.setattr(decoder, "feed", watched)

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_comes_at_once_gives_way_to_others(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect, body = BODIES[name]
    async with serve_upstream() as upstream, serve_relay(upstream, dialect=dialect) as relay:
        upstream.script = [head(), send(body)]
        turns = Turns(monkeypatch)
        counting = asyncio.create_task(turns.count())
        response = await relay.client.post("/v1/chat", json=HELLO)
        counting.cancel()

        assert response.status_code in (200, 502)
        assert SIZE / 2 < sum(turns.decoded.values())
        assert max(turns.decoded.values()) <= BURST


async def test_a_body_in_tiny_chunks_gives_way_too() -> None:
    async with serve_upstream() as upstream, serve_relay(upstream, status_wait_s=60) as relay:
        upstream.script = [chunked_head(), send(b"1\r\n\n\r\n" * (2**18 // 6))]
        posting = asyncio.create_task(relay.client.post("/v1/chat", json=HELLO))
        answers = 0
        while not posting.done():
            await relay.client.get("/healthz")
            answers += 1

        assert 502 == posting.result().status_code
        assert answers > 5


async def test_a_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b": nothing\n\n" * 2**22)
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [head(content_encoding="gzip"), send(bomb)]
        reply = await relay.client.post("/v1/chat", json=HELLO)

        assert (502, "upstream_invalid_response") == (reply.status_code, reply.json()["code"])
        assert "more than 200 times its size" in reply.json()["detail"]


class Kept:
    """An upstream that keeps its connections; `answers` are played in turn.

    When it is told to by `go_on`, it says what is `idle` after an answer.
    """

    def __init__(self) -> None:
        self.base_url = ""
        self.connections = 0
        self.answers: list[bytes] = []
        self.idle = b""
        self.go_on, self.said = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
            length = request.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length or b"0"))
            if request.startswith(b"GET"):
                writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
                continue
            writer.write(self.answers.pop(0))
            if self.idle:
                await self.go_on.wait()
                idle, self.idle = self.idle, b""
                writer.write(idle)
                self.said.set()


@contextlib.asynccontextmanager
async def serve_kept() -> AsyncIterator[Kept]:
    kept = Kept()
    async with serve_tcp(kept.serve) as port:
        kept.base_url = f"http://127.0.0.1:{port}/v1"
        yield kept


def join(*steps: Step) -> bytes:
    return b"".join(step.data for step in steps)  # type: ignore[union-attr]


def in_chunks(content: str) -> bytes:
    return join(chunked_head(), chunk(text(content) + FINISH + DONE), send("0\r\n\r\n"))


def by_length(content: str) -> bytes:
    body = text(content) + FINISH + DONE
    start = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
    return f"{start}\r\n\r\n{body}".encode()


ANSWERS = {"in chunks": in_chunks, "by its length": by_length}


@pytest.mark.parametrize("form", ANSWERS)
async def test_a_connection_that_is_silent_is_kept(form: str) -> None:
    async with serve_kept() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        upstream.answers = [ANSWERS[form]("one"), ANSWERS[form]("two")]

        assert ["one", "two"] == [text_of(await chat(relay)) for _ in range(2)]
        assert 1 == upstream.connections


@pytest.mark.parametrize("form", ANSWERS)
@pytest.mark.parametrize(
    ("when", "unasked"),
    [
        ("at once", "a whole answer"),
        ("at once", "the start of one"),
        ("later", "a whole answer"),
        ("later", "the start of one"),
        ("later", "anything"),
    ],
)
async def test_what_nobody_asked_for_is_given_to_nobody(when: str, unasked: str, form: str) -> None:
    stray = in_chunks("stray")
    said = {"a whole answer": stray, "the start of one": stray[:40], "anything": b"oops"}[unasked]
    async with serve_kept() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        first, second = ANSWERS[form]("one"), ANSWERS[form]("two")
        upstream.answers = [first + said if when == "at once" else first, second]
        upstream.idle = said if when == "later" else b""

        assert "one" == text_of(await chat(relay))
        if when == "later":
            upstream.go_on.set()
            await asyncio.wait_for(upstream.said.wait(), 20)
            await relay.client.get("/healthz")  # by then it has come, in the same event loop
        assert "two" == text_of(await chat(relay))
        assert 2 == upstream.connections


async def test_what_has_come_but_was_not_read_yet_is_seen_too() -> None:
    async with serve_kept() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        upstream.answers = [in_chunks("one"), in_chunks("two")]
        upstream.idle = in_chunks("stray")

        assert "one" == text_of(await chat(relay))
        upstream.go_on.set()
        await asyncio.wait_for(upstream.said.wait(), 20)
        assert "two" == text_of(await chat(relay))

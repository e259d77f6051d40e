"""Bodies: which pieces go to a sink, and which wait for the next step."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

import httpx2
import msgspec
import pytest

from app.testing.upstream import Hold, Step, Until, chunk, chunked_head, send, serve_upstream
from app.upstreams.connection import BURST, HttpBody
from app.upstreams.http import HttpHead, open_client
from app.upstreams.http_call import CallUrl, HttpCall, HttpReply
from tests.tcp_server import serve_tcp
from tests.waiting import until

END = send("0\r\n\r\n")
Sink = Callable[[bytes], bool]


async def read(
    *pieces: str, sink: Sink | None = None, cut: bool = False
) -> tuple[list[bytes], Exception | None]:
    """Read a body that comes piece by piece; return what the steps returned, and its failure.

    A piece is sent when the one before has been taken, and the body then ends or is cut.
    """
    loop = asyncio.get_running_loop()
    found: list[bytes] = []
    gates = [Until() for _ in range(len(pieces) + 1)]
    script: list[Step] = [chunked_head()]
    for gate, text in zip(gates, pieces, strict=False):
        script += [gate, chunk(text)]
    script += [gates[-1]] if cut else [gates[-1], END]

    def go_on() -> None:
        if gates:
            loop.call_soon(gates.pop(0).told.set)

    def offer(piece: bytes) -> bool:
        assert sink is not None
        go_on()
        return sink(piece)

    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = script
        body = (
            await client.open(
                HttpCall("POST", CallUrl.of(httpx2.URL(upstream.base_url)), {}, content=b"{}")
            )
        ).body
        assert isinstance(body, HttpBody)
        if sink is not None:
            body.push(offer)
        try:
            go_on()
            async for piece in body:
                found.append(piece)
                if piece:  # an empty one stands for one that the sink was offered
                    go_on()
        except Exception as failure:
            return found, failure
        finally:
            await body.aclose()
    return found, None


class ByteSink:
    def __init__(self, *refused: bytes) -> None:
        self.refused = refused
        self.offered: list[bytes] = []

    def __call__(self, piece: bytes) -> bool:
        self.offered.append(piece)
        return piece not in self.refused


async def test_pieces_are_pushed_as_they_come() -> None:
    sink = ByteSink()

    assert ([], None) == await read("a", "b", sink=sink)
    assert [b"a", b"b"] == sink.offered


async def test_every_piece_is_a_step_where_there_is_no_sink() -> None:
    cut, failure = await read("a", "b", "c", cut=True)

    assert ([b"a", b"b", b"c"], None) == await read("a", "b", "c")
    assert ([b"a", b"b", b"c"], "RemoteProtocolError") == (cut, type(failure).__name__)


async def test_a_refused_piece_is_a_step_of_its_own_and_the_next_is_pushed_again() -> None:
    sink = ByteSink(b"b")

    assert ([b""], None) == await read("a", "b", "c", sink=sink)
    assert [b"a", b"b", b"c"] == sink.offered


async def test_a_burst_waits_for_the_next_step() -> None:
    sink, burst = ByteSink(), "x" * (4 * BURST)

    found, failure = await read(burst, sink=sink)

    assert failure is None
    assert burst.encode() == b"".join(found) + b"".join(sink.offered)
    assert all(len(piece) <= BURST for piece in sink.offered)


@pytest.mark.parametrize("pushed", [True, False])
async def test_a_cut_body_fails_whoever_takes_it(pushed: bool) -> None:
    found, failure = await read("a", sink=ByteSink(*[b"a"][pushed:]), cut=True)

    assert ([b""][pushed:], "RemoteProtocolError") == (found, type(failure).__name__)


async def test_what_a_taker_raises_comes_out_of_the_step() -> None:
    def sink(_: bytes) -> bool:
        raise ValueError("no")

    found, failure = await read("a", sink=sink)

    assert ([], "no") == (found, str(failure))


async def test_a_body_that_is_left_lets_go_of_its_connection() -> None:
    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = [chunked_head(), chunk("a"), Hold()]
        body = (
            await client.open(
                HttpCall("POST", CallUrl.of(httpx2.URL(upstream.base_url)), {}, content=b"{}")
            )
        ).body
        assert b"a" == await anext(body)
        await body.aclose()

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_who_waits_no_longer_gets_what_has_come() -> None:
    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = [chunked_head(), chunk("x" * BURST), chunk("y" * BURST), Hold()]
        body = (
            await client.open(
                HttpCall("POST", CallUrl.of(httpx2.URL(upstream.base_url)), {}, content=b"{}")
            )
        ).body
        assert isinstance(body, HttpBody)
        assert b"x" == (await anext(body))[:1]

        left = bytearray()

        def has_come() -> bool:
            left.extend(body.left())
            return left.endswith(b"y" * BURST)

        await until(has_come)
        await body.aclose()


class Recorder:
    """A server that keeps connections, and records each head that it gets."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                await reader.readexactly(int(fields(head)[1].get(b"content-length", 0)))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


def fields(head: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the first line of a head, and its fields by lower-case name."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    return first, {name.lower(): value.strip() for name, _, value in pairs}


async def ask(call: HttpCall, *, times: int) -> Recorder:
    recorder = Recorder()
    async with (
        serve_tcp(recorder.serve) as port,
        open_client(connect_timeout_s=5, mounts={}) as client,
    ):
        url = CallUrl.of(call.url.parsed.copy_with(port=port))
        for _ in range(times):
            reply = await client.open(msgspec.structs.replace(call, url=url))
            assert isinstance(reply.body, HttpBody)
            assert b"{}" == b"".join([piece async for piece in reply.body])
            await reply.body.aclose()
    return recorder


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 300_000])
@pytest.mark.parametrize("path", ["/v1/chat", "/v1/a%3Ab/c?key=%20x&b=1", ""])
@pytest.mark.parametrize("more", [{}, {"host": "other.example"}])
async def test_pooled_connection_is_sent_the_same_request(
    content: bytes, path: str, more: dict[str, str]
) -> None:
    method = "POST" if content else "GET"
    headers = {"accept": "a/b", "accept-encoding": "identity", "user-agent": "us", "x": "é", **more}
    if content:
        headers["content-type"] = "application/json"
    url = CallUrl.of(httpx2.URL(f"http://127.0.0.1:1{path}"))
    recorder = await ask(HttpCall(method, url, headers, content=content), times=3)

    first, second, third = map(fields, recorder.heads)
    assert 1 == recorder.connections
    assert first == second == third


async def test_pooled_connection_takes_no_line_end_in_a_header() -> None:
    url = CallUrl.of(httpx2.URL("http://127.0.0.1:1/"))
    call = HttpCall("GET", url, {"x": "a\r\nhost: b"})

    with pytest.raises(ValueError, match="line end"):
        call.render_head("/", {})


async def test_connection_with_an_unsent_request_is_not_used_again() -> None:
    """A provider may refuse a request before it has read the body, and keep the connection."""
    big = b"x" * 8_000_000
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(fields(head)[1][b"content-length"])
                status = b"429 Too Many Requests" if size == len(big) else b"200 OK"
                if status[:1] == b"2":
                    await reader.readexactly(size)
                writer.write(b"HTTP/1.1 %b\r\ncontent-length: 2\r\n\r\n{}" % status)

    async with (
        serve_tcp(serve) as port,
        open_client(connect_timeout_s=5, mounts={}) as client,
    ):
        url = CallUrl.of(httpx2.URL(f"http://127.0.0.1:{port}/"))
        for content, status in ((b"{}", 200), (big, 429), (b"{}", 200)):
            reply = await asyncio.wait_for(
                client.open(HttpCall("POST", url, {}, content=content)), 5
            )
            assert status == reply.status
            assert b"{}" == b"".join([piece async for piece in reply.body])
            await reply.body.aclose()

    assert 2 == connections


def test_the_head_keeps_what_is_read_later_only():
    reply = HttpReply(
        200,
        httpx2.Headers(
            [
                ("Date", "now"),
                ("Set-Cookie", "a=b"),
                ("CF-Ray", "1"),
                ("X-Request-ID", "req_1"),
                ("X-RateLimit-Reset-Tokens", "1s"),
                ("llm_provider-retry-after", "2"),
                ("OpenAI-Version", "2020-10-01"),
            ]
        ),
        no_body(),
    )

    head = HttpHead.of(reply)

    assert "req_1" == head.request_id
    kept = ["date", "llm_provider-retry-after", "openai-version", "x-ratelimit-reset-tokens"]
    assert kept == sorted(head.headers)


async def no_body() -> AsyncGenerator[bytes]:
    nothing: list[bytes] = []
    for piece in nothing:
        yield piece

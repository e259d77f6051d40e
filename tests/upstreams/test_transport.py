"""Bodies: which pieces go to a sink, and which wait for the next step."""

import asyncio

import httpx2
import pytest

from app.testing.upstream import Hold, chunk, chunked_head, send, serve_upstream, wait
from app.upstreams.client import open_client
from app.upstreams.transport import BURST, Body, Call

PAUSE = wait(0.1)
END = send("0\r\n\r\n")


async def read(
    steps: list[object], sink: "ByteSink | None" = None
) -> tuple[list[bytes], Exception | None]:
    """Read a scripted body; give what the steps gave, and what it failed with."""
    found: list[bytes] = []
    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = steps  # type: ignore[assignment]
        body = (await client.open(Call("POST", httpx2.URL(upstream.base_url), {}, b"{}"))).body
        assert isinstance(body, Body)
        if sink is not None:
            body.push(sink)
        try:
            async for piece in body:
                found.append(piece)
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

    found, failure = await read(
        [chunked_head(), PAUSE, chunk("a"), PAUSE, chunk("b"), PAUSE, END], sink
    )

    assert ([], None, [b"a", b"b"]) == (found, failure, sink.offered)


async def test_every_piece_is_a_step_where_there_is_no_sink() -> None:
    pieces = [step for c in "abc" for step in (chunk(c), PAUSE)]

    whole = await read([chunked_head(), PAUSE, *pieces, END])
    cut = await read([chunked_head(), PAUSE, *pieces])

    assert ([b"a", b"b", b"c"], None) == whole
    assert ([b"a", b"b", b"c"], "ClientPayloadError") == (cut[0], type(cut[1]).__name__)


async def test_a_refused_piece_is_a_step_of_its_own_and_the_next_is_pushed_again() -> None:
    sink = ByteSink(b"b")

    found, failure = await read(
        [chunked_head(), PAUSE, *(step for c in "abc" for step in (chunk(c), PAUSE)), END], sink
    )

    assert ([b""], None, [b"a", b"b", b"c"]) == (found, failure, sink.offered)


async def test_a_burst_waits_for_the_next_step() -> None:
    sink, burst = ByteSink(), "x" * (4 * BURST)

    found, failure = await read([chunked_head(), PAUSE, chunk(burst), PAUSE, END], sink)

    assert failure is None
    assert burst.encode() == b"".join(found) + b"".join(sink.offered)
    assert all(len(piece) <= BURST for piece in sink.offered)


@pytest.mark.parametrize("pushed", [True, False])
async def test_a_cut_body_fails_whoever_takes_it(pushed: bool) -> None:
    found, failure = await read(
        [chunked_head(), PAUSE, chunk("a"), PAUSE], ByteSink(*[b"a"][pushed:])
    )

    assert ([b""][pushed:], "ClientPayloadError") == (found, type(failure).__name__)


async def test_what_a_taker_raises_comes_out_of_the_step() -> None:
    def sink(_: bytes) -> bool:
        raise ValueError("no")

    found, failure = await read([chunked_head(), PAUSE, chunk("a"), PAUSE, END], sink)  # type: ignore[arg-type]

    assert ([], "no") == (found, str(failure))


async def test_a_body_that_is_left_lets_go_of_its_connection() -> None:
    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = [chunked_head(), chunk("a"), Hold()]
        body = (await client.open(Call("POST", httpx2.URL(upstream.base_url), {}, b"{}"))).body
        assert b"a" == await anext(body)
        await body.aclose()

        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


async def test_who_waits_no_longer_gets_what_has_come() -> None:
    async with serve_upstream() as upstream, open_client(connect_timeout_s=5, mounts={}) as client:
        upstream.script = [chunked_head(), chunk("x" * BURST), chunk("y" * BURST), Hold()]
        body = (await client.open(Call("POST", httpx2.URL(upstream.base_url), {}, b"{}"))).body
        assert isinstance(body, Body)
        assert b"x" == (await anext(body))[:1]

        left = b""
        async with asyncio.timeout(20):
            while not left.endswith(b"y" * BURST):
                left += body.left()
                await asyncio.sleep(0)
        await body.aclose()

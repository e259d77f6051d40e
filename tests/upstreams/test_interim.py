"""Interim responses: a few are passed over, a flood of them ends the call."""

import asyncio

import pytest

from app.testing.upstream import DONE, FINISH, Endless, head, send, serve_upstream, text
from app.upstreams.response_parser import INTERIM_HEADS, NotHttp, ResponseParser
from tests.serving import HELLO, chat, serve_relay, text_of

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </style.css>; rel=preload\r\n\r\n"


@pytest.mark.parametrize("interim", [CONTINUE, HINTS, CONTINUE * 8 + HINTS * 8])
async def test_interim_responses_are_passed_over(interim: bytes):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [send(interim), head(), send(text("Hello") + FINISH + DONE)]

        assert "Hello" == text_of(await chat(relay))


@pytest.mark.parametrize("pause", [False, True], ids=["at once", "one by one"])
async def test_a_flood_of_interim_responses_ends_the_call(pause: bool):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        flood = Endless(CONTINUE, 10**6) if pause else Endless(CONTINUE * 10_000, 100)
        upstream.script = [flood]
        reply = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})

        problem = reply.json()
        assert (502, "upstream_invalid_response") == (reply.status_code, problem["code"])
        await asyncio.wait_for(upstream.calls[0].closed.wait(), 20)


def test_a_read_full_of_interim_responses_is_not_parsed_to_its_end():
    """Parsing them all would hold the event loop for a second."""
    parser = ResponseParser()
    parser.feed(CONTINUE * 100_000)

    assert isinstance(parser.failure, NotHttp)
    assert INTERIM_HEADS < parser.interim < 4 * INTERIM_HEADS


async def test_a_long_head_is_the_same_in_pieces():
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        filler = {f"x_filler_{n}": "v" * 500 for n in range(12)}
        upstream.script = [send(CONTINUE), head(**filler), send(text("Hello") + FINISH + DONE)]

        assert "Hello" == text_of(await chat(relay))


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_is_explained(status: str, caplog: pytest.LogCaptureFixture):
    async with serve_upstream() as upstream, serve_relay(upstream) as relay:
        upstream.script = [send(f"HTTP/1.1 {status}\r\n\r\n")]
        reply = await relay.client.post("/v1/chat", json={**HELLO, "stream": False})

        assert (502, "upstream_invalid_response") == (reply.status_code, reply.json()["code"])
        assert [] == [r.message for r in caplog.records if r.name == "asyncio"]

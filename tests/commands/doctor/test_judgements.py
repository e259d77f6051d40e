"""What is concluded from what came and when, with times that are data: no clock, no network."""

import ssl
from collections.abc import Sequence
from unittest.mock import patch

import httpx2
import msgspec
import pytest

from app.commands.doctor.command import render_text
from app.commands.doctor.path import Hop
from app.commands.doctor.reachability import count_failures, judge_redirect
from app.commands.doctor.reading import judge_silence
from app.commands.doctor.session import Session
from app.commands.doctor.streaming import Stream, judge_frames, judge_timing
from app.commands.doctor.wire import Client, Ending, Reply, parse_url, read_frames

pytestmark = pytest.mark.pure

STREAM = "st_1"
BEAT = b": hb\n\n"


def make_session() -> Session:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = Client(parse_url("http://relay.example"), trust=trust, timeout_s=1)
    return Session(client, idle_s=30)  # the relay's heartbeat is 10 s, as nothing says otherwise


def event(number: int, type: str = "text.delta") -> bytes:
    data = msgspec.json.encode({"type": type, "text": "x"}).decode()
    return f"event: {type}\ndata: {data}\nid: {STREAM}.{number}\n\n".encode()


def reply_of(
    pieces: Sequence[tuple[float, bytes]], *, ended: float, ending: Ending = "silent"
) -> Reply:
    reply = Reply("POST /v1/chat", 0.0, headed=0.1, ended=ended, ending=ending)
    reply.status, reply.version = 200, "1.1"
    reply.headers = httpx2.Headers({"stream-id": STREAM, "content-type": "text/event-stream"})
    reply.pieces = list(pieces)
    return reply


def codes(session: Session) -> dict[str, bool]:
    """Return what was found, and whether it is wrong."""
    return {finding.code: finding.wrong for finding in session.findings}


TEN = [(0.3 + 0.025 * n, event(n + 1)) for n in range(10)]
BEATS = [(10.5, BEAT), (20.5, BEAT)]

SILENT = {
    "with heartbeats": ([*TEN, *BEATS], 30.0, False, {}),
    "not for long enough to say": (TEN, 15.0, False, {}),
    "without heartbeats": (TEN, 30.0, False, {"idle_cut": True}),
    "heartbeats, and then none": ([*TEN, (10.5, BEAT)], 30.0, False, {"idle_cut": True}),
    "cut before a heartbeat": (TEN, 5.5, True, {"idle_cut": True}),
    "cut without heartbeats": (TEN, 20.0, True, {"idle_cut": True}),
    "cut though heartbeats come": ([*TEN, *BEATS], 22.0, True, {"total_cut": True}),
    "ended": ([*TEN, (5.0, event(11, "stream.end"))], 5.0, True, {}),
}


@pytest.mark.parametrize("name", SILENT)
def test_silence_is_judged_by_when_it_ended_and_what_came(name):
    pieces, ended, cut, expected = SILENT[name]
    session = make_session()

    judge_silence(session, reply_of(pieces, ended=ended, ending="cut" if cut else "silent"))

    assert expected == codes(session)


def test_answer_with_a_length_was_collected():
    session = make_session()
    session.hops = [Hop("varnish", "varnish", "via")]
    reply = reply_of([(2.0, b"".join(data for _, data in TEN))], ended=2, ending="whole")
    reply.headers["content-length"] = "700"

    judge_timing(session, Stream(reply, read_frames(reply.pieces), {}))

    assert {"buffered": True} == codes(session)
    assert "likely varnish: set beresp.do_stream" in render_text(session)
    assert "see docs/proxies.md and docs/streaming-errors.md#it-all" in render_text(session)


@pytest.mark.parametrize(
    ("body", "text", "says"),
    [
        (event(1) + event(2, "stream.end"), "x", ""),
        (event(1) + event(2, "stream.end"), "y", "the text is not the relay's"),
        (event(1).replace(b"id: ", b"ID: ") + event(2, "stream.end"), "x", "id: is gone"),
        (b"<html>", "", "is not an event stream"),
    ],
)
def test_what_was_changed_is_told(body, text, says):
    session = make_session()
    reply = reply_of([(0.0, b"retry: 1000\n" * (b"id" in body) + body)], ended=1, ending="whole")

    judge_frames(session, Stream(reply, read_frames(reply.pieces), {"text": text}))

    assert bool(says) == session.found("fields")
    assert says in "".join(finding.message for finding in session.findings)


REFUSED = b'{"error":{"message":"slower","code":"rate_limited"}}'
FAILURES = {
    "none": ([], {}),
    "429 of a proxy": ([(429, b"slow")], {"rate_limit": True}),
    "429 of the relay, in OpenAI's words": ([(429, REFUSED)], {}),
    "502 of a proxy": ([(502, b"<html>")], {"flaky": True}),
    "no answer": ([(0, b"")], {"flaky": True}),
}


@pytest.mark.parametrize("name", FAILURES)
def test_requests_that_fail_are_counted_by_whose_failure_it_is(name):
    failures, expected = FAILURES[name]
    session = make_session()
    replies = [reply_of([], ended=1, ending="whole") for _ in range(9)]
    for status, body in failures:
        failed = Reply("GET /v1/models", 0.0, status=status, ended=0.1, pieces=[(0.0, body)])
        replies.append(failed)
    session.client.replies = replies

    count_failures(session)

    assert expected == codes(session)


@pytest.mark.parametrize(("status", "says"), [(301, "body is lost"), (308, "leads to"), (404, "")])
def test_post_that_is_led_elsewhere_is_told(status, says):
    session = make_session()
    reply = Reply(
        "POST /v1/chat", 0.0, status=status, headers=httpx2.Headers({"location": "/v1/chat/"})
    )

    assert bool(says) == judge_redirect(session, reply)
    assert says in "".join(finding.message for finding in session.findings)
    assert ("lost" in says) == any("lost" in finding.message for finding in session.findings)


async def test_what_is_refused_with_503_is_asked_again_when_a_second_is_over():
    """As nginx does with `limit_req` of one a second, without `limit_req_status 429`."""
    now = 0.0
    taken: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def answer(request: httpx2.Request, **_: object) -> Reply:
        passes = not taken or now - taken[-1] >= 1
        if passes:
            taken.append(now)
        reply = Reply(request.method, now, ended=now, ending="whole", status=200 if passes else 503)
        reply.headers = httpx2.Headers({"server": "nginx/1.22.1"})
        return reply

    client = make_session().client
    with (
        patch("app.commands.doctor.wire.asyncio.sleep", sleep),
        patch.object(client, "_send", answer),
    ):
        replies = [await client.ask("GET", "/v1/models") for _ in range(9)]

    assert [200] * 9 == [reply.status for reply in replies]
    assert 9 == len(taken)

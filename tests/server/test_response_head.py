"""The head of a response that streams is what uvicorn would send, or uvicorn sends it."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from app.server.direct_writer import DirectWriter, Event, UnchunkedWriter

pytestmark = pytest.mark.pure

HEADERS = [(b"content-type", b"text/event-stream"), (b"stream-id", b"st_1"), (b"x-empty", b"")]

LOGGER = logging.getLogger("test")


def as_send(send: Any) -> Send:
    """Return uvicorn's `send` by Starlette's type."""
    typed: Send = send
    return typed


def transport(sent: list[bytes]) -> Any:
    """Return a transport that collects what is written."""
    return SimpleNamespace(write=sent.append)


def cycle_over(sent: list[bytes], *, method: str = "POST", **state: Any) -> RequestResponseCycle:
    scope: Any = {"method": method, "http_version": "1.1"}
    flow: Any = SimpleNamespace(write_paused=state.pop("write_paused", False))
    event: Any = Event()
    cycle = RequestResponseCycle(
        scope,
        transport(sent),
        flow,
        LOGGER,
        LOGGER,
        access_log=False,
        default_headers=[(b"date", b"now")],
        message_event=event,
        expect_100_continue=True,
        keep_alive=state.pop("keep_alive", True),
        on_response=lambda: None,
    )
    for name, value in state.items():
        setattr(cycle, name, value)
    return cycle


@pytest.mark.parametrize("status", [200, 404, 502])
@pytest.mark.parametrize("keep_alive", [True, False])
async def test_the_head_is_uvicorns(status: int, keep_alive: bool) -> None:
    own: list[bytes] = []
    uvicorns: list[bytes] = []
    cycle = cycle_over(own, keep_alive=keep_alive)
    other = cycle_over(uvicorns, keep_alive=keep_alive)

    assert DirectWriter(transport(own), cycle).begin(status, HEADERS, as_send(cycle.send))
    await other.send({"type": "http.response.start", "status": status, "headers": HEADERS})

    assert own == uvicorns != []
    names = ("response_started", "chunked_encoding", "waiting_for_100_continue", "keep_alive")
    assert [getattr(cycle, name) for name in names] == [getattr(other, name) for name in names]


@pytest.mark.parametrize(
    ("status", "header", "state"),
    [
        (200, (b"content-length", b"3"), {}),
        (200, (b"transfer-encoding", b"chunked"), {}),
        (200, (b"connection", b"close"), {}),
        (200, (b"X-Upper", b"a"), {}),
        (200, (b"x name", b"a"), {}),
        (200, (b"", b"a"), {}),
        (200, (b"x", b"a\r\nset-cookie: b=c"), {}),
        (200, (b"x", b"a\nb"), {}),
        (200, (b"x", b"a\rb"), {}),
        (200, (b"x", b"a\0b"), {}),
        (200, (b"x: a\r\ny", b"b"), {}),
        (204, (b"x", b"a"), {}),
        (304, (b"x", b"a"), {}),
        (200, (b"x", b"a"), {"method": "HEAD"}),
        (200, (b"x", b"a"), {"disconnected": True}),
        (200, (b"x", b"a"), {"response_started": True}),
        (200, (b"x", b"a"), {"write_paused": True}),
    ],
)
def test_uvicorn_sends_any_other(status: int, header: Any, state: dict[str, Any]) -> None:
    sent: list[bytes] = []
    cycle = cycle_over(sent, **state)

    assert not DirectWriter(transport(sent), cycle).begin(
        status, [*HEADERS, header], as_send(cycle.send)
    )
    assert [] == sent
    assert cycle.chunked_encoding is None


def test_uvicorn_sends_all_of_http_1_0() -> None:
    sent: list[bytes] = []
    cycle = cycle_over(sent)

    assert not UnchunkedWriter(transport(sent), cycle).begin(200, HEADERS, as_send(cycle.send))
    assert [] == sent


def test_an_app_around_this_one_sends_the_head() -> None:
    sent: list[bytes] = []
    cycle = cycle_over(sent)

    async def send(message: Message) -> None:
        await as_send(cycle.send)(message)

    assert not DirectWriter(transport(sent), cycle).begin(200, HEADERS, send)
    assert [] == sent


@pytest.mark.parametrize("by_app", [True, False])
async def test_a_head_that_joins_leaves_with_the_first_bytes(by_app: bool) -> None:
    apart: list[bytes] = []
    joined: list[bytes] = []
    for sent, joins in ((apart, False), (joined, True)):
        cycle = cycle_over(sent)
        writer = DirectWriter(transport(sent), cycle)
        writer.joins_head = joins
        writer.begin(200, HEADERS, as_send(cycle.send))
        if by_app:
            writer.write(b"data: a\n\n")
            writer.write(b"data: b\n\n")
        await as_send(cycle.send)({"type": "http.response.body", "body": b"data: c\n\n"})

    assert b"".join(apart) == b"".join(joined)
    assert len(apart) - 1 == len(joined)

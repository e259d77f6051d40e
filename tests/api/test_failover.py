"""A route of two targets whose first one fails: a table of faults and what clients are told.

Until the first piece of the answer the next target gives it, within a bound; from then on a
failure is seen, and nobody answers a second time. How often each target is asked is part of
the table: a call may be billed. The settings are the defaults, with shorter times.
"""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from app.testing.upstream import (
    DONE,
    FINISH,
    LAST_CHUNK,
    Hold,
    Reset,
    Step,
    Until,
    Upstream,
    chunk,
    chunked_head,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.clock import Clock
from tests.serving import (
    HELLO,
    Relay,
    chat,
    events_of,
    read_messages,
    serve_relay,
    text_of,
    text_so_far,
)
from tests.upstreams.test_tls import refusing

TIMES = {
    "attempts": 2,
    "connect_timeout_s": 5,
    "fallback_after_s": 8,
    "first_event_timeout_s": 30,
    "event_gap_timeout_s": 1,
    "idle_timeout_s": 0.5,
    "total_timeout_s": 60,
}
"""The defaults, where a test waits for one a hundred times shorter."""

SILENCE_S = 0.5
"""What stands for `fallback_after_s` or `connect_timeout_s` where a test waits for it."""

BOUND_S = 20
"""Until the fallback has answered; `first_event_timeout_s` would be more."""

ROUTE = """
[upstream.a]
base_url = "{a}"
[upstream.b]
base_url = "{b}"
[[route]]
name = "fast"
targets = ["a/m-a", "b/m-b"]
"""
ANSWER = [head(), send(text("from ") + text("b") + FINISH + DONE)]
HALF = [head(), send(text("half of ") + text("an"))]
ERROR = '{"error":{"message":"no","type":"server_error","code":"server_error"}}'
PINGS: list[Step] = [step for _ in range(60) for step in (send(": ping\n\n"), wait(0.05))]


@dataclass
class Fault:
    """What the first target does, and how often it is asked until the next one is."""

    name: str
    script: Sequence[Step]
    calls: int = 1

    @property
    def is_silence(self) -> bool:
        return self.calls == 1 and isinstance(self.script[-1], Hold)

    @property
    def times(self) -> dict[str, float]:
        """The time after which a silent target is left; nobody waits for the others here."""
        others = {"idle_timeout_s": 20.0, "event_gap_timeout_s": 20.0}
        return {**others, "fallback_after_s": SILENCE_S} if self.is_silence else others

    @property
    def asked(self) -> set[int]:
        """How often it may be asked: a machine that stands still leaves it before it is."""
        return {0, 1} if self.is_silence else {self.calls}


def drip(data: str, *, pause_s: float = 0.05) -> list[Step]:
    return [step for byte in data for step in (send(byte), wait(pause_s))]


BEFORE = [
    Fault("401", reply("401 Unauthorized", ERROR)),
    Fault("403", reply("403 Forbidden", ERROR)),
    Fault("403", reply("403 Forbidden", ERROR)),
    Fault("404", reply("404 Not Found", ERROR)),
    Fault("429", reply("429 Too Many", ERROR), 2),
    Fault("429 with a short retry-after", reply("429 Too Many", ERROR, retry_after_ms="50"), 2),
    Fault("429 with a long retry-after", reply("429 Too Many", ERROR, retry_after="30")),
    Fault("500", reply("500 Oops", ERROR), 2),
    Fault("500 with a body that hangs", [head("500 Oops", content_length="99"), Hold()], 2),
    Fault("502 with HTML", reply("502 Bad Gateway", "<html>no</html>", "text/html"), 2),
    Fault("503", reply("503 Busy", ERROR), 2),
    Fault("504", reply("504 Late", ERROR)),
    Fault("no head", [Hold()]),
    Fault("a head that drips", [*drip("HTTP/1.1 200 OK\r\n" * 2), Hold()]),
    Fault("no event after the head", [head(), Hold()]),
    Fault("no event after the head, chunked", [chunked_head(), Hold()]),
    Fault("comments only", [head(), *PINGS, Hold()]),
    Fault("a role only", [head(), send(text("")), Hold()]),
    Fault("an event that drips", [head(), *drip(text("x" * 99)), Hold()]),
    Fault("an error event first", [head(), send(f"data: {ERROR}\n\n")], 2),
    Fault("an error event after the role", [head(), send(text("") + f"data: {ERROR}\n\n")], 2),
    Fault("an end at once", [head()], 2),
    Fault("an end at once, chunked", [chunked_head(), LAST_CHUNK], 2),
    Fault("[DONE] at once", [head(), send(DONE)], 2),
    Fault("a reset after the head", [head(), wait(0.05), Reset()], 2),
    Fault("a reset before the head", [Reset()], 2),
    Fault("an end before the head", [], 2),
    Fault("garbage", [head(), send("these are no events\nat all\n\n")]),
    Fault("garbage in bytes", [head(), send(bytes(range(256)) * 20)]),
    Fault("garbage as text", reply("200 OK", "Service is warming up", "text/plain")),
    Fault("a page", reply("200 OK", "<html>login</html>", "text/html")),
    Fault("malformed JSON first", [head(), send("data: {oops\n\n")]),
    Fault("a cut in the first event", [head(), send(text("half")[:-20])], 2),
    Fault("no HTTP", [send("SSH-2.0-OpenSSH\r\n\r\n")]),
]


@dataclass
class Broken:
    """What the first target does once the answer has begun, and what is told."""

    name: str
    script: Sequence[Step]
    code: str


AFTER = [
    Broken("a cut", HALF, "upstream_truncated"),
    Broken("a reset", [*HALF, wait(0.05), Reset()], "upstream_truncated"),
    Broken("a stall", [*HALF, Hold()], "upstream_timeout"),
    Broken("comments only", [*HALF, *PINGS, Hold()], "upstream_timeout"),
    Broken("an event that drips", [*HALF, *drip(text("x" * 99)), Hold()], "upstream_timeout"),
    Broken("malformed JSON", [*HALF, send("data: {oops\n\n"), Hold()], "upstream_invalid_response"),
    Broken("an error event", [*HALF, send(f"data: {ERROR}\n\n")], "upstream_unavailable"),
    Broken("a chunk that is none", [chunked_head(), chunk(text("half of ") + text("an")), wait(0.05), send("zz\r\n"), Hold()], "upstream_truncated")
]  # fmt: skip


@dataclass
class Served:
    relay: Relay
    b: Upstream


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Serve a relay whose first target is at an address, and whose second answers.

    With `hurries` time passes by itself, so that nobody waits for what is silent.
    """

    @contextlib.asynccontextmanager
    async def serve(
        address: str, *, route: str = ROUTE, hurries: bool = True, **settings: Any
    ) -> AsyncIterator[Served]:
        async with contextlib.AsyncExitStack() as stack:
            b = await stack.enter_async_context(serve_upstream())
            b.script = ANSWER
            config = tmp_path / "route.toml"
            config.write_text(route.format(a=address, b=b.base_url))
            serving = serve_relay(config=config, **{**TIMES, **settings})
            relay = await stack.enter_async_context(serving)
            if hurries:
                await stack.enter_async_context(Clock(monkeypatch).hurrying())
            yield Served(relay, b)

    return serve


async def check_fallback(served: Served, *, calls: int) -> None:
    """Ask once, and see the second target answer after so many calls to the first."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    events = await chat(served.relay, model="fast")
    took_s = loop.time() - started

    assert ("completed", "from b") == (events[-1]["status"], text_of(events)), events
    (target,) = [event for event in events if event["type"] == "stream.target"]
    assert ("b", calls + 1) == (target["upstream"], target["attempt"])
    notices = [event["code"] for event in events if event["type"] == "notice"]
    assert ["retry"] * (calls - 1) + ["fallback"] == notices
    assert 1 == len(served.b.calls)
    assert took_s < BOUND_S


@pytest.mark.parametrize("fault", BEFORE, ids=lambda fault: fault.name)
async def test_before_the_first_piece_the_next_target_answers(fault: Fault, served: Any) -> None:
    async with serve_upstream() as a, served(a.base_url, **fault.times) as running:
        a.script = fault.script
        await check_fallback(running, calls=fault.calls)

        assert len(a.calls) in fault.asked


@pytest.mark.parametrize("fault", BEFORE, ids=lambda fault: fault.name)
async def test_clients_of_openai_see_one_clean_answer(fault: Fault, served: Any) -> None:
    async with (
        serve_upstream() as a,
        served(a.base_url, status_wait_s=0.1, **fault.times) as running,
    ):
        a.script = fault.script
        content, last = await complete(running.relay)

        assert ("from b", "[DONE]") == (content, last)
        assert len(a.calls) in fault.asked
        assert 1 == len(running.b.calls)


@pytest.mark.parametrize("broken", AFTER, ids=lambda broken: broken.name)
async def test_after_the_first_piece_the_failure_is_seen(broken: Broken, served: Any) -> None:
    waits = broken.code == "upstream_timeout"
    times = {} if waits else {"idle_timeout_s": 20, "event_gap_timeout_s": 20}
    async with serve_upstream() as a, served(a.base_url, **times) as running:
        a.script = broken.script
        events = await chat(running.relay, model="fast")

        assert "half of an" == text_of(events)
        end = events[-1]
        assert ("failed", broken.code) == (end["status"], end["error"]["code"]), end
        assert (1, 0) == (len(a.calls), len(running.b.calls))

        content, last = await complete(running.relay)
        assert "half of an" == content
        assert broken.code == json.loads(last)["error"]["code"]
        assert (2, 0) == (len(a.calls), len(running.b.calls))


async def complete(relay: Relay) -> tuple[str, str]:
    """Ask as OpenAI's clients do; give the content, and the last message."""
    body = {**HELLO, "model": "fast", "stream": True}
    async with relay.client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert 200 == response.status_code, await response.aread()
        messages = [message.data for message in await read_messages(response)]
    chunks = [json.loads(data) for data in messages if data != "[DONE]"]
    choices = [choice for chunk in chunks for choice in chunk.get("choices", ())]
    return "".join(c["delta"].get("content") or "" for c in choices), messages[-1]


async def test_an_answer_that_comes_slowly_is_one(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    pauses = [Until() for _ in range(8)]
    slow = [step for n, pause in enumerate(pauses) for step in (send(text(f"{n}")), pause)]
    times = {"fallback_after_s": 30, "idle_timeout_s": 20, "event_gap_timeout_s": 20}
    async with serve_upstream() as a, served(a.base_url, hurries=False, **times) as running:
        a.script = [head(), *slow, send(FINISH + DONE)]
        body = {**HELLO, "model": "fast"}
        async with running.relay.client.stream("POST", "/v1/chat", json=body) as response:
            stream = response.headers["stream-id"]
            for n, pause in enumerate(pauses):
                await text_so_far(running.relay, stream, "01234567"[: n + 1])
                await clock.pass_(5)
                pause.told.set()
            events = events_of(await read_messages(response))

        assert ("completed", "01234567") == (events[-1]["status"], text_of(events))
        assert (1, 0) == (len(a.calls), len(running.b.calls))


async def test_a_connection_that_is_refused(served: Any) -> None:
    with socket.socket() as bound:  # which nobody listens at
        bound.bind(("127.0.0.1", 0))
        async with served(f"http://127.0.0.1:{bound.getsockname()[1]}/v1") as running:
            await check_fallback(running, calls=2)


async def test_a_name_that_cannot_be_resolved(served: Any) -> None:
    async with served("http://no-such-host.invalid/v1", hurries=False) as running:
        await check_fallback(running, calls=2)


async def test_a_certificate_that_is_not_trusted(served: Any) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with serve_upstream(tls=context) as a, served(as_https(a.base_url)) as running:
        await check_fallback(running, calls=2)
        assert not a.calls


async def test_tls_to_a_port_that_speaks_none(served: Any) -> None:
    async with (
        refusing(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port,
        served(f"https://127.0.0.1:{port}/v1") as running,
    ):
        await check_fallback(running, calls=2)


async def test_tls_to_a_port_that_says_nothing(served: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1"
        async with served(url, connect_timeout_s=SILENCE_S) as running:
            await check_fallback(running, calls=1)


async def test_a_connection_that_is_never_accepted(served: Any) -> None:
    """Linux drops what comes to a full queue, as a firewall would."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
        async with served(url, connect_timeout_s=SILENCE_S) as running:
            await check_fallback(running, calls=1)


def as_https(url: str) -> str:
    return url.replace("http:", "https:")

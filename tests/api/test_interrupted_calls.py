"""Requests without a stream that end at each of their awaits: nothing stays reserved or runs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
from starlette.types import ASGIApp

from app.generation.document_call import DocumentCall
from app.ledger.config import PriceConfig, UsageLimits
from app.testing.upstream import LAST_CHUNK, Step, Upstream, answer, chunk, chunked_head, reply
from app.testing.upstream import serve_upstream as serve_provider
from tests.api.asking import altering
from tests.api.test_call_money import ASK, COUNT, TOLD, serve, settled
from tests.interrupting import Request, counting
from tests.serving import Relay
from tests.waiting import until

PRICES = (PriceConfig(target="openai/*", input=2, output=3, request=0.001, version="list"),)
FEE = 1_000_000
LIMITS = UsageLimits(streams=9, usd_per_day=1000)
MOST = 200
"""Awaits of a request: more would be a request without end."""

SPEECH: list[Step] = [
    chunked_head(content_type="audio/wav"),
    chunk(b"\0" * 3000),
    chunk(b"\0" * 3000),
    LAST_CHUNK,
]
CALLS: dict[str, tuple[str, dict[str, Any], list[Step]]] = {
    "speech": ("/v1/audio/speech", {"model": "openai/m-1", "input": "hello"}, SPEECH),
    "images": (
        "/v1/images/generations",
        {"model": "openai/m-1", "prompt": "a cat"},
        reply("200 OK", '{"data": []}'),
    ),
    "embeddings": ("/v1/embeddings", ASK, reply("200 OK", TOLD.replace(": 9", ": 5"))),
    "count": ("/v1/messages/count_tokens", COUNT, reply("200 OK", '{"input_tokens": 3}')),
    "chat": ("/v1/chat/completions", {**COUNT, "stream": False}, answer("Hello", " you")),
    "message": ("/v1/messages", {**COUNT, "max_tokens": 50}, answer("Hello", " you")),
    "native": ("/v1/chat", {**COUNT, "stream": False}, answer("Hello", " you")),
    "response": ("/v1/responses", {"model": "openai/x", "input": "Hi"}, answer("Hello")),
}

HIDDEN = {CALLS[name][0] for name in ("speech", "images", "embeddings", "count")}
"""Those whose stream in the log has no reader, and is deleted."""


class Served:
    """A relay whose requests are interrupted, what they reserve, and its attempts."""

    def __init__(self, relay: Relay, upstream: Upstream, app: ASGIApp, reserved: list[int]) -> None:
        self.relay = relay
        self.upstream = upstream
        self.app = app
        self.reserved = reserved
        self.calls: list[DocumentCall] = []


@contextlib.asynccontextmanager
async def serve_app(
    upstream: Upstream, log: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    apps: list[ASGIApp] = []
    reserved: list[int] = []

    async def spy(create: Any, info: Any, **more: Any) -> Any:
        if info.reserve is not None:
            reserved.append(info.reserve.reservation(info.reserve.output_tokens).nano_usd)
        return await create(info, **more)

    def watch(app: ASGIApp) -> ASGIApp:
        apps.append(app)
        return app

    wrap = altering(create=spy)
    async with serve(
        upstream, log, limits=LIMITS, prices=PRICES, wrap_log=wrap, watch=watch, linger_s=0
    ) as relay:
        served = Served(relay, upstream, apps[0], reserved)

        ask = DocumentCall.run

        async def run(self: DocumentCall, *args: Any) -> Any:
            served.calls.append(self)
            return await ask(self, *args)

        monkeypatch.setattr(DocumentCall, "run", run)
        with counting():
            yield served


def tasks() -> set["asyncio.Task[Any]"]:
    """Return the running tasks, without those of the scripted provider."""
    found = asyncio.all_tasks() - {asyncio.current_task()}
    return {task for task in found if "testing/upstream" not in repr(task)}


async def interrupt(served: Served, name: str, at: Sequence[int], how: str) -> Request | None:
    """Make a request that ends at an await; return None if it has ended before.

    At further ones it is interrupted again.
    """
    path, body, _ = CALLS[name]
    relay = served.relay
    request = Request.of(served.app, path, body)
    served.reserved.clear()
    served.calls.clear()
    served.upstream.calls.clear()
    before, running = await settled(relay), tasks()

    def be_late() -> None:
        for call in served.calls[-1:]:
            with contextlib.suppress(RuntimeError):  # it is over
                call.timeout.reschedule(asyncio.get_running_loop().time())

    stopping: list[asyncio.Task[None]] = []
    acts: dict[str, Callable[[], object]] = {
        "leave": request.leave,
        "cancel": request.cancel,
        "late": be_late,
        "stop": lambda: stopping.append(asyncio.create_task(relay.hub.drain(0))),
    }
    acted = await asyncio.wait_for(request.run(at, acts[how]), 20)
    if stopping:
        await asyncio.wait_for(stopping[0], 20)
    state = await settled(relay)
    where = f"{how} at await {at} of {name}"
    assert 0 == state.day.held_nano_usd == state.month.held_nano_usd, where
    await until(lambda: not relay.hub.calls.count)
    assert 0 == relay.hub.admission.bytes, where
    if path in HIDDEN:
        await until(lambda: not relay.hub.load().log_streams)
    cost = state.day.nano_usd - before.day.nano_usd
    least = FEE if served.upstream.calls and name != "count" else 0
    assert least <= cost <= sum(served.reserved), where
    await until(lambda: not (tasks() - running))
    if how in ("late", "stop"):  # the client is there, and gets an answer, or a broken one
        assert request.answered or request.error is not None, where
    return request if acted else None


@pytest.mark.parametrize("how", ["leave", "cancel", "late"])
@pytest.mark.parametrize("name", CALLS)
async def test_nothing_stays_of_a_call_that_ends_at_any_await(
    name: str, how: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_provider() as upstream, serve_app(upstream, log, monkeypatch) as served:
        upstream.script = CALLS[name][-1]
        for at in range(1, MOST):
            if await interrupt(served, name, [at], how) is None:
                break
        else:
            pytest.fail("it has no end")
        assert at > 5


@pytest.mark.parametrize("name", CALLS)
async def test_nothing_stays_of_a_call_that_is_cancelled_again_while_it_ends(
    name: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_provider() as upstream, serve_app(upstream, log, monkeypatch) as served:
        upstream.script = CALLS[name][-1]
        for at in range(1, MOST):
            for then in (1, 2, 3):
                ended = await interrupt(served, name, [at, at + then, at + then + 1], "cancel")
            if ended is None:
                break
        assert at > 5


@pytest.mark.proving  # a relay for each await
@pytest.mark.parametrize("name", CALLS)
async def test_nothing_stays_of_a_call_during_which_the_relay_stops(
    name: str, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, MOST):
        async with serve_provider() as upstream, serve_app(upstream, log, monkeypatch) as served:
            upstream.script = CALLS[name][-1]
            if await interrupt(served, name, [at], "stop") is None:
                break
    assert at > 5

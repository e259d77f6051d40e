"""Ways in which an answer is not a whole one, as what the upstream does and what happens then."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.request import CONNECTION
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.telemetry.observer import Observer
from app.testing.upstream import (
    DONE,
    FINISH,
    USAGE,
    Call,
    Hold,
    Step,
    head,
    reply,
    send,
    serve_upstream,
    text,
    wait,
)
from tests.serving import Relay, serve_relay

STATUS_WAIT_S = 60
"""After this time the status is sent, whether the answer has begun or not: a refusal is known by
then, however busy the machine is."""

LATE_STATUS_WAIT_S = 0.5
"""The same where nothing is to be known by then: of the relay that is asked for `LATE`."""

LATE_S = LATE_STATUS_WAIT_S + 0.5
"""After this time, which begins when the relay has asked, that gate is over for certain."""

SAYS = ('{"word": "Hello ', "wor", 'ld"}')
"""The whole answer, which is JSON for the clients that want it."""

BEGUN: list[Step] = [head(), send(text(SAYS[0]) + text(SAYS[1]))]
WRITTEN = re.compile(rb"Hello .*wor", re.DOTALL)
"""What of a response shows that as much of the answer has been written, in any dialect."""

WHOLE = [*BEGUN, send(text(SAYS[2]) + FINISH + USAGE + DONE)]
ERROR = 'data: {"error":{"message":"the model broke","type":"server_error","code":500}}\n\n'


class Running(Observer):
    """The ids of the streams that run."""

    def __init__(self) -> None:
        self.streams: set[str] = set()
        self.all: list[str] = []
        """With those that have ended."""

    def started(self, record: StreamInfo) -> None:
        self.streams.add(record.id)
        self.all.append(record.id)

    def ended(self, ended: StreamEnded) -> None:
        self.streams.discard(ended.info.id)


async def _cancel(relay: Relay, running: Running) -> None:
    for stream in [*running.streams]:
        await relay.client.post(f"/v1/streams/{stream}/cancel")


async def _drain(relay: Relay, running: Running) -> None:
    await relay.hub.drain(0)


async def _lose(relay: Relay, running: Running) -> None:
    """Break the connection in mid-answer and forget the stream, as if the relay were killed."""
    streams = [*running.streams]
    for connection in list(relay.server.server_state.connections):
        # An idle connection may be taken for the next request.
        cycle = getattr(connection, "cycle", None)
        if cycle is not None and not cycle.response_complete:
            connection.transport.abort()
    for stream in streams:
        await relay.client.delete(f"/v1/streams/{stream}")


@dataclass(frozen=True)
class Fault:
    script: Sequence[Step]
    then: Callable[[Relay, Running], Awaitable[None]] | None = None
    """What happens to the relay once the script has been played up to its `Hold`, and what was
    said has been written to the client."""


FAULTS: dict[str, Fault] = {
    "cut": Fault(BEGUN),
    "cut-first": Fault([head(), wait(LATE_S)]),
    "failed": Fault([*BEGUN, send(ERROR)]),
    "failed-first": Fault([head(), wait(LATE_S), send(ERROR)]),
    "refused": Fault(reply("503 Busy", '{"error":{"message":"too busy"}}')),
    "stopped": Fault([*BEGUN, Hold()], _cancel),
    "killed": Fault([*BEGUN, Hold()], _lose),
    "interrupted": Fault([*BEGUN, Hold()], _drain),
}
"""By the model that is asked for. The last one ends the relay."""

LATE = ["cut-first", "failed-first"]
"""What waits for the end of the gate: a client may ask for both at once, and all clients the same
relay. What is done to a relay is done to all of its streams."""


@contextlib.asynccontextmanager
async def serve_faults(status_wait_s: float = STATUS_WAIT_S) -> AsyncIterator[Relay]:
    """Run a relay whose upstream fails as the model's name says, and answers to `whole`."""
    tasks = []
    watch, running = _Watch(), Running()

    async with (
        serve_upstream() as upstream,
        serve_relay(
            upstream, status_wait_s=status_wait_s, watch=watch, observers=[running]
        ) as relay,
    ):

        def choose(call: Call) -> Sequence[Step]:
            fault = FAULTS.get(json.loads(call.body)["model"], Fault(WHOLE))
            if fault.then is not None:
                doing = partial(fault.then, relay, running)
                tasks.append(asyncio.create_task(_then(doing, watch.expect())))
            return fault.script

        upstream.choose = choose
        yield relay
        await asyncio.gather(*tasks)


async def _then(do: Callable[[], Awaitable[None]], begun: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await begun.wait()
    await do()


class _Watch:
    """Tells when an answer has been written to the client as far as it had begun."""

    def __init__(self) -> None:
        self._written = bytearray()
        self._begun = asyncio.Event()

    def expect(self) -> asyncio.Event:
        """Return what will be set when the next answer has begun."""
        self._written.clear()
        self._begun = asyncio.Event()
        return self._begun

    def note(self, piece: bytes) -> None:
        self._written += piece
        if WRITTEN.search(self._written):
            self._begun.set()

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope["extensions"][CONNECTION] = _Noted(scope["extensions"][CONNECTION], self)
            await app(scope, receive, send)

        return watched


class _Noted:
    """A connection, all of it, that notes what is written."""

    def __init__(self, connection: Any, watch: _Watch) -> None:
        vars(self).update(_connection=connection, _watch=watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_connection"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(vars(self)["_connection"], name, value)

    def write(self, piece: bytes) -> Any:
        taken = vars(self)["_connection"].write(piece)
        vars(self)["_watch"].note(piece)
        return taken

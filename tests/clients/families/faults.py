"""Ways in which an answer is not a whole one, as what the upstream does and what happens then."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from app.identity.principal import ANYONE
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

GATE_S = 2
"""After this time the status is sent, whether the answer has begun or not: a refusal has to be
known by then, while twenty clients ask at once and other tests have the machine."""

LATE_S = GATE_S + 0.5
"""After this time, which begins when the relay has asked, the gate is over for certain."""

THEN_S = 1
"""After this time something happens to an answer that has begun."""

SAYS = ('{"word": "Hello ', "wor", 'ld"}')
"""The whole answer, which is JSON for the clients that want it."""

BEGUN: list[Step] = [head(), send(text(SAYS[0]) + text(SAYS[1]))]
WHOLE = [*BEGUN, send(text(SAYS[2]) + FINISH + USAGE + DONE)]
ERROR = 'data: {"error":{"message":"the model broke","type":"server_error","code":500}}\n\n'


async def _cancel(relay: Relay) -> None:
    for stream in list(relay.hub._runs):
        await (await relay.hub.streams_of(ANYONE).get(stream)).cancel()


async def _drain(relay: Relay) -> None:
    await relay.hub.drain(0)


async def _lose(relay: Relay) -> None:
    """Break the connection in mid-answer and forget the stream, as if the relay were killed."""
    for connection in list(relay.server.server_state.connections):
        cycle = getattr(
            connection, "cycle", None
        )  # an idle connection may be taken for the next request
        if cycle is not None and not cycle.response_complete:
            connection.transport.abort()
    for stream in list(relay.hub._runs):
        await (await relay.hub.streams_of(ANYONE).get(stream)).delete()


@dataclass(frozen=True)
class Fault:
    script: Sequence[Step]
    then: Callable[[Relay], Awaitable[None]] | None = None
    """What happens to the relay once the script has been played up to its `Hold`."""


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

TOGETHER = [
    *(["cut"], ["failed"], ["refused"], ["cut-first", "failed-first"]),
    *([fault] for fault in FAULTS if FAULTS[fault].then is not None),
]
"""Which a client may ask for at once: the two that wait for the gate; what is done to a relay is
done to all of its streams."""


@contextlib.asynccontextmanager
async def serve_faults() -> AsyncIterator[Relay]:
    """Run a relay whose upstream fails as the model's name says, and answers to `whole`."""
    tasks = []

    async with serve_upstream() as upstream, serve_relay(upstream, gate_s=GATE_S) as relay:

        def choose(call: Call) -> Sequence[Step]:
            fault = FAULTS.get(json.loads(call.body)["model"], Fault(WHOLE))
            if fault.then is not None:
                tasks.append(asyncio.create_task(_then(fault.then, relay)))
            return fault.script

        upstream.choose = choose
        yield relay
        await asyncio.gather(*tasks)


async def _then(do: Callable[[Relay], Awaitable[None]], relay: Relay) -> None:
    await asyncio.sleep(THEN_S)
    await do(relay)

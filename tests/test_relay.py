"""One generation against logs that are slow or full, and parsers that break."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from app.clock import SYSTEM
from app.dialects.openai_chat.upstream.parser import Parser
from app.eventlog import read_all
from app.eventlog.accounts import MemoryAccounts
from app.eventlog.contract import Placed
from app.eventlog.memory import MemoryLog
from app.eventlog.peers import NoPeers
from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import Event, StreamEnd
from app.generation.parts import Parts
from app.generation.reservation import Reservations
from app.generation.run import Run
from app.generation.settlement import Settlements
from app.generation.start_options import StartOptions
from app.generation.via import ViaName
from app.ledger.accounts import Settlement
from app.ledger.config import LimitsConfig
from app.ledger.prices import PriceBook
from app.policies.admission import Admission, Shares
from app.policies.deadlines import Limits
from app.requests import parse_chat_request
from app.telemetry.observer import FirstEvent, Observer, Observers
from app.testing.upstream import DONE, FINISH, text
from app.upstreams.endpoints import Upstream
from app.upstreams.http import open_client
from app.upstreams.routes import Upstreams
from tests.clock import Clock
from tests.eventlog.creating import create

pytestmark = pytest.mark.pure

CHAT = parse_chat_request(b'{"messages": [{"role": "user", "content": "x"}]}')
SSE = {"content-type": "text/event-stream"}
FINE = httpx2.Response(200, headers=SSE, text=text("fine") + text(" day") + FINISH + DONE)
BUSY = httpx2.Response(400, json={"error": {"message": "no"}})


class Slow(MemoryLog):
    """Takes longer than any limit over whatever `slow` is a part of, and adds it all the same."""

    def __init__(self, slow: type[Event], clock: Clock) -> None:
        super().__init__(retention_s=60, max_bytes=2**20)
        self.slow = slow
        self.clock = clock

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        return False

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        placed = await super().append(stream, events, settlement)
        if any(isinstance(event, self.slow) for event in events):
            await self.clock.pass_(1200)
        return placed


class Answering(httpx2.AsyncBaseTransport):
    def __init__(self, response: httpx2.Response) -> None:
        self.response = response

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return self.response


class Told(Observer):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        for method in ("started", "attempt_failed", "first_event", "ended"):
            setattr(self, method, self.told.append)


async def relay(
    response: httpx2.Response, log: MemoryLog, *, observer: Observer | None = None, **limits: Any
) -> Run:
    client = open_client(connect_timeout_s=1, mounts={"all://u": Answering(response)})
    upstreams = Upstreams([Upstream("u", "http://u")], attempts=1)
    await create(log, "st_x")
    running = Run(
        StreamInfo("st_x", request_id="req_1"),
        CHAT,
        route=upstreams.resolve("u/m"),
        parts=Parts(
            upstreams=upstreams,
            client=client,
            event_log=log,
            accounts=MemoryAccounts(),
            peers=NoPeers(),
            limits=Limits(**limits),
            reservations=Reservations(LimitsConfig(), PriceBook(())),
            settlements=Settlements(PriceBook(())),
            admission=Admission(Shares(), max_streams=1, clock=SYSTEM.monotonic),
            observer=Observers([] if observer is None else [observer]),
            via_name=ViaName(),
            clock=SYSTEM,
        ),
        options=StartOptions(linger_s=None),
    )
    return running


async def end_of(log: MemoryLog) -> StreamEnd:
    ends = [event for event in await read_all(log, "st_x") if isinstance(event, StreamEnd)]
    (end,) = ends
    return end


async def test_a_failure_is_told_though_time_is_up_while_it_is_written(monkeypatch):
    log = Slow(StreamEnd, Clock(monkeypatch))
    running = await relay(BUSY, log, first_event_timeout_s=600)
    await running.run()

    error = running.committed.result()
    assert error is not None
    assert "upstream_invalid_request" == error.code
    assert error.info() == (await end_of(log)).error


async def test_an_end_that_is_cancelled_while_it_is_written_is_reported(monkeypatch):
    log, observer = Slow(StreamEnd, Clock(monkeypatch)), Told()
    running = await relay(FINE, log, observer=observer, total_timeout_s=600)
    await running.run()
    await asyncio.sleep(0)  # observers follow the readers

    assert "completed" == (await end_of(log)).status
    started, first, report = observer.told
    assert [StreamInfo, FirstEvent, StreamEnded] == [*map(type, observer.told)]
    assert started == first.info == report.info
    assert ("completed", len(await read_all(log, "st_x"))) == (report.end.status, report.events)


async def test_a_parser_that_breaks_leaves_an_end(monkeypatch):
    def broken(*_: object) -> list[Event]:
        raise ArithmeticError("a bug")

    monkeypatch.setattr(Parser, "feed", broken)
    monkeypatch.setattr(Parser, "stop", broken)
    log = MemoryLog(retention_s=60, max_bytes=2**20)
    running = await relay(FINE, log)
    await running.run()

    error = (await end_of(log)).error
    assert error is not None
    assert "internal" == error.code


class Filling(MemoryLog):
    """Has room for so many events, and stops the relay as it adds the last of them."""

    def __init__(self, room: int) -> None:
        super().__init__(retention_s=60, max_bytes=2**20, max_stream_events=room)
        self.room = room
        self.relay: Run | None = None

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        return False

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        placed = await super().append(stream, events, settlement)
        if (await self.state(stream)).last == self.room and self.relay is not None:
            self.relay.stop("cancelled", by="user")
            await asyncio.sleep(0)
        return placed


@pytest.mark.parametrize("room", range(1, 9))
async def test_a_stop_while_the_log_fills_up_leaves_it_well_formed(room):
    log = Filling(room)
    begun = httpx2.Response(200, headers=SSE, text=text("fine") + text(" day"))
    running = log.relay = await relay(begun, log)
    await running.run()

    events = await read_all(log, "st_x")
    kinds = [type(event).__name__ for event in events]
    assert ["StreamStart", "StreamEnd"] == [kinds[0], kinds[-1]]
    assert 1 == kinds.count("StreamEnd")
    whole = ["StreamTarget", "TextStart", "TextDelta", "TextDelta", "TextEnd"]
    said = [kind for kind in kinds[1:-1] if kind != "ChoiceEnd"]
    wrote = said.count("TextDelta")
    assert said == [] or said == ["StreamTarget"] or said == [*whole[: 2 + wrote], "TextEnd"]
    assert running.committed.done()

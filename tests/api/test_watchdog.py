"""A stream that has lost its producer ends all the same, is reported, and costs what it has cost."""

import asyncio

import pytest
from structlog.testing import capture_logs

from app.eventlog.stream_ended import StreamEnded
from app.eventlog.stream_info import StreamInfo
from app.events import StreamEnd, StreamStart
from app.generation import watchdog
from app.generation.run import Run
from app.identity.principal import Principal
from app.ledger.config import LedgerConfig, LimitsConfig, PriceConfig, UsageLimits
from app.telemetry.observer import Observer
from app.testing.upstream import Hold, head, send, serve_upstream, text
from tests.identities import bearer, known
from tests.serving import HELLO, Relay, events_of, read_messages, serve_relay
from tests.waiting import until

ME = Principal("t", "me", "app")
LEDGER = LedgerConfig(
    limits=LimitsConfig(user=UsageLimits(streams=9)),
    prices=(PriceConfig(target="*/*", input=1000, output=1000),),
)


class Ends(Observer):
    def __init__(self) -> None:
        self.all: list[StreamEnded] = []

    def ended(self, ended: StreamEnded) -> None:
        self.all.append(ended)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "CHECK_S", 0.02)


async def held(relay: Relay) -> int:
    """The running streams in whichever account has most."""
    names = [account.name for account in relay.hub._parts.reservations.accounts_of(ME)]
    return max(state.running for state in await relay.accounts.read_accounts(names))


async def test_stream_whose_run_is_gone_ends_and_is_settled(log, monkeypatch):
    begun = asyncio.Event()

    async def vanish(run: Run) -> None:
        await run._begin()
        begun.set()

    ends = Ends()
    monkeypatch.setattr(Run, "_run", vanish)
    monkeypatch.setattr(Run, "_end_by_log", lambda *_: asyncio.sleep(0))
    relays = {"log": log, "observers": [ends], "authenticator": known(me=ME), "ledger": LEDGER}
    async with serve_upstream() as upstream, serve_relay(upstream, **relays) as relay:
        with capture_logs() as lines:
            headers = {**bearer("me"), "prefer": "respond-async"}
            reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
            assert begun.is_set()
            events_url = f"/v1/streams/{reply.headers['stream-id']}/events"
            async with relay.client.stream("GET", events_url, headers=bearer("me")) as reading:
                *_, end = events_of(await read_messages(reading))
            await until(lambda: ends.all)

        assert ("interrupted", "producer_lost") == (end["status"], end["error"]["code"])
        [ended] = ends.all
        assert ended.nano_usd is not None  # its input, which may have been sent
        assert ended.nano_usd > 0
        assert 0 == await held(relay)
    assert 1 == [line["event"] for line in lines].count("stream has no producer")


async def test_stream_that_never_began_is_removed(log):
    async with serve_upstream() as upstream, serve_relay(upstream, log=log) as relay:
        await relay.log.create(StreamInfo("st_1"))
        await until(lambda: not relay.log.running())


async def test_streams_with_a_producer_are_left_alone(log):
    async with (
        serve_upstream() as upstream,
        serve_relay(upstream, log=log, authenticator=known(me=ME), ledger=LEDGER) as relay,
    ):
        upstream.script = [head(), send(text("so far")), Hold()]
        headers = {**bearer("me"), "prefer": "respond-async"}
        reply = await relay.client.post("/v1/chat", json=HELLO, headers=headers)
        body = {"model": "openai/text-embedding-3-small", "input": "a text"}
        embedding = asyncio.create_task(
            relay.client.post("/v1/embeddings", json=body, headers=bearer("me"))
        )
        await until(lambda: len(upstream.calls) == 2)
        await asyncio.sleep(0.1)  # five checks

        assert 2 == len(relay.log.running()) == await held(relay)
        embedding.cancel()
        await asyncio.wait({embedding})
        await until(lambda: len(relay.log.running()) == 1)
        stream = reply.headers["stream-id"]
        events = await relay.log.read(stream, 0, timeout_s=0)
        assert isinstance(events[0], StreamStart)
        assert not isinstance(events[-1], StreamEnd)
        await until(lambda: not relay.hub.calls.streams)

"""What signals have a server do: a drain, and a stop at once."""

import asyncio
import signal

import pytest

from app.relay import Relay
from app.server.serving import build_server
from app.settings import load_settings

pytestmark = pytest.mark.pure


async def test_second_signal_hastens_a_drain_from_the_loop_and_not_from_its_handler():
    """A handler may come between the look and the wait of `Event.wait`, which then misses it."""
    settings = load_settings({"SESERAGI_DRAIN_S": "60"})
    hastened: list[str] = []
    async with Relay.open(settings) as relay:
        server = build_server(
            relay,
            others_answer=lambda: False,
            on_listening=lambda: None,
            stop_now=lambda: hastened.append("now"),
        )
        with server.capture_signals():
            for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(sent)
            assert [] == hastened
            for tick in range(3):
                assert not await server.on_tick(tick)
        await asyncio.sleep(0)

    assert ["now"] == hastened

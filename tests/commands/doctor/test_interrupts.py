"""Ctrl-C while an examination measures: it ends there, whatever it waits for."""

import asyncio
import ssl
import time
from typing import Any

import pytest

from app.commands.doctor.load import BUSY_S
from app.commands.doctor.session import Session
from app.commands.doctor.streaming import look_at_stream
from app.commands.doctor.wire import Client, Reply, Url

pytestmark = pytest.mark.pure

TOKENS = b'data: {"type":"text.delta","text":"a","block":0}\n\n' * 80


class BusyMachine(Client):
    """All tokens come at once, and Ctrl-C just when the requests beside them are given up."""

    def __init__(self, interrupted: asyncio.Task[None]) -> None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().__init__(Url.parse("http://relay.example"), trust=trust, timeout_s=10)
        self.interrupted = interrupted
        self.streams = 0

    async def ask(self, method: str, path: str, **_: Any) -> Reply:
        now = time.monotonic()
        if path == "/healthz":
            try:
                await asyncio.Event().wait()
            finally:
                self.interrupted.cancel()
        await asyncio.sleep(0)
        self.streams += path == "/v1/chat"
        return Reply(path, now, now, now, now, "whole", status=200, pieces=[(now, TOKENS)])


async def test_ctrl_c_between_two_measurements_is_not_swallowed():
    async def examine() -> None:
        task = asyncio.current_task()
        assert task is not None
        client = BusyMachine(task)
        session = Session(client, idle_s=0)
        session.lag.note(
            time.monotonic() + 60, 60 + BUSY_S
        )  # so it looks whether the machine is busy
        try:
            await look_at_stream(session)
        finally:
            streams.append(client.streams)

    streams: list[int] = []
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(examine())
    assert [2] == streams

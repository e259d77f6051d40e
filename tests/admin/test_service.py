"""What a process leaves in the log for others, and when: nothing while nobody looks."""

from pathlib import Path
from typing import Any

import pytest
import structlog

from app.admin import service as desks
from app.errors import ServiceError
from app.eventlog import EventLog
from app.eventlog.sqlite.database import prepare
from app.eventlog.sqlite.log import SqliteLog
from tests.serving import Relay, serve_relay
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"INTERVAL_S": 0.01, "FIRST_S": 0.1, "FRESH_S": 0.0}.items():
        monkeypatch.setattr(desks, name, seconds)


class Spied:
    """The log of a process, which notes what it posts and when it polls."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str]] = []
        self.looked = 0
        self.fails = False
        self.log: Any = None

    def __call__(self, log: EventLog) -> Any:
        """Stand between a relay and its log."""
        self.log = log
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.log, name)

    async def publish(self, place: Any, name: str, text: bytes, *, for_s: float) -> None:
        self.posted.append((place, name))
        await self.log.publish(place, name, text, for_s=for_s)

    async def messages(self, place: Any) -> dict[str, bytes]:
        self.looked += 1
        self.fail()
        found: dict[str, bytes] = await self.log.messages(place)
        return found

    async def read_accounts(self, names: Any) -> Any:
        self.fail()
        return await self.log.read_accounts(names)

    def fail(self) -> None:
        if self.fails:
            raise ServiceError("internal", "the event log failed")

    async def beats(self, count: int = 3) -> None:
        """Wait until it has looked so many times more."""
        enough = self.looked + count
        await until(lambda: self.looked >= enough)


@pytest.fixture
def spied() -> Spied:
    return Spied()


def shared(tmp_path: Path, spied: Spied | None = None) -> Any:
    """A relay that is one of several workers, as its log is concerned."""
    if not (tmp_path / "log.db").exists():
        prepare(tmp_path / "log.db", now=0)
    return serve_relay(log=f"sqlite:///{tmp_path}/log.db", workers=2, wrap_log=spied)


async def look(relay: Relay) -> Any:
    answer = await relay.client.get("/v1/admin/summary", headers=relay.operator)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_nothing_is_left_while_nobody_looks(tmp_path, monkeypatch, spied):
    monkeypatch.setattr(desks, "WATCH_S", 0.3)
    monkeypatch.setattr(desks, "WATCH_AGAIN_S", 0.1)
    async with shared(tmp_path, spied) as relay:
        await spied.beats()
        assert [] == spied.posted

        async def has_left_a_board() -> bool:
            [process] = (await look(relay))["processes"]
            return ("snapshots", process["id"]) in spied.posted

        await until(has_left_a_board)

        async def nobody_looks() -> bool:
            return desks.WATCH not in await relay.log.messages("commands")

        await until(nobody_looks)  # it ends by itself
        await spied.beats()
        spied.posted.clear()
        await spied.beats()
        assert [] == spied.posted


async def test_board_is_taken_away_at_the_end(tmp_path, spied):
    async with shared(tmp_path, spied) as relay:
        [process] = (await look(relay))["processes"]
        await until(lambda: ("snapshots", process["id"]) in spied.posted)
    log = SqliteLog(tmp_path / "log.db", retention_s=1, max_bytes=10**6, shared=True)
    await log.open()
    try:
        assert {} == await log.messages("snapshots")
    finally:
        await log.close()


async def test_what_others_leave_that_cannot_be_read_harms_nobody(tmp_path, spied):
    async with shared(tmp_path, spied) as relay:
        log = relay.log
        for text in (b"", b"\xc1", b"\x81\xa2id\xa1\xff", b"x" * 1000):
            for place in ("commands", "snapshots"):
                await log.publish(place, f"other {len(text)}", text, for_s=60)
        with structlog.testing.capture_logs() as lines:
            assert 1 == len((await look(relay))["processes"])
            await spied.beats()
        assert [] == lines
        assert {"closed"} == {target["state"] for target in (await look(relay))["targets"]}


async def test_log_that_is_away_leaves_the_process_in_sight(tmp_path, spied):
    async with shared(tmp_path, spied) as relay:
        spied.fails = True
        found = await look(relay)
        assert 1 == len(found["processes"])
        assert (False, []) == (found["money"]["known"], found["money"]["accounts"])
        spied.fails = False
        await spied.beats()

"""What a process leaves in the log for others, and when: nothing while nobody looks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.admin import desk as desks
from app.admin.desk import Desk
from app.errors import ServiceError
from app.eventlog.sqlite.shared import SharedSqliteLog
from app.eventlog.sqlite.shared_database import prepare
from tests.serving import Relay, serve_relay


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"BEAT_S": 0.01, "FIRST_S": 0.1, "FRESH_S": 0.0}.items():
        monkeypatch.setattr(desks, name, seconds)


class Spied:
    """A process over a shared file, which notes what it posts and when it looks for orders."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.posted: list[tuple[str, str]] = []
        self.looked = 0
        self.fails = False
        post, posts = SharedSqliteLog.post, SharedSqliteLog.posts

        async def note_post(log: Any, place: Any, name: str, text: bytes, *, for_s: float) -> None:
            self.posted.append((place, name))
            await post(log, place, name, text, for_s=for_s)

        async def note_posts(log: Any, place: Any) -> dict[str, bytes]:
            self.looked += 1
            if self.fails:
                raise ServiceError("internal", "the event log failed")
            return await posts(log, place)

        monkeypatch.setattr(SharedSqliteLog, "post", note_post)
        monkeypatch.setattr(SharedSqliteLog, "posts", note_posts)

    async def beats(self, count: int = 3) -> None:
        """Wait until it has looked so many times more."""
        until = self.looked + count
        await self.see(lambda: self.looked >= until)

    async def see(self, wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not wanted():  # noqa: ASYNC110  (no event tells)
                await asyncio.sleep(0.005)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> Spied:
    return Spied(monkeypatch)


def shared(tmp_path: Path) -> Any:
    """A relay that is one of several workers, as its log is concerned."""
    prepare(tmp_path / "log.db", now=0)
    return serve_relay(log=f"sqlite:///{tmp_path}/log.db", workers=2)


def desk_of(relay: Relay) -> Desk:
    (desk,) = (one for one in relay.hub.services if isinstance(one, Desk))
    return desk


async def look(relay: Relay) -> Any:
    answer = await relay.client.get("/v1/admin/summary")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_nothing_is_left_while_nobody_looks(tmp_path, monkeypatch, spied):
    monkeypatch.setattr(desks, "WATCH_S", 0.3)
    monkeypatch.setattr(desks, "WATCH_AGAIN_S", 0.1)
    async with shared(tmp_path) as relay:
        await spied.beats()
        assert [] == spied.posted
        async with asyncio.timeout(20):
            while ("boards", desk_of(relay)._id) not in spied.posted:
                await look(relay)
                await asyncio.sleep(0.05)
        # It ends by itself.
        async with asyncio.timeout(20):
            while desks.WATCH in await relay.log.posts("orders"):  # noqa: ASYNC110  (a poll)
                await asyncio.sleep(0.02)
        await spied.beats()
        spied.posted.clear()
        await spied.beats()
        assert [] == spied.posted


async def test_board_is_taken_away_at_the_end(tmp_path, monkeypatch, spied):
    async with shared(tmp_path) as relay:
        await look(relay)
        board = ("boards", desk_of(relay)._id)
        await spied.see(lambda: board in spied.posted)
    log = SharedSqliteLog(tmp_path / "log.db", retention_s=1, max_bytes=10**6)
    await log.open()
    try:
        assert {} == await log.posts("boards")
    finally:
        await log.close()


async def test_what_others_leave_that_cannot_be_read_harms_nobody(tmp_path, monkeypatch, spied):
    async with shared(tmp_path) as relay:
        log = relay.log
        for text in (b"", b"\xc1", b"x" * 1000):
            for place in ("orders", "boards"):
                await log.post(place, f"rest {len(text)}", text, for_s=60)
        found = await look(relay)
        assert [desk_of(relay)._id] == [process["id"] for process in found["processes"]]
        await spied.beats()
        assert {"closed"} == {target["state"] for target in (await look(relay))["targets"]}


async def test_log_that_is_away_leaves_the_process_in_sight(tmp_path, monkeypatch, spied):
    async with shared(tmp_path) as relay:
        spied.fails = True

        async def fail(*_: object) -> None:
            raise ServiceError("internal", "the event log failed")

        monkeypatch.setattr(SharedSqliteLog, "accounts", fail)
        found = await look(relay)
        assert 1 == len(found["processes"])
        assert (False, []) == (found["money"]["known"], found["money"]["accounts"])
        spied.fails = False
        await spied.beats()


async def test_order_is_obeyed_once_and_one_that_was_given_meanwhile_too(
    tmp_path, monkeypatch, spied
):
    async with shared(tmp_path) as relay:
        other = Desk(relay.hub, relay.log, desk_of(relay)._about)
        breakers = relay.hub.upstreams.breakers
        clock = asyncio.get_running_loop().time

        async def order(action: Any) -> None:
            with monkeypatch.context() as patched:  # its own breakers are not these
                patched.setattr(other, "_obey", lambda order: None)
                await other.order("demo/demo", action, for_s=100)

        await order("rest")
        await spied.see(lambda: breakers.rests_for("demo/demo", clock()) > 90)
        breakers.wake("demo/demo")
        await spied.beats()
        assert 0 == breakers.rests_for("demo/demo", clock())
        await order("rest")
        await spied.see(lambda: breakers.rests_for("demo/demo", clock()) > 90)
        await order("wake")
        await spied.see(lambda: breakers.rests_for("demo/demo", clock()) == 0)
        # A process that begins now is told of the wake, and no more of the rest.
        names = {name.split()[0] for name in await relay.log.posts("orders")}
        assert {"rest"} == names

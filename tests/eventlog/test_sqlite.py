"""The log in a SQLite file: the contract, restarts, kills, and what a disk may do."""

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.errors import ServiceError
from app.eventlog import Claim, LogState, LogUnusable, pace, read_all, recovery
from app.eventlog.recovery import closing_events
from app.eventlog.sqlite import database, owner, tail_table
from app.eventlog.sqlite import log as sqlite
from app.eventlog.sqlite.database import Database
from app.eventlog.sqlite.log import SqliteLog
from app.eventlog.sqlite.schema import STEPS, VERSION
from app.eventlog.stream_info import scoped
from app.events import (
    Event,
    StreamEnd,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
)
from tests.dialects.streams import end_of
from tests.eventlog.accounts_contract import *  # noqa: F403
from tests.eventlog.contract import *  # noqa: F403
from tests.eventlog.contract import (
    END,
    INFO,
    LIMITS,
    START,
    Clock,
    code_of,
    deltas,
    ended,
    filled,
    many,
)
from tests.eventlog.creating import create, found
from tests.eventlog.files import empty_disk, fail_next, fill_disk, on_file, opened, process, run_sql
from tests.eventlog.rows_contract import *  # noqa: F403
from tests.eventlog.rows_contract import QUEUES

PROVING = pytest.mark.proving


@pytest.fixture(params=[10, 0], ids=["from memory", "from the file"])
async def event_log(request, path, clock: Clock, monkeypatch, callbacks):
    monkeypatch.setattr(sqlite, "KEEP_S", request.param)
    async with opened(
        path, **LIMITS, queues=QUEUES, wall=clock, **callbacks.arguments
    ) as event_log:
        yield event_log


# Restarts


async def test_ended_streams_and_their_keys_survive(path, clock):
    events = [START, *many(2_300), END]
    async with opened(path, wall=clock) as event_log:
        await create(event_log, "st_1", key="key", digest="d")
        for batch in (events[:900], events[900:901], events[901:]):
            await event_log.append("st_1", batch)
        state = await event_log.state("st_1")
    clock.now += 50
    async with opened(path, wall=clock) as event_log:
        assert state == await event_log.state("st_1")
        assert LogState(2_302, True, started_at=state.started_at, ended_at=clock.now - 50) == state
        assert events == await read_all(event_log, "st_1")
        assert events[2_299:2_301] == await event_log.read("st_1", 2_299, timeout_s=0, limit=2)
        assert [] == await event_log.read("st_1", 2_302, timeout_s=60)
        assert Claim("st_1", "d") == await create(event_log, "st_2", key="key", digest="e")


async def test_retention_counts_on_over_a_restart(path, clock):
    async with opened(path, wall=clock) as event_log:
        await ended(event_log, "st_1")
    clock.now += 100
    async with opened(path, wall=clock) as event_log:
        assert "stream_expired" == await code_of(event_log, "st_1")
        assert "not_found" == await code_of(event_log, "st_2")
        await event_log.sweep()
        assert 0 == await on_file(event_log, "SELECT count(*) FROM pages")
    clock.now += database.REMEMBERED_S - 1
    async with opened(path, wall=clock) as event_log:
        assert "stream_expired" == await code_of(event_log, "st_1")
        clock.now += 1
        await event_log.sweep()
        assert "not_found" == await code_of(event_log, "st_1")


async def test_what_was_deleted_is_not_in_the_file(path):
    async with opened(path) as event_log:
        for stream, end in (("st_1", [END]), ("st_2", [])):
            await create(event_log, stream)
            await event_log.append(stream, deltas(*(["a secret"] * 3_000)))
            await event_log.append(stream, [*deltas("a secret"), *end])
            await event_log.delete(stream)
        await event_log.sweep()

    assert b"a secret" not in path.read_bytes()


async def test_stream_that_was_running_is_ended(path, clock):
    head: list[Event] = [START, TextStart(0)]
    gathered: list[Event] = [TextDelta(0, str(number)) for number in range(2_500)]
    async with opened(path, wall=clock) as event_log:
        await filled(event_log, head, *([event] for event in gathered))
        await create(event_log, "st_2")
        await event_log.append("st_2", head)
        await create(event_log, "st_3")  # nobody has seen anything of it
    clock.now += 1000
    async with opened(path, wall=clock) as event_log:
        events = await read_all(event_log, "st_1")

        assert [*head, *gathered, TextEnd(0)] == events[:-1]
        end = end_of(events)
        assert ("interrupted", recovery.LOST) == (end.status, end.error)
        assert LogState(
            2_504, True, started_at=clock.now - 1000, ended_at=clock.now
        ) == await event_log.state("st_1")
        assert [*head, TextEnd(0), events[-1]] == await read_all(event_log, "st_2")
        assert "stream_expired" == await code_of(event_log, "st_3")
        with pytest.raises(ValueError, match="has ended"):
            await event_log.append("st_1", deltas("a"))
    async with opened(path, wall=clock) as event_log:
        assert events == await read_all(event_log, "st_1")


async def test_stream_that_cannot_be_read_is_removed(path):
    async with opened(path) as event_log:
        for stream in ("st_1", "st_2"):
            await create(event_log, stream)
            await event_log.append(stream, [START])
        statement = "UPDATE tail SET events = x'7b' WHERE stream = 1 RETURNING 1"
        await on_file(event_log, statement)
    async with opened(path) as event_log:
        assert "stream_expired" == await code_of(event_log, "st_1")
        assert 2 == (await event_log.state("st_2")).last


@pytest.mark.parametrize(
    ("streams", "acknowledged"),
    [(3, 40), *(pytest.param(n, m, marks=PROVING) for n in (1, 30) for m in (1, 40, 1_500))],
)
async def test_kill_takes_nothing_back(path, streams, acknowledged):
    """A process that appends is killed once it has said so often that something was taken."""
    with process("producer", path, streams) as producer:
        assert producer.stdout
        said = [producer.stdout.readline() for _ in range(acknowledged)]
        producer.kill()
        said += [line for line in producer.stdout if line.endswith("\n")]
    taken = {stream: int(number) for stream, number in map(str.split, said)}
    async with opened(path) as event_log:
        for stream, number in taken.items():
            events = await read_all(event_log, stream)

            assert len(events) - 3 in (number, number + 2)
            for position, event in enumerate(events[3:-3], start=4):
                text = str(position)
                assert event in (TextDelta(0, text), ToolCallDelta(1, f"{text},"))
            pieces = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
            cut = ToolCallEnd(1, "".join(pieces), incomplete=True)
            assert [TextEnd(0), cut] == events[-3:-1]
            assert ("interrupted", recovery.LOST) == (end_of(events).status, end_of(events).error)


# The cost


async def test_what_waits_is_one_transaction(path, monkeypatch):
    sizes = []
    transact = Database.transact

    def counting(self: Database, works: Any) -> Any:
        sizes.append(len(works))
        return transact(self, works)

    # The work of sweeps could join.
    monkeypatch.setattr(SqliteLog, "_keep_swept", lambda _: asyncio.sleep(3600))
    async with opened(path) as event_log:
        streams = [f"st_{number}" for number in range(100)]
        monkeypatch.setattr(Database, "transact", counting)
        await asyncio.gather(*(create(event_log, stream) for stream in streams))
        sizes.clear()
        await asyncio.gather(*(event_log.append(stream, [START]) for stream in streams))

        assert 100 == max(sizes)


async def test_long_stream_is_read_in_pages(path):
    count = 30_000
    async with opened(path) as event_log:
        await create(event_log, "st_1")
        for start in range(0, count, 500):
            await event_log.append("st_1", deltas(*(str(start + number) for number in range(500))))
        await event_log.append("st_1", [END])
    async with opened(path) as event_log:
        await event_log.state("st_1")
        tracemalloc.start(1)
        after = 0
        while events := await event_log.read("st_1", after, timeout_s=0):
            assert TextDelta(0, str(after)) == events[0] or after == count
            after += len(events)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert count + 1 == after
    assert peak < 2_000_000


async def test_page_of_large_events_is_short(path):
    events = deltas(*(f"{number}" * 100_000 for number in range(10)))
    async with opened(path) as event_log:
        await filled(event_log, *([event] for event in events), [END])
    async with opened(path) as event_log:
        assert 3 == len(await event_log.read("st_1", 0, timeout_s=0))
        assert [*events, END] == await read_all(event_log, "st_1")


async def test_slow_stream_does_not_hold_the_tail_back(path, monkeypatch):
    monkeypatch.setattr(tail_table, "TAIL_ROWS", 50)
    monkeypatch.setattr(tail_table, "SWEPT_AT_ONCE", 7)
    async with opened(path) as event_log:
        await filled(event_log, [START])
        for number in range(40):
            await ended(event_log, f"st_a{number}")
            await event_log.append("st_1", deltas(str(number)))
            for text in "abc":
                await event_log.append("st_1", deltas(text))
            await create(event_log, f"st_b{number}")
            for text in "xyz":
                await event_log.append(f"st_b{number}", deltas(text))
            if number % 2:
                await event_log.append(f"st_b{number}", [END])
        rows = await on_file(event_log, "SELECT count(*) FROM tail")
        live = event_log._database.tail.live

        assert 161 + 60 == live
        assert rows <= 2 * live + 50 + 7
        await event_log.sweep()
        assert live == await on_file(event_log, "SELECT count(*) FROM tail")
        await event_log.append("st_1", deltas("last"))
    expected: list[Event] = [START]
    for number in range(40):
        expected += deltas(str(number), "a", "b", "c")
    async with opened(path) as event_log:
        assert [*expected, *deltas("last")] == (await read_all(event_log, "st_1"))[:-1]
        for number in range(40):
            events = await read_all(event_log, f"st_b{number}")
            assert deltas("x", "y", "z") == events[:3]
            assert ("completed" if number % 2 else "interrupted") == end_of(events).status


async def test_pushed_events_are_filed_while_more_of_them_come(path, monkeypatch):
    monkeypatch.setattr(owner, "FILED_EVENTS", 10)
    monkeypatch.setattr(tail_table, "TAIL_ROWS", 5)
    monkeypatch.setattr(tail_table, "SWEPT_AT_ONCE", 3)
    monkeypatch.setattr(pace, "GATHER_S", 0)  # for many transactions
    expected: list[Event] = [START]
    async with opened(path) as event_log:
        await filled(event_log, [START])
        for number in range(500):
            batch = deltas(f"{number}.a", f"{number}.b")
            if not event_log.push("st_1", batch):
                await event_log.append("st_1", batch)
            expected += batch
            if number % 7 == 0:
                await asyncio.sleep(0)
        await event_log.append("st_1", deltas("last"))
        assert await on_file(event_log, "SELECT count(*) FROM pages") > 5
        assert await on_file(event_log, "SELECT count(*) FROM tail") < 200
        assert event_log._database.tail.live < 200
    async with opened(path) as event_log:
        assert [*expected, *deltas("last")] == (await read_all(event_log, "st_1"))[:-1]


async def test_pushed_events_that_the_file_refuses_fail_the_next_append(path):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        await fill_disk(event_log)
        assert event_log.push("st_1", LARGE)
        assert event_log.push("st_1", deltas("a"))
        with pytest.raises(ServiceError, match="could not be written"):
            await event_log.append("st_1", deltas("b"))
        assert not event_log._owner.streams["st_1"].batches
        await empty_disk(event_log)
        await event_log.append("st_1", [END])

        assert [START, END] == await read_all(event_log, "st_1")


async def test_stream_that_is_too_long_shows_what_was_pushed_before_it_says_so(path):
    async with opened(path, max_stream_events=3) as event_log:
        await filled(event_log, [START])
        assert event_log.push("st_1", deltas("a"))
        with pytest.raises(ServiceError, match="longer than the limit"):
            await event_log.append("st_1", deltas("b", "c", "d"))

        assert [START, *deltas("a")] == await read_all(event_log, "st_1")


# The file


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("a text\n" * 1000), "not an SQLite database"),
        (lambda path: run_sql(path, "CREATE TABLE t (a)"), "database of another program"),
        (lambda path: path.mkdir(), "cannot be opened"),
        (lambda path: path.parent.rmdir(), "directory .* does not exist"),
    ],
    ids=["a text", "another program's", "a directory", "no directory"],
)
async def test_file_that_cannot_be_used_is_told(tmp_path, make, reason):
    path = tmp_path / "folder" / "log.db"
    path.parent.mkdir()
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(LogUnusable, match=reason) as caught:
        await SqliteLog(path, retention_s=100, max_bytes=1000).open()

    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert before == (path.read_bytes() if path.is_file() else None)


@pytest.mark.parametrize(
    ("version", "age"), [(VERSION + 1, "a newer"), (min(STEPS) - 1, "an older")]
)
async def test_file_of_another_version_is_told(path, version, age):
    async with opened(path):
        pass
    run_sql(path, f"PRAGMA user_version = {version}")
    with pytest.raises(LogUnusable, match=f"{age} version"):
        await SqliteLog(path, retention_s=100, max_bytes=1000).open()


async def test_info_and_names_survive_a_restart(path):
    async with opened(path) as event_log:
        await event_log.create(INFO)
        await event_log.append("st_1", [START])
    async with opened(path) as event_log:
        assert INFO == await event_log.info("st_1")
        assert "t/u" == (await event_log.state("st_1")).owner
        assert Claim("st_1", "d") == await event_log.claimed(scoped("t/u", "key"))
        assert None is await event_log.claimed(scoped("", "key"))
        assert "st_1" == await found(event_log, "a chat", owner="t/u")


async def test_file_that_cannot_be_made_is_told():
    with pytest.raises(LogUnusable, match="cannot be created"):
        await SqliteLog("/proc/log.db", retention_s=100, max_bytes=1000).open()


@contextlib.contextmanager
def no_rights_of_root() -> Iterator[None]:
    """Be nobody for a while, since root may write everywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("what", ["file", "directory"])
async def test_place_that_cannot_be_written_is_told(what):
    with tempfile.TemporaryDirectory() as folder:  # one that nobody can look into
        place = Path(folder)
        path = place / "log.db"
        async with opened(path):
            pass
        path.chmod(0o444 if what == "file" else 0o660)
        place.chmod(0o777 if what == "file" else 0o555)
        with (
            no_rights_of_root(),
            pytest.raises(LogUnusable, match="cannot be opened for writing"),
        ):
            await SqliteLog(path, retention_s=100, max_bytes=1000).open()
        place.chmod(0o700)


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o622])
@pytest.mark.parametrize("end", ["", "-wal"])
async def test_file_that_anybody_can_write_to_is_refused(path, mode, end):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        kept = path.with_name(f"{path.name}-wal").read_bytes()
    written = path.with_name(f"{path.name}{end}")
    if end:
        written.write_bytes(kept)
    written.chmod(mode)
    with pytest.raises(LogUnusable, match=f"run: chmod 600 {written}") as caught:
        await SqliteLog(path, retention_s=100, max_bytes=1000).open()

    assert "\n" not in str(caught.value)
    written.chmod(0o600)
    async with opened(path) as event_log:
        assert (await event_log.state("st_1")).ended


@pytest.mark.parametrize(
    ("mode", "folder", "told"),
    [
        (0o644, 0o700, ["other users can read the event log; run: chmod 600"]),
        (0o660, 0o700, ["other users can read the event log; run: chmod 600"]),
        (0o600, 0o777, ["every user can replace the event log; run: chmod o-w on its directory"]),
        (0o600, 0o1777, []),
        (0o600, 0o755, []),
    ],
)
async def test_place_that_others_can_read_is_warned_of(path, mode, folder, told):
    async with opened(path):
        pass
    path.chmod(mode)
    path.parent.chmod(folder)
    with structlog.testing.capture_logs() as lines:
        async with opened(path):
            pass

    assert told == [line["event"] for line in lines if line["log_level"] == "warning"]


async def test_file_serves_one_process(path):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        with pytest.raises(LogUnusable, match="another process uses it"):
            await SqliteLog(path, retention_s=100, max_bytes=1000).open()
        await event_log.append("st_1", deltas("a"))


async def test_file_is_for_its_owner(path):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}

    files = ("log.db", "log.db-wal", "log.db-shm", "log.db-process-1")
    assert dict.fromkeys(files, 0o600) == modes


async def test_room_of_removed_streams_is_used_again(path, clock):
    sizes = []
    async with opened(path, wall=clock, max_bytes=1_000_000) as event_log:
        for number in range(60):
            clock.now += 1
            await ended(event_log, f"st_{number}", size=200_000)
            await event_log.sweep()
            sizes.append(await on_file(event_log, "PRAGMA page_count"))

    assert sizes[-1] < 1.5 * sizes[10]


async def test_cancelled_create_leaves_nothing(path):
    async with opened(path) as event_log:
        creating = asyncio.create_task(create(event_log, "st_1"))
        await asyncio.sleep(0)
        creating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await creating
        await event_log.sweep()

        assert "stream_expired" == await code_of(event_log, "st_1")


# A disk that is full, and then is not


LARGE = deltas("x" * 100_000)


async def test_full_disk_fails_the_stream_and_not_its_readers(path):
    head: list[Event] = [START, TextStart(0)]
    async with opened(path) as event_log:
        await filled(event_log, head)
        reading = asyncio.create_task(event_log.read("st_1", 2, timeout_s=20))
        await fill_disk(event_log)
        with pytest.raises(ServiceError, match="could not be written") as caught:
            await event_log.append("st_1", LARGE)
        assert ("overloaded", True) == (caught.value.code, caught.value.retryable)
        assert 2 == (await event_log.state("st_1")).last
        await empty_disk(event_log)
        ending = closing_events(head, status="failed", error=caught.value.info())
        await event_log.append("st_1", [*LARGE, *ending])

        assert [*LARGE, *ending] == await asyncio.wait_for(reading, 20)
    async with opened(path) as event_log:
        assert [*head, *LARGE, *ending] == await read_all(event_log, "st_1")


@pytest.mark.parametrize("paid", [True, False])
async def test_end_that_the_file_refused_is_shown_as_a_restart_would_make_it(path, paid):
    head: list[Event] = [START, TextStart(0)]
    lost = [
        TextEnd(0),
        StreamEnd("interrupted", "error", error=recovery.LOST, ended_by="relay_lost"),
    ]
    async with opened(path) as event_log:
        await filled(event_log, head)
        reading = asyncio.create_task(event_log.read("st_1", 2, timeout_s=20))
        await fill_disk(event_log)
        with pytest.raises(ServiceError, match="could not be written"):
            await event_log.append("st_1", [*LARGE, TextEnd(0), END])

        assert lost == await asyncio.wait_for(reading, 20)
        assert [*head, *lost] == await read_all(event_log, "st_1")
        state = await event_log.state("st_1")
        assert (4, True) == (state.last, state.ended)
        with pytest.raises(ValueError, match="has ended"):
            await event_log.append("st_1", LARGE)
        if paid:
            await empty_disk(event_log)
            await event_log.sweep()
            assert not event_log._owner.unwritten
    async with opened(path) as event_log:
        assert [*head, *lost] == await read_all(event_log, "st_1")
        assert 4 == (await event_log.state("st_1")).last
        if paid:
            assert state == await event_log.state("st_1")


async def test_stream_whose_end_was_refused_is_kept_for_its_time(path, clock):
    async with opened(path, wall=clock) as event_log:
        await filled(event_log, [START])
        await fill_disk(event_log)
        with pytest.raises(ServiceError):
            await event_log.append("st_1", [*LARGE, END])
        clock.now += 99
        assert (await event_log.state("st_1")).ended
        clock.now += 1
        assert "stream_expired" == await code_of(event_log, "st_1")
        await empty_disk(event_log)
        await event_log.sweep()
        assert "stream_expired" == await code_of(event_log, "st_1")
    async with opened(path, wall=clock) as event_log:
        assert "stream_expired" == await code_of(event_log, "st_1")


async def test_sweeps_go_on_after_one_that_failed(path, monkeypatch):
    swept = asyncio.Event()
    tidy = Database.tidy
    failures: list[Exception] = [sqlite3.OperationalError("full"), OverflowError("bad")]

    def failing(self: Database, *, now: float) -> None:
        if failures:
            raise failures.pop()
        tidy(self, now=now)
        loop.call_soon_threadsafe(swept.set)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(sqlite, "SWEEP_S", 0.01)
    monkeypatch.setattr(Database, "tidy", failing)
    async with opened(path):
        await asyncio.wait_for(swept.wait(), 20)


async def test_work_that_fails_for_any_reason_is_told_to_all_as_a_failed_write(path):
    async with opened(path) as event_log:
        await create(event_log, "st_1")
        fail_next(event_log)
        with pytest.raises(ServiceError, match="could not be written"):
            await event_log.append("st_1", [START])
        fail_next(event_log)
        with pytest.raises(ServiceError, match="could not be written"):
            await create(event_log, "st_2")


async def test_log_is_unhealthy_from_a_failed_write_to_one_that_is_done(path):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        await event_log.sweep()  # behind the first one
        await fill_disk(event_log)
        assert event_log.healthy()
        with pytest.raises(ServiceError):
            await event_log.append("st_1", LARGE)
        assert not event_log.healthy()
        await event_log._writer.write(lambda: None)
        assert not event_log.healthy()  # nothing was written
        await empty_disk(event_log)
        await event_log.append("st_1", LARGE)
        assert event_log.healthy()


async def test_log_whose_connection_is_lost_is_unhealthy(path):
    async with opened(path) as event_log:
        await create(event_log, "st_1")
        await event_log._writer.read(event_log._database._connection.close)
        with pytest.raises(ServiceError, match="could not be written"):
            await event_log.append("st_1", [START])
        assert not event_log.healthy()


async def test_sweep_finds_out_whether_the_file_can_be_written(path):
    async with opened(path) as event_log:
        await event_log.sweep()  # behind the first one
        execute = event_log._database._connection.execute
        await event_log._writer.read(lambda: execute("PRAGMA query_only = 1"))
        with pytest.raises(ServiceError):
            await event_log.sweep()
        assert not event_log.healthy()
        await event_log._writer.read(lambda: execute("PRAGMA query_only = 0"))
        await event_log.sweep()
        assert event_log.healthy()


async def test_loss_that_nobody_heard_of_is_told_to_the_next(path):
    async with opened(path) as event_log:
        await filled(event_log, [START])
        await fill_disk(event_log)
        cancelled = asyncio.create_task(event_log.append("st_1", LARGE))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(ServiceError):  # not written: it would stand behind a gap
            await event_log.append("st_1", [END])
        cancelled = asyncio.create_task(event_log.append("st_1", LARGE))
        await asyncio.sleep(0)
        cancelled.cancel()
        await event_log._writer._idle.wait()
        await empty_disk(event_log)
        with pytest.raises(ServiceError):
            await event_log.append("st_1", [END])
        await event_log.append("st_1", [END])

        assert [START, END] == await read_all(event_log, "st_1")


async def test_damaged_page_is_told(path):
    async with opened(path) as event_log:
        await filled(event_log, [START, END])
    run_sql(path, "UPDATE pages SET events = x'7b'")
    async with opened(path) as event_log:
        with pytest.raises(ServiceError, match="could not be read"):
            await event_log.read("st_1", 0, timeout_s=0)


async def test_start_of_a_stream_with_a_key_outlasts_a_loss_of_power(path, clock):
    """`synchronous = NORMAL` alone would leave it to the next checkpoint to have it on the disk."""
    async with opened(path, wall=clock) as event_log:
        levels: list[tuple[int, int]] = []

        async def append(stream: str, events: list[Event]) -> None:
            await event_log.append(stream, events)
            levels.append((await on_file(event_log, "PRAGMA synchronous"), len(events)))

        await create(event_log, "st_1", key="key", digest="d")
        await append("st_1", [START])
        await append("st_1", [*many(3), END])
        await create(event_log, "st_2")
        await append("st_2", [START])

        assert [(2, 1), (1, 4), (1, 1)] == levels  # FULL and NORMAL


async def test_request_survives_a_restart_and_counts_after_it(path, clock):
    async with opened(path, wall=clock) as event_log:
        for stream, end in (("st_1", [END]), ("st_2", [])):  # which the restart ends
            await create(event_log, stream, request=b"x" * 1000)
            await event_log.append(stream, [START, *end])
    async with opened(path, wall=clock) as event_log:
        for stream in ("st_1", "st_2"):
            assert b"x" * 1000 == (await event_log.info(stream)).request
        assert 2000 < event_log._owner.file_size < 3000
        await event_log.delete("st_1")
        await event_log.delete("st_2")
        assert 0 == event_log._owner.file_size
        await event_log.sweep()

        assert 0 == await on_file(event_log, "SELECT count(*) FROM infos")

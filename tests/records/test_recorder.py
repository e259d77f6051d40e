"""Every row is written once, whoever dies when; what cannot be written holds nothing up."""

import asyncio
import json
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import structlog
from sqlalchemy.exc import IntegrityError

from app.records import address as address_module
from app.records import recorder as recorder_module
from app.records.address import Address
from app.records.database import Database
from app.records.recorder import Recorder
from app.telemetry.row import pack_row
from tests.postgres_server import postgres_server
from tests.records.kept import KeptRows, check_sums, make_row, recorded
from tests.redis_server import Wire, wire_to
from tests.waiting import until

PROVING = pytest.mark.proving
STEPS = ("read", "inserted", "added up", "committed", "forgotten")


@asynccontextmanager
async def recording(kept: KeptRows, database: Database) -> AsyncIterator[Recorder]:
    recorder = Recorder(kept, database)
    await recorder.open()
    try:
        yield recorder
    finally:
        await recorder.close()


def has_written(recorder: Recorder, least: int) -> bool:
    return recorder.state.written >= least


async def test_killed_between_two_steps_it_writes_each_row_once(database, url, tmp_path):
    cases = [*(f"{step}:1" for step in STEPS), "committed:2"]
    names = [[f"st_{case}_{row:03}" for row in range(150)] for case in range(len(cases))]
    waiting = [KeptRows(tmp_path / f"{number}") for number in range(len(cases))]
    for kept, own in zip(waiting, names, strict=True):
        kept.keep([make_row(name, user=f"u{n % 3}") for n, name in enumerate(own)])
    command = [sys.executable, "-m", "tests.records.dying", url, tmp_path, *cases]
    done = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE)

    assert [-signal.SIGKILL] * len(cases) == json.loads(done.stdout)
    for kept in waiting:
        await Recorder(kept, database)._write_waiting()
        assert [] == await kept.rows(limit=1)
    assert sum(names, []) == [row["stream"] for row in await recorded(database)]  # noqa: RUF017
    await check_sums(database)


async def test_two_who_write_the_same_rows_write_each_once(database, url, tmp_path):
    rows = [make_row(f"st_{number:03}", user=f"u{number % 5}") for number in range(400)]
    ones = [KeptRows(tmp_path / f"kept{number}") for number in range(3)]
    for one in ones:
        one.keep(rows)
    others = [Database(Address(url)) for _ in ones]
    writers = [Recorder(one, other) for one, other in zip(ones, others, strict=True)]

    await asyncio.gather(*(writer._write_waiting() for writer in writers))

    assert 400 == len(await recorded(database))
    assert 400 == sum(writer.state.written for writer in writers)
    await check_sums(database)
    for other in others:
        await other.close()


async def test_stop_while_rows_are_written_lets_them_be_written(database, tmp_path):
    """A statement that is cancelled keeps the lock on a SQLite file."""
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row(f"st_{number:03}") for number in range(30)])
    done: list[str] = []
    closing: list[asyncio.Task[None]] = []

    def on_step(step: str) -> None:
        done.append(step)
        if step == "inserted":
            closing.append(asyncio.create_task(recorder.close()))

    recorder = Recorder(kept, database, steps=on_step)
    await recorder.open()
    await until(lambda: bool(closing))
    await closing[0]

    assert [*STEPS] == done
    assert 30 == recorder.state.written == len(await recorded(database))


async def test_what_cannot_be_read_is_dropped_and_told(database, tmp_path):
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row("st_a"), make_row("st_b", started_at=float("nan")), make_row("st_c")])
    bad = {"st_bad": b"no row", "st_cut": pack_row(make_row("st_cut"))[:40]}
    kept._save({**kept._load(), **bad, "st_text": b"\x81\xa6target\xa1\xff"})

    with structlog.testing.capture_logs() as lines:
        async with recording(kept, database) as recorder:
            await until(lambda: recorder.state.written == 2)

    assert ["st_a", "st_c"] == [row["stream"] for row in await recorded(database)]
    assert 4 == recorder.state.dropped
    assert {"st_b", "st_bad", "st_cut", "st_text"} == {
        line["stream"] for line in lines if "stream" in line
    }
    assert [] == await kept.rows(limit=1)


async def test_longest_names_fit_and_nul_is_replaced(database, tmp_path):
    kept = KeptRows(tmp_path / "kept")
    texts = {"route": "x\0" + "長" * 253, "target": "x\0" + "長" * 510}
    texts |= dict.fromkeys(("model", "answered_model"), texts["route"])
    kept.keep([make_row("st_a", **texts), make_row("st_b", **texts)])

    async with recording(kept, database) as recorder:
        await until(lambda: recorder.state.written == 2)

    [row, _] = await recorded(database)
    for name, text in texts.items():
        assert row[name] == text.replace("\0", "\ufffd")
    await check_sums(database)


async def test_row_that_the_database_refuses_does_not_hold_up_others(
    database, tmp_path, monkeypatch
):
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row(f"st_{number}") for number in range(9)])
    insert = Database._insert

    async def refuse(self, connection, rows):
        if any(row["stream"] == "st_4" for row in rows):
            raise IntegrityError("INSERT", None, ValueError("no such thing"))
        return await insert(self, connection, rows)

    monkeypatch.setattr(Database, "_insert", refuse)

    with structlog.testing.capture_logs() as lines:
        async with recording(kept, database) as recorder:
            await until(lambda: recorder.state.written == 8)

    assert ["st_4"] == [line["stream"] for line in lines if "stream" in line]
    assert 8 == len(await recorded(database))
    await check_sums(database)


def url_of(wire: Wire) -> str:
    return f"postgresql://postgres:s3cret-w0rd@127.0.0.1:{wire.port}/test"


@PROVING
async def test_rows_wait_while_postgres_is_away_and_it_is_told_once(
    postgres, tmp_path, monkeypatch
):
    monkeypatch.setattr(recorder_module, "PAUSE_MOST_S", 0.2)
    postgres.empty()
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row("st_before")])
    with structlog.testing.capture_logs() as lines:
        async with (
            wire_to(postgres.port) as wire,
            recording(kept, Database(Address(url_of(wire)))) as recorder,
        ):
            await until(lambda: recorder.state.written == 1)
            wire.cut()
            kept.keep([make_row(f"st_{number}") for number in range(20)])
            recorder._wake.set()
            await until(lambda: recorder.state.failures > 2)
            away = recorder.state.away_since
            wire.mend()
            await until(lambda: recorder.state.written == 21)

    assert away is not None
    assert recorder.state.away_since is None
    told = [line["event"] for line in lines if "written" in line["event"]]
    assert ["records cannot be written; streams go on, their rows wait in the log"] == told[:1]
    assert ["records are written again"] == told[1:]
    assert "s3cret-w0rd" not in json.dumps(lines)
    plain = Database(Address(postgres.url))
    await check_sums(plain)
    await plain.close()


@PROVING
async def test_postgres_killed_under_load_loses_and_doubles_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder_module, "PAUSE_MOST_S", 0.2)
    kept = KeptRows(tmp_path / "kept")
    with postgres_server() as server:
        async with recording(kept, Database(Address(server.url))) as recorder:
            for turn in range(4):
                kept.keep([make_row(f"st_{turn}_{number}") for number in range(300)])
                recorder._wake.set()
                least = 300 * turn + 1
                await until(partial(has_written, recorder, least))
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await until(lambda: not kept._load(), limit_s=40)

        again = Database(Address(server.url))
        assert 1200 == len(await recorded(again))
        await check_sums(again)
        await again.close()


async def test_sqlite_file_that_is_locked_for_long_holds_up_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder_module, "PAUSE_MOST_S", 0.2)
    monkeypatch.setattr(recorder_module, "STEP_S", 0.3)
    monkeypatch.setattr(address_module, "BUSY_S", 1)
    path = tmp_path / "records.db"
    database = Database(Address(f"sqlite:///{path}"))
    await database.migrate()
    kept = KeptRows(tmp_path / "kept")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    kept.keep([make_row("st_a")])

    async with recording(kept, database) as recorder:
        await until(lambda: recorder.state.failures > 0)
        other.execute("ROLLBACK")
        # It may have been written by an attempt whose time was over before that was known.
        await until(lambda: [(1,)] == other.execute("SELECT count(*) FROM streams").fetchall())
    other.close()

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)


@PROVING
async def test_what_cannot_be_written_at_the_end_stays_in_the_log(postgres, tmp_path, monkeypatch):
    monkeypatch.setattr("app.records.recorder.LAST_S", 1)
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row("st_a")])

    with structlog.testing.capture_logs() as lines:
        async with asyncio.timeout(60), wire_to(postgres.port) as wire:
            wire.hang()
            async with recording(kept, Database(Address(url_of(wire)))):
                await until(lambda: wire.connections)

    assert 1 == len(await kept.rows(limit=9))
    assert any("stay in the log" in line["event"] for line in lines)


async def test_rows_that_wait_are_written_when_it_stops(database, tmp_path):
    kept = KeptRows(tmp_path / "kept")
    recorder = Recorder(kept, database)
    await recorder.open()
    kept.keep([make_row(f"st_{number}") for number in range(250)])
    await recorder.close()

    assert [] == await kept.rows(limit=1)
    assert 250 == len(await recorded(database))

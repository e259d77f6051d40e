"""SQLite logs of earlier formats are carried on; those of later ones are refused with a remedy."""

import contextlib
import sqlite3

import pytest
from structlog.testing import capture_logs

from app.eventlog.contract import Claim, LogUnusable
from app.eventlog.listing import ListPosition
from app.eventlog.sqlite import schema
from app.eventlog.stream_info import scoped
from app.events import StreamEnd, TextDelta
from tests.eventlog.accounts_contract import closing, state_of
from tests.eventlog.creating import create
from tests.eventlog.files import opened, run_sql
from tests.eventlog.redis_logs import read_to_end
from tests.upgrades.make import FORMATS, ROW, clock, end_of, load

FIXTURES = sorted(FORMATS.glob("sqlite-*.sql"))


def open_at(path):
    return opened(path, wall=clock, close=closing)


def test_every_format_has_a_fixture():
    known = {int(file.stem.partition("-")[2]) for file in FIXTURES}
    assert {*schema.STEPS, schema.VERSION} == known


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda file: file.stem)
async def test_nothing_of_an_earlier_format_is_lost(tmp_path, fixture):
    async with open_at(load(tmp_path / "log.db", fixture)) as event_log:
        rows = await event_log.rows(limit=9)
        assert ("st_done", ROW) == rows[0]
        assert ["st_done", "st_runs"] == [stream for stream, _ in rows]
        assert Claim("st_done", "d") == await event_log.claimed(scoped("acme/ann", "k"))
        for name in ("relay", "user:acme:ann"):
            state = await state_of(event_log, name)
            assert (0, 2, 0) == (state.running, state.day.requests, state.day.held_nano_usd)
            assert 1500 < state.month.nano_usd == state.day.nano_usd
        ended = await read_to_end(event_log, "st_done")
        assert (TextDelta(0, "hello"), "completed") == (ended[1], end_of(ended).status)
        ended = await read_to_end(event_log, "st_runs")
        assert (TextDelta(0, "hal"), "interrupted") == (ended[1], end_of(ended).status)
        await create(event_log, "st_new", owner="acme/ann")
        listed = [*await event_log.list_streams("acme/ann", ListPosition(), limit=9)]
        listed += await event_log.list_streams("acme/ann", ListPosition(ended=True), limit=9)
        assert ["st_new", "st_runs", "st_done"] == [one.stream for one in listed]
        places = [one.position.at for one in listed]
        assert places == sorted({*places}, reverse=True)


def add_column(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE accounts ADD COLUMN note TEXT")


def drop_streams(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM streams WHERE id NOT IN (SELECT stream FROM idempotency_keys)")


def fail(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM accounts")
    raise sqlite3.OperationalError("disk I/O error")


@pytest.fixture
def later(monkeypatch):
    """A version whose format is two steps later."""

    def later_by(*steps):
        numbered = {schema.VERSION + number: step for number, step in enumerate(steps)}
        monkeypatch.setattr(schema, "STEPS", schema.STEPS | numbered)
        monkeypatch.setattr(schema, "VERSION", schema.VERSION + len(steps))

    return later_by


@pytest.fixture
def old(tmp_path):
    return load(tmp_path / "log.db", FORMATS / f"sqlite-{schema.VERSION}.sql")


async def test_steps_are_one_transaction_and_said_in_one_line(old, later):
    written, before = schema.VERSION, tables(old)
    later(lambda connection: connection.execute("CREATE TABLE added (x)"), drop_streams)
    with capture_logs() as lines:
        async with open_at(old) as event_log:
            assert ["st_done"] == [stream for stream, _ in await event_log.rows(limit=9)]
            assert Claim("st_done", "d") == await event_log.claimed(scoped("acme/ann", "k"))
            assert isinstance((await read_to_end(event_log, "st_done"))[-1], StreamEnd)
            state = await state_of(event_log, "user:acme:ann")
    # What the dropped stream had reserved is free again.
    assert (0, 0, 1500) == (state.running, state.day.held_nano_usd, state.day.nano_usd)
    told = [line for line in lines if line["event"].startswith("event log upgraded")]
    assert [(written, written + 2, 1)] == [
        (line["from_format"], line["to_format"], line["streams_dropped"]) for line in told
    ]
    # `queued_rows` came without a new format: every version makes it that knows it.
    assert tables(old) == before | {"added", "queued_rows"}


async def test_step_that_fails_leaves_the_file_as_it_was(old, later):
    written, before = schema.VERSION, content(old)
    later(add_column, fail)
    with pytest.raises(LogUnusable, match="it cannot be used: disk I/O error"):
        async with open_at(old):
            pass
    assert before == content(old)
    assert written == version(old)


async def test_older_version_says_what_to_do_about_a_newer_file(old):
    run_sql(old, f"PRAGMA user_version = {schema.VERSION + 1}")
    before = content(old)
    with pytest.raises(LogUnusable) as caught:
        async with open_at(old):
            pass
    assert str(caught.value) == (
        f"{old}: it was written by a newer version of seseragi (format {schema.VERSION + 1}, this "
        f"one reads {schema.VERSION}); use that version, or your copy of before the upgrade, or "
        "another file"
    )
    assert before == content(old)


async def test_format_without_a_step_is_refused(old, later):
    later(add_column)
    run_sql(old, "PRAGMA user_version = 7")
    with pytest.raises(LogUnusable, match="an older version of seseragi"):
        async with open_at(old):
            pass


def tables(path):
    return {row[0] for row in query(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def version(path):
    return query(path, "PRAGMA user_version")[0][0]


def content(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def query(path, statement):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()

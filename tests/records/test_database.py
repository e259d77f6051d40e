"""The tables: made once, by whom ever; cleaned up; users erased while others write."""

import asyncio
import secrets
from datetime import timedelta

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import select, text

from app.records import database as database_module
from app.records.address import Address, RecordsRefused
from app.records.database import Database, UnknownSchema, erase
from app.records.recorder import Recorder
from app.records.schema import HEAD, day_of, erased, metadata, rollups, streams, today, values_of
from app.telemetry.row import StreamRow
from tests.records.kept import AT, KeptRows, check_sums, make_row, recorded, write
from tests.waiting import until

DAY = 86_400


def script() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", "app/records/migrations")
    return ScriptDirectory.from_config(config)


def test_newest_migration_is_the_one_that_the_code_is_for():
    assert [HEAD] == script().get_heads()


async def test_migrations_make_what_the_code_expects(database):
    def compare(connection):
        return compare_metadata(MigrationContext.configure(connection), metadata)

    async with database.reading() as connection:
        assert [] == [
            change
            for change in await connection.run_sync(compare)
            if "streams_2" not in str(change)  # partitions
        ]


def test_every_field_of_a_row_has_its_column():
    assert set(StreamRow.__struct_fields__) | {"day"} == set(streams.c.keys())


async def test_many_that_start_together_make_the_tables_once(url):
    ones = [Database(Address(url)) for _ in range(8)]

    await asyncio.gather(*(one.migrate() for one in ones))

    for number, one in enumerate(ones):
        assert 1 == await write(one, make_row(f"st_{number}"))
    assert 8 == len(await recorded(ones[0]))
    for one in ones:
        await one.close()


async def test_rows_of_an_older_version_stay(url, monkeypatch):
    monkeypatch.setattr(database_module, "HEAD", "0001")
    database = Database(Address(url))
    await database.migrate()
    row = values_of(make_row("st_1"))
    del row["ended_by"]
    await database._make_partitions([row["day"]])
    async with database.writing() as connection:
        await connection.execute(streams.insert().values(row))
    monkeypatch.undo()
    await database.migrate()
    await write(database, make_row("st_2", ended_by="user"))

    assert {"st_1": None, "st_2": "user"} == {
        one["stream"]: one["ended_by"] for one in await recorded(database)
    }
    await database.close()


async def test_database_of_a_newer_version_is_left_alone(database):
    async with database.writing() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(UnknownSchema, match="newer version"):
        await database.migrate()


async def test_database_of_another_application_is_left_alone(url):
    database = Database(Address(url))
    async with database.writing() as connection:
        await connection.execute(text("CREATE TABLE streams (a INTEGER)"))

    with pytest.raises(UnknownSchema, match="use a database of its own"):
        await database.migrate()
    await database.close()


async def test_old_rows_go_and_sums_stay(database):
    now = (today() - day_of(0)).days * DAY + 1000.0
    for age in (0, 10, 39, 100, 400):
        rows = [make_row(f"st_{age}_{number}", started_at=now - age * DAY) for number in range(250)]
        await write(database, *rows)

    await database.clean(40)

    left = {row["day"] for row in await recorded(database)}
    assert {today() - timedelta(days=age) for age in (0, 10, 39)} <= left
    # Whole months go where there are partitions.
    assert today() - timedelta(days=100) not in left
    async with database.reading() as connection:
        sums = list(await connection.execute(select(rollups.c.requests)))
    assert [250] * 5 == [requests for (requests,) in sums]


async def test_a_month_that_was_dropped_elsewhere_is_made_again(database, url, tmp_path):
    old = make_row("st_old", started_at=AT - 200 * DAY)
    await write(database, old)
    other = Database(Address(url))
    await other.clean(30)
    kept = KeptRows(tmp_path / "kept")
    kept.keep([make_row("st_late", started_at=AT - 200 * DAY), make_row("st_new")])

    await Recorder(kept, database)._write_waiting()

    assert ["st_late", "st_new"] == [row["stream"] for row in await recorded(database)]
    await other.close()


async def test_nothing_is_dropped_where_all_is_kept(database):
    await write(database, make_row("st_old", started_at=AT - 2000 * DAY))

    await database.clean(0)

    assert 1 == len(await recorded(database))


async def test_rows_of_an_erased_user_that_come_late_or_again_tell_nothing(database):
    written, waiting = make_row("st_written"), make_row("st_waiting", request_id="req_late")
    later = make_row("st_later", started_at=AT + 200, ended_at=AT + 300)
    await write(database, written)

    async with database.writing(alone=True) as connection:
        assert 1 == await erase(connection, "acme", "ann", at=AT + 100)
    count = await write(database, written, waiting, later)

    assert 2 == count
    rows = await recorded(database)
    assert ["ann"] == [row["user"] for row in rows if not row["user"].startswith("erased-")]
    assert ["st_later"] == [row["stream"] for row in rows if row["stream"].startswith("st_")]
    assert "req_late" not in str(rows)
    await check_sums(database)


async def test_erasing_while_others_write_keeps_every_sum(database, url):
    writers = [Database(Address(url)) for _ in range(2)]
    total = 0

    async def keep_writing(writer: Database) -> None:
        nonlocal total
        for _ in range(15):
            rows = [
                make_row(f"st_{secrets.token_hex(4)}", user=user) for user in ("ann", "bob") * 10
            ]
            written = await write(writer, *rows)
            total += written

    erasing = Database(Address(url))

    async def erase_often() -> None:
        for turn in range(4):
            least = 140 * turn
            await until(lambda: total > least)  # noqa: B023  (it is awaited here)
            await erasing.erase("acme", "ann")

    await asyncio.gather(*(keep_writing(writer) for writer in writers), erase_often())

    rows = await recorded(database)
    assert total == len(rows) == 600
    assert 300 == sum(row["user"] == "bob" for row in rows)
    await check_sums(database)
    for one in (*writers, erasing):
        await one.close()


async def test_erasing_of_many_streams_takes_all_sums(database):
    await write(
        database, *(make_row(f"st_{number}", key=f"k{number % 3}") for number in range(450))
    )

    assert 450 == await database.erase("acme", "ann")
    assert 0 == await database.erase("acme", "ann")

    assert {"erased-"} == {row["user"][:7] for row in await recorded(database)}
    await check_sums(database)


async def test_what_was_erased_is_remembered_for_a_while_only(database, monkeypatch):
    await write(database, make_row("st_a"))
    await database.erase("acme", "ann")
    monkeypatch.setattr(database_module, "ERASED_DAYS", -1)

    await database.clean(0)

    async with database.reading() as connection:
        assert not list(await connection.execute(select(erased)))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://h/d", "use 'sqlite:///PATH'"),
        ("sqlite://", "use 'sqlite:///PATH'"),
        ("sqlite:///:memory:", "use 'sqlite:///PATH'"),
        ("postgresql://h", "names no database"),
        ("postgresql://h/d?sslrootcert=/none", "sslrootcert: the file '/none' does not exist"),
        ("postgresql://h:port/d", "use 'sqlite:///PATH'"),
    ],
)
def test_url_that_cannot_be_used_is_refused_in_one_line(url, told):
    with pytest.raises(RecordsRefused, match=told):
        Address(url)


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("app.records.address.find_spec", lambda name: None)

    with pytest.raises(RecordsRefused, match=r"asyncpg is not installed; .* '\.\[postgresql\]'"):
        Address("postgresql://h/d")
    with pytest.raises(RecordsRefused, match=r"aiosqlite is not installed; .* '\.\[records\]'"):
        Address("sqlite:///r.db")


def test_no_password_is_shown():
    address = Address("postgresql://me:s3cret%40word@db:5433/x?sslmode=require")

    assert "postgresql://me:***@db:5433/x" == str(address)
    assert "auth failed for ***" == address.without_password("auth failed for s3cret@word")

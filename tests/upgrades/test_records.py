"""Records of earlier schemas are upgraded by relays only; commands say what to do."""

import sqlite3

import pytest
from sqlalchemy import select

from app.records.address import Address
from app.records.database import Database, UnknownSchema
from app.records.schema import HEAD, streams
from tests.records.test_command import records
from tests.upgrades.make import FORMATS, dump, load

FIXTURES = sorted(FORMATS.glob("records-*.sql"))


@pytest.fixture(params=FIXTURES, ids=lambda file: file.stem)
def path(request, tmp_path):
    return load(tmp_path / "records.db", request.param)


async def test_relay_upgrades_records_and_keeps_their_rows(path):
    database = Database(Address(f"sqlite:///{path}"))
    await database.migrate()
    await database.check()
    async with database.reading() as connection:
        rows = (await connection.execute(select(streams.c.stream, streams.c.nano_usd))).all()
    await database.close()
    assert {("st_old", 1500)} == {tuple(row) for row in rows if row.stream == "st_old"}
    assert 2 == len(rows)


def test_commands_read_the_records_of_this_schema_without_changing_them(path):
    before = dump(path)
    printed, _ = records("list", url=f"sqlite:///{path}")
    assert "st_old" in printed
    assert before == dump(path)


@pytest.mark.parametrize(
    "action", [("list",), ("--by", "user"), ("erase", "--user", "ann", "--yes")]
)
@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("0001", f"the schema is 0001, this version reads {HEAD}: start a relay of this version"),
        ("9999", "the schema is that of a newer version"),
    ],
)
def test_commands_never_migrate(tmp_path, action, found, told):
    path = load(tmp_path / "records.db", FORMATS / f"records-{HEAD}.sql")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (found,))
        if found == "0001":
            connection.execute("ALTER TABLE streams DROP COLUMN ended_by")
    connection.close()
    before = dump(path)
    _, said = records(*action, url=f"sqlite:///{path}", status=2)
    assert told in said
    assert 1 == len(said.splitlines())
    assert before == dump(path)


async def test_older_relay_refuses_a_newer_schema_and_changes_nothing(tmp_path):
    path = load(tmp_path / "records.db", FORMATS / f"records-{HEAD}.sql")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    before, database = dump(path), Database(Address(f"sqlite:///{path}"))
    with pytest.raises(UnknownSchema, match="upgrade, or use a database of its own"):
        await database.migrate()
    await database.close()
    assert before == dump(path)

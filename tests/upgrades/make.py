"""Fixtures of the formats on disk and in Redis, as the code of one commit writes them.

`python -m tests.upgrades.make FOLDER` writes those of the working tree, and is run before a format
changes: the files of earlier formats in `formats/` are never made again.
"""

import asyncio
import base64
import json
import sqlite3
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis

from app.events import Event, StreamEnd, StreamStart, TextDelta
from app.identity.config import KeyConfig
from app.identity.keys import digest
from app.identity.keys_file import KeysFile, change_keys_file
from app.ledger.accounts import Account, ReservationRequest, Settlement
from app.ledger.config import UsageLimits
from app.records.address import Address
from app.records.database import Database
from app.telemetry.row import pack_row
from tests.eventlog.accounts_contract import AT, asking, info
from tests.records.kept import make_row, write

FORMATS = Path(__file__).parent / "formats"

KEY = "ssk_a-key-of-the-fixture"
SIGNING_KEY = "the signing key of the fixture: no secret"

RELAY, ANN = Account("relay"), Account("user:acme:ann", nano_usd_per_day=2500)
ROW = pack_row(make_row("st_done", started_at=AT, ended_at=AT + 1))
SPENT = Settlement(10, 20, 1500, row=ROW)


def request() -> ReservationRequest:
    return asking(RELAY, ANN)


def clock() -> float:
    return AT


async def fill(event_log: Any) -> None:
    """Leave an ended stream with a key and a row, and one that runs."""
    owned = {"owner": "acme/ann", "key": "k", "digest": "d", "names": ("a chat",)}
    await event_log.create(info("st_done", request(), **owned))
    await event_log.append("st_done", [StreamStart("st_done", "demo", 0), TextDelta(0, "hello")])
    await event_log.append("st_done", [StreamEnd("completed", "stop")], SPENT)
    await event_log.create(info("st_runs", request(), owner="acme/ann"))
    await event_log.append("st_runs", [StreamStart("st_runs", "demo", 0), TextDelta(0, "hal")])


def dump(path: Path) -> str:
    """Return a SQLite file as statements."""
    connection = sqlite3.connect(path)
    lines = [
        f"PRAGMA {name} = {connection.execute(f'PRAGMA {name}').fetchone()[0]};"
        for name in ("application_id", "user_version")
    ]
    lines += connection.iterdump()
    connection.close()
    return "\n".join(lines) + "\n"


def load(path: Path, dumped: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(dumped.read_text())
    connection.close()
    return path


def end_of(events: list[Event]) -> StreamEnd:
    assert isinstance(events[-1], StreamEnd)
    return events[-1]


async def make_sqlite(folder: Path) -> None:
    from app.eventlog.sqlite.schema import VERSION
    from tests.eventlog.files import opened

    path = folder / "log.db"
    async with opened(path, wall=clock) as event_log:
        await fill(event_log)
    (folder / f"sqlite-{VERSION}.sql").write_text(dump(path))
    path.unlink()


async def make_redis(folder: Path) -> None:
    from tests.eventlog.redis_logs import opened
    from tests.redis_server import redis_server

    with redis_server(folder) as server:
        async with opened(server.url, wall=clock) as event_log:
            await fill(event_log)
            commands = await read_redis(server.url)
    lines = [json.dumps([base64.b64encode(word).decode() for word in one]) for one in commands]
    (folder / "redis-1.jsonl").write_text("\n".join(lines) + "\n")


async def read_redis(url: str) -> list[list[bytes]]:
    """Return the commands that write what this Redis has, in the order of its keys."""
    found: list[list[bytes]] = []
    client: Any
    async with Redis.from_url(url) as client:
        for key in sorted(await client.keys("*")):
            match await client.type(key):
                case b"string":
                    found.append([b"SET", key, await client.get(key)])
                case b"hash":
                    fields = await client.hgetall(key)
                    found.append(
                        [b"HSET", key, *(word for pair in fields.items() for word in pair)]
                    )
                case b"set":
                    found.append([b"SADD", key, *sorted(await client.smembers(key))])
                case b"zset":
                    pairs = await client.zrange(key, 0, -1, withscores=True)
                    words = [word for one, score in pairs for word in (b"%.17g" % score, one)]
                    found.append([b"ZADD", key, *words])
                case b"stream":
                    for entry, fields in await client.xrange(key):
                        words = [word for pair in fields.items() for word in pair]
                        found.append([b"XADD", key, entry, *words])
                case other:
                    raise ValueError(f"{key!r} is a {other!r}: write how to dump it")
    return found


async def load_redis(url: str, dumped: Path) -> None:
    async with Redis.from_url(url) as client:
        for line in dumped.read_text().splitlines():
            await client.execute_command(*map(base64.b64decode, json.loads(line)))


async def make_records(folder: Path) -> None:
    from app.records.schema import HEAD

    path = folder / "records.db"
    database = Database(Address(f"sqlite:///{path}"))
    await database.migrate()
    await write(database, make_row("st_old"), make_row("st_bob", user="bob"))
    await database.erase("acme", "bob")
    await database.close()
    (folder / f"records-{HEAD}.sql").write_text(dump(path))
    path.unlink()


def make_keys(folder: Path) -> None:
    key = KeyConfig(
        name="web",
        sha256=digest(KEY),
        tenant="acme",
        models=("demo*",),
        roles=("client_secrets",),
        limits=UsageLimits(usd_per_day=1),
        created_at="2026-11-28T00:00:00Z",
    )
    file = KeysFile(
        signing_key=SIGNING_KEY,
        keys=(
            key,
            msgspec.structs.replace(
                key, name="idle", sha256=digest("idle"), expires_at="2026-11-29T00:00:00Z"
            ),
        ),
    )
    change_keys_file(folder / "keys-1.json", lambda _: file)


def make(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(make_sqlite(Path(made)))
        asyncio.run(make_redis(Path(made)))
        asyncio.run(make_records(Path(made)))
        make_keys(Path(made))
        for file in Path(made).glob("*-*.*"):
            (folder / file.name).write_bytes(file.read_bytes())


if __name__ == "__main__":
    make(Path(sys.argv[1]))

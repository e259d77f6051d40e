"""Logs over SQLite files: opened for one process's life, their disks full, their tables changed."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from app.eventlog.sqlite.log import SqliteLog
from tests.eventlog.creating import take_callbacks

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def opened(path: Path, **arguments: Any):
    """The log of one process's life, with the arguments of the log and of its `open`."""
    callbacks = take_callbacks(arguments)
    event_log = SqliteLog(path, **{"retention_s": 100, "max_bytes": 10**9, **arguments})
    await event_log.open(**callbacks)
    try:
        yield event_log
    finally:
        await event_log.close()


async def on_file(event_log: SqliteLog, statement: str) -> Any:
    """Run a statement where the file is open."""
    connection = event_log._database._connection
    return await event_log._writer.read(lambda: connection.execute(statement).fetchone()[0])


async def fill_disk(event_log: SqliteLog) -> None:
    await on_file(event_log, "PRAGMA max_page_count = 1")  # as many as there are


async def empty_disk(event_log: SqliteLog) -> None:
    await on_file(event_log, "PRAGMA max_page_count = 1000000")


def fail_next(event_log: SqliteLog) -> None:
    """Fail the transaction of what is done next."""
    event_log._writer.submit(lambda: 1 / 0, lambda *_: None)


def run_sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@contextmanager
def process(module: str, path: Path, *arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """Run a module of this folder over a file, and kill it at the end."""
    command = [sys.executable, "-m", f"tests.eventlog.{module}", str(path), *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()

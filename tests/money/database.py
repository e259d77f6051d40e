"""The rows of the relays' books as the records' database has them."""

import asyncio

import msgspec

from app.records.address import Address
from app.records.database import Database
from app.telemetry.row import StreamRow
from tests.money.served import Books
from tests.postgres_server import PostgresServer
from tests.records.kept import check_sums, recorded


async def recorded_books(books: Books, server: PostgresServer, *, within_s: float) -> Books:
    """Return books with the rows of the database, once it has as many as the relay's account.

    Relays that have found it away wait for a while before they try again. The sums of the
    database are those of its rows.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    database = Database(Address(server.url))
    try:
        while True:
            found = await recorded(database)
            if len(found) >= books.accounts["relay"].month.requests or loop.time() > deadline:
                break
            await asyncio.sleep(0.3)
        await check_sums(database)
    finally:
        await database.close()
    rows = [(row["stream"], _row_of(row)) for row in found]
    return msgspec.structs.replace(books, rows=rows)


def _row_of(columns: dict[str, object]) -> StreamRow:
    fields = {name: columns[name] for name in StreamRow.__struct_fields__ if name in columns}
    return msgspec.convert(fields | {"content": b""}, StreamRow)

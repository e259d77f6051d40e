"""The relays' books: accounts as an admin is told of them, rows as the records have them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import httpx2
import msgspec
from sqlalchemy.exc import OperationalError

from app.ledger.accounts import AccountState, Period
from app.ledger.rates import to_nano
from app.records.address import Address
from app.records.database import Database
from app.telemetry.row import StreamRow
from tests.money.company import ACCOUNTS, ADMIN
from tests.records.kept import check_sums, recorded
from tests.replicas.processes import Replica


class Books(msgspec.Struct):
    """What relays have in their books."""

    accounts: dict[str, AccountState]
    rows: list[tuple[str, StreamRow]]
    """Each with the stream that it was kept for."""


async def quiet_books(
    client: httpx2.AsyncClient, replicas: Sequence[Replica], records: str, *, within_s: float
) -> Books:
    """Return the books when nothing runs or is held any more, or that has taken too long.

    Then the records have as many rows as the relay's account has streams, or are waited for:
    relays that have found the database away wait for a while before they try again.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        await asyncio.sleep(0.1)
        try:
            accounts = {name: await _ask(client, replicas[0], name) for name in ACCOUNTS}
        except httpx2.HTTPError:  # it is just being started again, or finds its log again
            if loop.time() > deadline:
                raise
        else:
            if not held(accounts) or loop.time() > deadline:
                break
    deadline = loop.time() + within_s
    database = Database(Address(records))
    try:
        while True:
            try:
                rows = await recorded(database)
            except OperationalError:  # a busy relay has not made the tables yet
                if loop.time() > deadline:
                    raise
            else:
                if len(rows) >= accounts["relay"].month.requests or loop.time() > deadline:
                    break
            await asyncio.sleep(0.1)
        await check_sums(database)
    finally:
        await database.close()
    return Books(accounts, [(row["stream"], _row_of(row)) for row in rows])


def held(accounts: Mapping[str, AccountState]) -> list[str]:
    """Return what accounts still hold, in words."""
    return [
        f"{name} holds {state.running} streams, {state.day.held_nano_usd} nano-USD of its day, "
        f"{state.month.held_nano_usd} of its month"
        for name, state in accounts.items()
        if state.running or state.day.held_nano_usd or state.month.held_nano_usd
    ]


async def _ask(client: httpx2.AsyncClient, replica: Replica, name: str) -> AccountState:
    """Ask for an account, in `GET /v1/usage`."""
    reply = await client.get(f"{replica.url}/v1/usage", params=_query(name), headers=ADMIN.headers)
    reply.raise_for_status()
    usage = reply.json()
    return AccountState(usage["streams"], _period(usage["today"]), _period(usage["month"]))


def _query(name: str) -> dict[str, str]:
    kind, *parts = map(unquote, name.split(":"))
    match kind:
        case "relay":
            return {}
        case "user":
            return {"tenant": parts[0], "user": parts[1]}
        case _:
            return {kind: parts[0]}


def _period(told: dict[str, Any]) -> Period:
    return Period(
        requests=told["requests"],
        input_tokens=told["input_tokens"],
        output_tokens=told["output_tokens"],
        nano_usd=to_nano(told["cost"]),
        unpriced=told["unpriced"],
        held_nano_usd=to_nano(told["held"]),
    )


def _row_of(columns: dict[str, object]) -> StreamRow:
    fields = {name: columns[name] for name in StreamRow.__struct_fields__ if name in columns}
    return msgspec.convert(fields | {"content": b""}, StreamRow)

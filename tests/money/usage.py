"""The accounts of the relays' books as an admin is told of them, in `GET /v1/usage`."""

from typing import Any
from urllib.parse import unquote

import httpx2
import msgspec

from app.ledger.accounts import AccountState, Period
from app.ledger.money import to_nano
from tests.money.company import ADMIN
from tests.money.served import Books
from tests.replicas.processes import Replica


async def told_books(client: httpx2.AsyncClient, replica: Replica, books: Books) -> Books:
    """Return books with the accounts that a relay tells its admin of."""
    told: dict[str, AccountState] = {}
    for name in books.accounts:
        reply = await client.get(
            f"{replica.url}/v1/usage", params=_query(name), headers=ADMIN.headers
        )
        reply.raise_for_status()
        usage = reply.json()
        told[name] = AccountState(
            usage["streams"], _period(usage["today"]), _period(usage["month"])
        )
    return msgspec.structs.replace(books, accounts=told)


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
        0,
        told["requests"],
        told["input_tokens"],
        told["output_tokens"],
        to_nano(told["cost"]),
        told["unpriced"],
        to_nano(told["held"]),
    )

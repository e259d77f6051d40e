"""The relay's command with limits and prices from `ledger.json`, and its books on a page.

python -m tests.money.served --log URL

`GET /-/books?name=ACCOUNT&name=...` gives those accounts and all rows that the log keeps.
"""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import app.__main__ as command
import app.asgi
import app.composition
from app.errors import RelayError
from app.generation.accounting import Accounting
from app.generation.hub import Hub
from app.ledger.accounts import AccountState
from app.ledger.config import LedgerConfig
from app.ledger.prices import PriceBook
from app.settings import Settings
from app.settings import load_settings as load
from app.telemetry.row import StreamRow, unpack_row

ALL = 10**9


class Books(msgspec.Struct):
    """What a relay has in its books."""

    accounts: dict[str, AccountState]
    rows: list[tuple[str, StreamRow]]
    """Each with the stream that it was kept for."""


class WithBooks:
    """An app with a page that shows the books."""

    def __init__(self, app: ASGIApp, hub: Hub) -> None:
        self._app = app
        self._log = hub._log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/-/books":
            return await self._app(scope, receive, send)
        names = parse_qs(scope["query_string"].decode()).get("name", [])
        try:
            states = await self._log.accounts(names)
            rows = [(stream, unpack_row(row)) for stream, row in await self._log.rows(limit=ALL)]
        except RelayError as error:
            return await Response(str(error), 503)(scope, receive, send)
        books = Books(dict(zip(names, states, strict=True)), rows)
        await Response(msgspec.json.encode(books))(scope, receive, send)


def main() -> None:
    """Run the command as `seseragi` does."""
    ledger = msgspec.json.decode(Path("ledger.json").read_bytes(), type=LedgerConfig)

    def load_settings(*arguments: Any, **options: Any) -> Settings:
        return msgspec.structs.replace(load(*arguments, **options), ledger=ledger)

    def build_accounting(settings: Settings, **_: Any) -> Accounting:
        return Accounting(settings.ledger, PriceBook(settings.ledger.prices), keeps_rows=True)

    def build_app(settings: Settings, hub: Hub, *others: Any) -> ASGIApp:
        return WithBooks(app.asgi.build_app(settings, hub, *others), hub)

    app.composition.build_accounting = build_accounting
    for mine in (load_settings, build_app):
        setattr(command, mine.__name__, mine)
    command.main(sys.argv[1:])


if __name__ == "__main__":
    main()

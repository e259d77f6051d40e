"""`seseragi records`: reports usage and cost, lists streams, and erases users."""

import argparse
import asyncio
import csv
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, TypeVar, get_args

from ..errors import suggest
from ..events import EndedBy, Status
from ..ledger.rates import to_usd
from ..records.address import FAILURES, Address, RecordsRefused
from ..records.database import Database
from ..records.queries import BY, LISTED, find, latest, sums_by, tenants_of
from ..records.schema import SUMS, today
from ..settings import SettingsError, load_scalar
from .terminal import add_config, escape, print_table

MOST_LISTED = 100_000

FIRST_DAY = date(2000, 1, 1)

T = TypeVar("T")

ENDERS = get_args(EndedBy)

FILTERS = ("status", "tenant", "user", "key", "route", "ended_by")
"""Columns that options of `list` have the value of."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Prefixes that spreadsheets interpret as a formula."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description, the actions and their arguments to a parser."""
    parser.description = "Print usage and cost, added up; or list streams, or erase a user."
    _add_report(parser)
    _add_format(parser, default="table")
    _add_database(parser, default=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions")
    latest = actions.add_parser("list", help="print the latest streams")
    latest.add_argument("--limit", metavar="N", default="50", help="how many (default: 50)")
    latest.add_argument(
        "--ended-by",
        metavar="WHO",
        choices=ENDERS,
        help=f"only incomplete answers, ended by: {', '.join(ENDERS)}",
    )
    latest.add_argument("--status", choices=get_args(Status))
    for name in ("tenant", "user", "key", "route"):
        latest.add_argument(f"--{name}", metavar="NAME")
    _add_days(latest, since=argparse.SUPPRESS, until=argparse.SUPPRESS)
    _add_format(latest)
    _add_database(latest)
    show = actions.add_parser("show", help="print all of a stream, also recorded content, as JSON")
    show.add_argument("stream", metavar="STREAM", help="id of a stream (st_...) or a request")
    _add_database(show)
    erase = actions.add_parser(
        "erase",
        help="erase a user",
        description="Erase a user from the records: content and ids are removed, and a random "
        "name replaces those of the user and of the user's keys. Sums stay.",
    )
    erase.add_argument("--tenant", metavar="NAME", help="tenant of the user (default: none)")
    erase.add_argument("--user", metavar="NAME", required=True)
    erase.add_argument("--yes", action="store_true", help="erase (default: only count)")
    _add_database(erase)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        default="day",
        metavar="COLUMNS",
        help=f"columns to group by, comma-separated: {', '.join(BY)} (default: day)",
    )
    _add_days(parser)


def _add_days(parser: argparse.ArgumentParser, since: str = "", until: str = "") -> None:
    days = "first day: 2026-11-01, or 30d ago (the default of reports)"
    parser.add_argument("--since", metavar="DAY", default=since, help=days)
    parser.add_argument("--until", metavar="DAY", default=until, help="last day (default: today)")


# An action has no defaults of its own: they would replace what is given before it.
def _add_format(parser: argparse.ArgumentParser, default: str = argparse.SUPPRESS) -> None:
    formats = ("table", "csv", "json")
    parser.add_argument("--format", choices=formats, default=default, help="(default: table)")


def _add_database(parser: argparse.ArgumentParser, default: str | None = argparse.SUPPRESS) -> None:
    parser.add_argument(
        "--records",
        metavar="URL",
        default=default,
        help="the database (default: that of the settings)",
    )
    add_config(parser, default)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Run the action, and return the exit status.

    Raises:
        SettingsError: an argument, the settings or the database cannot be used.
    """
    _read_options(options)
    url = options.records or load_scalar("records", environ, config=options.config)
    if url is None:
        raise SettingsError("records: no database is configured; give --records or set 'records'")
    look(url, partial(_run, options))
    return 0


def look(url: str, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run work on the records database at a URL.

    Raises:
        SettingsError: they cannot be used.
    """
    try:
        address = Address(url)
    except RecordsRefused as error:
        raise SettingsError(f"records: {error}") from None
    if address.path is not None and not address.path.exists():
        raise SettingsError(f"records: no file {str(address.path)!r} yet")
    database = Database(address)
    try:
        return asyncio.run(_with(database, work))
    except FAILURES as error:
        detail = str(getattr(error, "orig", None) or error).partition("\n")[0][:200]
        raise SettingsError(f"records: {address}: {address.without_password(detail)}") from None


def _read_options(options: argparse.Namespace) -> None:
    """Parse options that are text, before the database is opened."""
    if options.action is None:
        options.by = [name.strip() for name in options.by.split(",") if name.strip()]
        for name in options.by:
            if name not in BY:
                raise SettingsError(f"--by: unknown column {name!r}{suggest(name, BY)}")
        if len(set(options.by)) < len(options.by):
            raise SettingsError("--by: a column occurs twice; name each once")
        options.since = _read_day("--since", options.since or "30d")
        options.until = _read_day("--until", options.until or str(today()))
    elif options.action == "list":
        options.since = _read_day("--since", options.since) if options.since else None
        options.until = _read_day("--until", options.until) if options.until else None
        if not re.fullmatch(r"[1-9][0-9]{0,5}", options.limit) or int(options.limit) > MOST_LISTED:
            raise SettingsError(f"--limit: give a number from 1 to {MOST_LISTED}")
        options.limit = int(options.limit)
    elif options.action == "erase" and not options.user:
        raise SettingsError("--user: empty; name a user")


async def _with(database: Database, work: Callable[[Database], Awaitable[T]]) -> T:
    try:
        await database.check()
        return await work(database)
    finally:
        await database.close()


async def _run(options: argparse.Namespace, database: Database) -> None:
    match options.action:
        case "list":
            await _list(options, database)
        case "show":
            await _show(options.stream, database)
        case "erase":
            await _erase(options, database)
        case _:
            await _report(options, database)


async def _report(options: argparse.Namespace, database: Database) -> None:
    by, since, until = options.by, options.since, options.until
    lines = await sums_by(database, by, since=since, until=until)
    total = {name: sum(line[name] for line in lines) for name in SUMS}
    match options.format:
        case "json":
            document: dict[str, Any] = {"since": str(since), "until": str(until), "by": by}
            document["rows"] = [_printed(line) for line in lines]
            _print_json(document | {"total": _printed(total)})
        case "csv":
            _print_csv((*by, *_printed(total)), map(_printed, lines))
        case _:
            heads = ("requests", "failures", "input", "output", "cached", "usd", "unpriced")
            rows = [[*(line[name] or "-" for name in by), *_short(line)] for line in lines if by]
            rows.append([*("total", *len(by) * [""])[: len(by)], *_short(total)])
            print_table([(*by, *heads), *rows], numbers=len(heads))


def _short(line: Mapping[str, Any]) -> list[str]:
    counts = ("requests", "failures", "input_tokens", "output_tokens", "cached_input_tokens")
    usd = f"{line['nano_usd'] / 1e9:.4f}"
    return [*(str(line[name]) for name in counts), usd, str(line["unpriced"])]


async def _list(options: argparse.Namespace, database: Database) -> None:
    rows = await latest(
        database,
        limit=options.limit,
        since=options.since,
        until=options.until,
        **{name: getattr(options, name) for name in FILTERS},
    )
    match options.format:
        case "json":
            _print_json([_printed(row) for row in rows])
        case "csv":
            _print_csv([*_printed(dict.fromkeys(LISTED))], map(_printed, rows))
        case _:
            names = ["started", "stream", "user", "key", "route", "target", "status", "ended by"]
            names += ["s", "tokens", "usd"]
            print_table([names, *map(_table_row, rows)], numbers=3)


def _printed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it is printed, with times in ISO 8601 and money in USD."""
    printed = {}
    for name, value in row.items():
        if name == "nano_usd":
            printed["usd"] = None if value is None else to_usd(value)
        elif name in ("started_at", "ended_at") and value is not None:
            printed[name] = _iso_time(value, "milliseconds")
        else:
            printed[name] = value
    return printed


def _iso_time(at: float, precision: str) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _table_row(row: Mapping[str, Any]) -> list[str]:
    tokens = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
    user = "/".join(part for part in (row["tenant"], row["user"]) if part)
    return [
        *(_iso_time(row["started_at"], "seconds"), row["stream"], user or "-"),
        *(row["key"] or "-", row["route"]),
        *(row["target"] or "-", row["code"] or row["status"], row["ended_by"] or "-"),
        f"{row['ended_at'] - row['started_at']:.1f}",
        str(tokens) + ("~" if row["usage_from"] == "estimate" else ""),
        "-" if row["nano_usd"] is None else to_usd(row["nano_usd"]),
    ]


async def _show(stream: str, database: Database) -> None:
    rows = await find(database, stream)
    if not rows:
        raise SettingsError(f"{stream!r}: not in the records; `seseragi records list` lists them")
    for row in rows:
        row["content"] = row["content"] and json.loads(row["content"])
    _print_json([_printed(row) for row in rows])


async def _erase(options: argparse.Namespace, database: Database) -> None:
    tenant, user = options.tenant or "", options.user
    found = await tenants_of(database, user)
    whom = f"user {escape(user)!r}" + (f" of tenant {escape(tenant)!r}" if tenant else "")
    others = [escape(name) or "(none)" for name in sorted(found) if name != tenant]
    if others:
        _print_note(f"Other tenants have a user of this name: {', '.join(others[:20])}.")
    if not options.yes:
        raise SettingsError(
            f"{whom} has {found.get(tenant, 0)} streams in the records; nothing was erased: "
            "add --yes to erase"
        )
    count = await database.erase(tenant, user)
    await database.scrub()
    if not count:
        _print_note(
            f"The records have 0 streams of {whom}. If the name is correct, rows that still "
            "wait in a log are written under a random name."
        )
        return
    _print_note(
        f"Erased {whom}: content and ids of {count} streams are removed. "
        "Streams that end from now on are recorded as before."
    )


def _read_day(name: str, text: str) -> date:
    try:
        if match := re.fullmatch(r"([0-9]{1,5})d", text):
            return max(today() - timedelta(days=int(match[1])), FIRST_DAY)
        return date.fromisoformat(text)
    except (ValueError, OverflowError):
        raise SettingsError(f"{name}: {text!r} is not a day; give 2026-11-01 or 30d") from None


def _print_csv(head: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_cell(row[name]) for name in head] for row in rows)


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    cell = escape(cell)
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2))  # in ASCII, without control characters


def _print_note(text: str) -> None:
    print(text, file=sys.stderr)

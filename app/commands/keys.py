"""`seseragi key`: creates, lists and revokes API keys.

A key is printed once, alone on stdout; messages for people go to stderr. Only its digest is
stored.
"""

import argparse
import json
import re
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from ..errors import suggest
from ..identity.config import Identity, KeyConfig, parse_time
from ..identity.keys import digest, make_key
from ..identity.keys_file import KeysFile, KeysUnusable, change_keys_file, read_keys_file, row_of
from ..identity.principal import Role
from ..ledger.config import LIMITS, UsageLimits
from ..settings import SettingsError, load_identity
from ..settings.convert import check_origins, explain
from .terminal import add_config, print_table

KEYS_FILE = "keys.json"
"""The default keys file."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
LONGEST_S = 100 * 365 * 86_400

COLUMNS = ("name", "tenant", "user", "models", "origins", "roles", "limits", "expires", "created")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description, the actions and their arguments to a parser."""
    parser.description = "Create, list and revoke the API keys of clients."
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="create a key and print it once",
        description="Create a key and print it once, alone on stdout. The keys file, which is "
        "created if necessary, stores only its digest.",
    )
    new.add_argument("name", metavar="NAME", help="name of the key")
    new.add_argument("--tenant", default="", help="tenant of the key")
    new.add_argument(
        "--user", default="", help="user of the key (default: each key is a user of its own)"
    )
    new.add_argument(
        *("--models", "--model"),
        nargs="+",
        action="extend",
        metavar="GLOB",
        help="models that the key may use, such as 'openai/*' (default: all)",
    )
    new.add_argument(
        *("--origins", "--origin"),
        nargs="+",
        action="extend",
        metavar="ORIGIN",
        help="origins of pages that may use the key, such as https://chat.example.com (default: "
        "all that may call the relay)",
    )
    new.add_argument(
        *("--role", "--roles"),
        nargs="+",
        action="extend",
        metavar="ROLE",
        help="client_secrets: create short-lived secrets for browsers; metrics: read /metrics; "
        "admin: read, stop and delete the streams of all owners, and read /metrics",
    )
    limits = new.add_argument_group(
        "limits", "Tokens are those of input and output; days and months are in UTC."
    )
    for limit in LIMITS:
        limits.add_argument(f"--{limit.name.replace('_', '-')}", metavar="N")
    new.add_argument("--expires-in", metavar="TIME", help="lifetime, such as 30d, 12h or 90m")
    new.add_argument(
        "--print-toml",
        action="store_true",
        help="write no file; print the table for seseragi.toml on stderr",
    )
    list_ = actions.add_parser("list", help="list the keys, without the keys themselves")
    list_.add_argument("--json", action="store_true", help="print JSON")
    revoke = actions.add_parser(
        "revoke", help="revoke a key; running relays refuse it within a second"
    )
    revoke.add_argument("name", metavar="NAME")
    for action in (new, list_, revoke):
        action.add_argument(
            "--keys-file",
            metavar="FILE",
            help=f"keys file (default: that of the settings, else {KEYS_FILE})",
        )
        add_config(action)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """Run the action, and return the exit status.

    Raises:
        SettingsError: an argument or the settings cannot be used.
        KeysUnusable: the keys file cannot be used.
    """
    identity = load_identity(environ, config=options.config)
    path = Path(options.keys_file or identity.auth.keys_file or KEYS_FILE)
    match options.action:
        case "new":
            _make(options, identity, path)
        case "list":
            _list(path, as_json=options.json)
        case "revoke":
            _revoke(options.name, identity, path)
    return 0


def _make(options: argparse.Namespace, identity: Identity, path: Path) -> None:
    key = make_key()
    config = _read_options(options, key)
    if any(known.name == config.name for known in identity.keys):
        raise SettingsError(
            f"NAME: the settings already have a [[key]] named {config.name!r}; choose another"
        )
    if options.print_toml:
        _print(f"# For seseragi.toml; the key itself is printed only once.\n{_to_toml(config)}")
        _show(key, config.name)
        return
    _warn(change_keys_file(path, lambda file: _with(file, config, path)))
    _print(f"{path} has the digest of the key {config.name!r}. The key, printed only once:")
    _show(key, config.name)
    _print(_setup_hint(identity, path), end="")


def _show(key: str, name: str) -> None:
    try:
        print(key, flush=True)
    except OSError as error:
        sys.stdout = None  # or Python writes it again at exit, and its status hides ours
        why = (error.strerror or str(error)).lower()
        raise SettingsError(
            f"the key could not be printed: {why}; revoke {name!r} and create another"
        ) from None


def _read_options(options: argparse.Namespace, key: str) -> KeyConfig:
    now = time.time()
    for name in ("tenant", "user", "models"):
        if not "".join(getattr(options, name) or ()).isprintable():
            raise SettingsError(f"--{name}: not printable; remove control characters")
    fields = {
        "name": options.name,
        "sha256": digest(key),
        "tenant": options.tenant,
        "user": options.user,
        "models": options.models,
        "origins": options.origins or (),
        "roles": options.role or (),
        "limits": _read_limits(options),
        "expires_at": _read_end(options, now),
        "created_at": _write_time(now),
    }
    check_origins(options.origins or (), "--origins")
    try:
        return msgspec.convert(msgspec.to_builtins(fields), KeyConfig)
    except msgspec.ValidationError as error:
        place, detail = explain(error, KeyConfig)
        field = re.sub(r"\W.*", "", place.removeprefix("."))
        raise SettingsError(_describe_error(field, detail)) from None


def _read_limits(options: argparse.Namespace) -> UsageLimits:
    found = {limit.name: getattr(options, limit.name) for limit in LIMITS}
    fields = {name: text for name, text in found.items() if text is not None}
    try:
        limits = msgspec.convert(fields, UsageLimits, strict=False)
    except msgspec.ValidationError as error:
        place, detail = explain(error, UsageLimits)
        raise _unusable(place.removeprefix("."), fields, detail) from None
    for name in fields:
        if getattr(limits, name) is None:  # of the text "null"
            raise _unusable(name, fields, "give a number")
    return limits


def _unusable(name: str, fields: Mapping[str, str], detail: str) -> SettingsError:
    return SettingsError(f"--{name.replace('_', '-')}: {fields[name]!r} cannot be used: {detail}")


def _describe_error(field: str, detail: str) -> str:
    """Return the error message for an argument."""
    match field:
        case "name":
            return "NAME: give 1 to 128 visible ASCII characters without spaces"
        case "origins":
            return "--origins: give origins of http or https, such as https://chat.example.com"
        case "roles":
            return f"--role: use {' or '.join(get_args(Role))}"
        case "models":
            return "--models: give globs of 1 to 200 characters, such as 'openai/*'"
        case "tenant" | "user":
            return f"--{field}: give 256 characters at most"
        case _:
            return f"{field}: {detail}"


def _read_end(options: argparse.Namespace, now: float) -> str | None:
    if options.expires_in is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,9})([smhdw])", options.expires_in)
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST_S:
        raise SettingsError(
            f"--expires-in: {options.expires_in!r} cannot be used: give a number and "
            "s, m, h, d or w, such as 30d, and no more than 100 years"
        )
    return _write_time(now + seconds)


def _write_time(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).isoformat().replace("+00:00", "Z")


def _with(file: KeysFile | None, config: KeyConfig, path: Path) -> KeysFile:
    if file is None:
        file = KeysFile(signing_key=secrets.token_urlsafe(32))
    if any(known.name == config.name for known in file.keys):
        raise KeysUnusable(
            f"{path}: has a key named {config.name!r}; choose another name, or revoke it first"
        )
    return msgspec.structs.replace(file, keys=(*file.keys, config))


def _setup_hint(identity: Identity, path: Path) -> str:
    """Return the settings that make the relay use the keys file; "" if they are set."""
    if identity.trusted:
        return "auth = 'none' is set: only operators need a key, with a role.\n"
    if identity.auth.keys_file is not None and Path(identity.auth.keys_file) == path:
        return ""
    return (
        "To make the relay use this file, write into seseragi.toml:\n\n"
        f"[auth]\nkeys_file = {json.dumps(str(path), ensure_ascii=False)}\n\n"
        f"or in the environment: SESERAGI_KEYS_FILE={path}\n"
    )


def _to_toml(config: KeyConfig) -> str:
    rows = [f"{name} = {_write_toml(value)}" for name, value in row_of(config).items()]
    return "\n".join(["[[key]]", *rows])


def _write_toml(value: object) -> str:
    """Render a value; numbers, strings and lists of strings are the same in TOML and JSON."""
    if isinstance(value, UsageLimits):
        fields = msgspec.to_builtins(value).items()
        return f"{{ {', '.join(f'{name} = {_write_toml(limit)}' for name, limit in fields)} }}"
    return json.dumps(value, ensure_ascii=False)


def _list(path: Path, *, as_json: bool) -> None:
    reading = read_keys_file(path)
    _warn(reading.caution)
    if as_json:
        rows = [msgspec.to_builtins(row_of(key)) for key in reading.file.keys]
        for row in rows:
            del row["sha256"]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    print_table([COLUMNS, *map(_cells, reading.file.keys)])


def _cells(key: KeyConfig) -> tuple[str, ...]:
    ends = key.expires_at or "never"
    try:
        if key.expires_at is not None and parse_time(key.expires_at) <= time.time():
            ends += " (has ended)"
    except ValueError:
        ends += " (no time)"
    return (
        *(key.name, key.tenant or "-", key.user or "-"),
        "all" if key.models is None else " ".join(key.models) or "none",
        " ".join(key.origins) or "-",
        " ".join(key.roles) or "-",
        " ".join(f"{name}={limit:.12g}" for name, limit in _limits_of(key)) or "-",
        *(ends, key.created_at or "-"),
    )


def _limits_of(key: KeyConfig) -> Iterable[tuple[str, float]]:
    fields: dict[str, float] = msgspec.to_builtins(key.limits)
    return fields.items()


def _revoke(name: str, identity: Identity, path: Path) -> None:
    if any(known.name == name for known in identity.keys):
        raise SettingsError(f"NAME: {name!r} is a [[key]] of the settings; remove it there")

    def without(file: KeysFile | None) -> KeysFile:
        known = [key.name for key in file.keys] if file is not None else []
        if file is None or name not in known:
            raise KeysUnusable(f"{path}: no key named {name!r}{suggest(name, known)}")
        return msgspec.structs.replace(
            file, keys=tuple(key for key in file.keys if key.name != name)
        )

    _warn(change_keys_file(path, without))
    _print(f"The key {name!r} is revoked; running relays refuse it within a second.")


def _warn(caution: str | None) -> None:
    if caution is not None:
        _print(f"Warning: {caution}.")


def _print(text: str, *, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr)

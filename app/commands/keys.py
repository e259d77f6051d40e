"""`seseragi key`: creates, lists, rotates and revokes API keys.

A key is printed once, alone on stdout; messages for people go to stderr. Only its digest is
stored.
"""

import argparse
import contextlib
import json
import math
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

from ..errors import suggest
from ..identity.config import Identity, KeyConfig, PreviousKey, parse_time
from ..identity.keys import KEY_ID, digest, make_key
from ..identity.keys_file import (
    KeysFile,
    KeysUnusable,
    PreviousSigningKey,
    change_keys_file,
    read_keys_file,
    row_of,
)
from ..identity.principal import Role
from ..ledger.config import LIMITS, UsageLimits
from ..settings import SettingsError, load_identity
from ..settings.convert import check_origins, explain
from .terminal import add_config, print_table

KEYS_FILE = "keys.json"
"""The default keys file."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
LONGEST_S = 100 * 365 * 86_400

SIGNS_AFTER_S = 120
"""Until a new signing key is used: relays look at the file each second, but Kubernetes may take
up to two minutes to copy a changed Secret to all of them."""

COLUMNS = ("name", "tenant", "user", "models", "origins", "roles", "limits", "expires", "created")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description, the actions and their arguments to a parser."""
    parser.description = "Create, list, rotate and revoke the API keys of clients."
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
    rotate = actions.add_parser(
        "rotate",
        help="replace a key; the old one stays valid for a while (revoke one that has leaked)",
    )
    which = rotate.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?")
    which.add_argument(
        "--signing-key", action="store_true", help="replace the file's signing key instead"
    )
    rotate.add_argument(
        "--keep", metavar="TIME", default="24h", help="of the old one (default: 24h)"
    )
    rotate.add_argument("--expires-in", metavar="TIME", help="lifetime of the new key")
    for action in (new, list_, rotate, revoke):
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
        case "rotate" if options.signing_key:
            _rotate_signing_key(options, identity, path)
        case "rotate":
            _rotate(options, identity, path)
        case "revoke":
            _revoke(options.name, identity, path)
    return 0


def _rotate(options: argparse.Namespace, identity: Identity, path: Path) -> None:
    key = make_key()
    for config in identity.keys:
        if config.name == options.name:
            rotated = _rotated(config, key, options)
            _print(f"# Replace the key's table in seseragi.toml by:\n{_to_toml(rotated)}")
            _show(key, options.name)
            return

    def replace(file: KeysFile | None) -> KeysFile:
        file, at = _find(file, options.name, path)
        rotated = _rotated(file.keys[at], key, options)
        return msgspec.structs.replace(file, keys=(*file.keys[:at], rotated, *file.keys[at + 1 :]))

    _warn(change_keys_file(path, replace))
    _print(
        f"The old key {options.name!r} stays valid for {options.keep}, unless it expires before. "
        "The new key, printed only once:"
    )
    _show(key, options.name)


def _rotated(config: KeyConfig, key: str, options: argparse.Namespace) -> KeyConfig:
    now = time.time()
    try:
        end = math.inf if config.expires_at is None else parse_time(config.expires_at)
    except ValueError as error:
        raise KeysUnusable(f"the key {config.name!r} has an invalid time: {error}") from None
    if end <= now and options.expires_in is None:
        raise SettingsError(f"NAME: {config.name!r} has ended; give --expires-in")
    until = _utc(min(end, now + _read_seconds("--keep", options.keep)))
    valid = [one for one in config.previous if one.ends_at > now]
    return msgspec.structs.replace(
        config,
        sha256=digest(key),
        id=config.id or config.sha256[:KEY_ID],
        previous=(*valid, PreviousKey(until, config.sha256)),
        expires_at=_read_end(options, now) or config.expires_at,
    )


def _rotate_signing_key(options: argparse.Namespace, identity: Identity, path: Path) -> None:
    if options.expires_in is not None:
        raise SettingsError("--expires-in: a signing key has no end; omit it")
    if identity.auth.signing_key is not None:
        raise SettingsError("--signing-key: the settings have one; use signing_key_fallbacks there")
    now = time.time()
    signs_from = now + SIGNS_AFTER_S
    until = _utc(signs_from + _read_seconds("--keep", options.keep))

    def replace(file: KeysFile | None) -> KeysFile:
        if file is None or file.signing_key is None:
            raise KeysUnusable(f"{path}: has no signing key; create a key with seseragi key new")
        if file.signs_from is not None and file.signs_from.timestamp() > now:
            raise KeysUnusable(f"{path}: rotated just now; wait {SIGNS_AFTER_S} s")
        valid = [one for one in file.previous_signing_keys if one.ends_at > now]
        return msgspec.structs.replace(
            file,
            signing_key=secrets.token_urlsafe(32),
            signs_from=_utc(signs_from),
            previous_signing_keys=(PreviousSigningKey(until, file.signing_key), *valid),
        )

    _warn(change_keys_file(path, replace))
    _print(f"Relays sign with a new key in {SIGNS_AFTER_S} s, and verify with both until {until}.")


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
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is no such file
        mode = Path(f"/dev/fd/{sys.stdout.fileno()}").stat().st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            _warn("others may read the file with the key: chmod it to 600, and first run umask 077")
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
            return "--origins: give origins of pages, such as https://chat.example.com"
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
    return _write_time(now + _read_seconds("--expires-in", options.expires_in))


def _read_seconds(option: str, text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,9})([smhdw])", text)
    seconds = int(match[1]) * UNITS[match[2]] if match else 0
    if not 0 < seconds <= LONGEST_S:
        raise SettingsError(
            f"{option}: {text!r} cannot be used: give a number and "
            "s, m, h, d or w, such as 30d, and no more than 100 years"
        )
    return seconds


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(int(at), UTC)


def _write_time(at: float) -> str:
    return _utc(at).isoformat().replace("+00:00", "Z")


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
    if isinstance(value, UsageLimits | PreviousKey):
        fields = msgspec.to_builtins(value).items()
        return f"{{ {', '.join(f'{name} = {_write_toml(limit)}' for name, limit in fields)} }}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_write_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _list(path: Path, *, as_json: bool) -> None:
    reading = read_keys_file(path)
    _warn(reading.caution)
    if as_json:
        rows = [msgspec.to_builtins(row_of(key)) for key in reading.file.keys]
        for row in rows:
            for one in (row, *row.get("previous", ())):
                del one["sha256"]
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
    if key.previous:
        ends += f" (old key: {_write_time(max(one.ends_at for one in key.previous))})"
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
        file, at = _find(file, name, path)
        return msgspec.structs.replace(file, keys=(*file.keys[:at], *file.keys[at + 1 :]))

    _warn(change_keys_file(path, without))
    _print(f"The key {name!r} is revoked; running relays refuse it within a second.")


def _find(file: KeysFile | None, name: str, path: Path) -> tuple[KeysFile, int]:
    """Return the file and the place of a key in it."""
    known = [key.name for key in file.keys] if file is not None else []
    if file is None or name not in known:
        raise KeysUnusable(f"{path}: no key named {name!r}{suggest(name, known)}")
    return file, known.index(name)


def _warn(caution: str | None) -> None:
    if caution is not None:
        _print(f"Warning: {caution}.")


def _print(text: str, *, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr)

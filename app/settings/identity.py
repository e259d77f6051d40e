"""`auth`, `[auth]`, `[[key]]` and `[[issuer]]`."""

from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

import msgspec

from ..identity.config import AuthConfig, Identity, IssuerConfig, KeyConfig
from .failure import SettingsError, reason
from .scalars import IDENTITY
from .tables import check_known

T = TypeVar("T", bound=msgspec.Struct)

NONE, *_SAID = IDENTITY
VARIABLES = dict(zip(("keys_file", "signing_key"), _SAID, strict=True))


def build_identity(tables: dict[str, Any], environ: Mapping[str, str], *, where: str) -> Identity:
    """Build what the settings say of who may ask; takes its tables out of those of the file.

    Raises:
        SettingsError: a table, a key or a value that cannot be used.
    """
    auth, keys, issuers = (tables.pop(name, None) for name in ("auth", "key", "issuer"))
    place = f"{where}auth"
    if NONE in environ:
        auth, place = environ[NONE], f"the environment variable {NONE}"
    trusted = isinstance(auth, str)
    if trusted and auth != "none":
        raise SettingsError(f"{place}: {auth!r} cannot be used: use 'none', or a table [auth]")
    said = {key: environ[name] for key, name in VARIABLES.items() if name in environ}
    configured = not (auth is None and keys is None and issuers is None and not said)
    if trusted and (keys or issuers or said):
        raise SettingsError(
            f"{place}: 'none' lets everybody in, so there can be no [[key]], no [[issuer]] "
            "and no keys file"
        )
    table = {} if auth is None or trusted else auth
    return Identity(
        auth=_convert(
            {**table, **said} if isinstance(table, dict) else table, AuthConfig, f"{where}auth"
        ),
        keys=_convert_all(keys, KeyConfig, f"{where}key"),
        issuers=_convert_all(issuers, IssuerConfig, f"{where}issuer"),
        trusted=trusted,
        configured=configured and not trusted,
    )


def _convert_all(rows: Any, form: type[T], place: str) -> tuple[T, ...]:
    if rows is None:
        return ()
    if not isinstance(rows, list):
        raise SettingsError(f"{place}: write tables such as [[{place.rpartition(' ')[2]}]]")
    return tuple(_convert(row, form, f"{place}[{n}]") for n, row in enumerate(rows, 1))


def _convert(row: Any, form: type[T], place: str) -> T:
    check_known(row, form.__struct_fields__, place)
    if isinstance(row, dict):  # TOML has times of its own
        row = {
            key: value.isoformat() if isinstance(value, date) else value
            for key, value in row.items()
        }
    try:
        return msgspec.convert(row, form)
    except msgspec.ValidationError as error:
        key, told = reason(error)
        raise SettingsError(f"{place}{key}: {told}") from None

"""Parser of `auth`, `[auth]`, `[[key]]` and `[[issuer]]`."""

from collections.abc import Mapping
from datetime import date
from typing import Any, TypeVar

import msgspec

from ..identity.config import ALGORITHMS, AuthConfig, Identity, IssuerConfig, KeyConfig
from ..identity.urls import why_unusable
from ..ledger.limits import UsageLimits
from .failure import SettingsError, check_origins, reason, suggest
from .scalars import IDENTITY
from .tables import check_known

T = TypeVar("T", bound=msgspec.Struct)

NONE, *_NAMES = IDENTITY
VARIABLES = dict(zip(("keys_file", "signing_key"), _NAMES, strict=True))


def build_identity(tables: dict[str, Any], environ: Mapping[str, str], *, where: str) -> Identity:
    """Build the authentication settings; remove their tables from those of the file.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    auth, keys, issuers = (tables.pop(name, None) for name in ("auth", "key", "issuer"))
    place = f"{where}auth"
    if NONE in environ:
        auth, place = environ[NONE], f"the environment variable {NONE}"
    trusted = isinstance(auth, str)
    if trusted and auth != "none":
        raise SettingsError(f"{place}: {auth!r} cannot be used: use 'none', or a table [auth]")
    variables = {key: environ[name] for key, name in VARIABLES.items() if name in environ}
    configured = not (auth is None and keys is None and issuers is None and not variables)
    if trusted and issuers:
        raise SettingsError(f"{place}: 'none' takes no [[issuer]]: every client may send chats")
    table = {} if auth is None or trusted else auth
    read_keys = _convert_all(keys, KeyConfig, f"{where}key")
    if trusted and (idle := next((key.name for key in read_keys if not key.roles), None)):
        raise SettingsError(
            f"{place}: with 'none' keys are for operators alone: give the key {idle!r} the role "
            "'admin', or take it out"
        )
    read_issuers = _convert_all(issuers, IssuerConfig, f"{where}issuer")
    _check_issuers(read_issuers, f"{where}issuer")
    return Identity(
        auth=_convert(
            {**table, **variables} if isinstance(table, dict) else table, AuthConfig, f"{where}auth"
        ),
        keys=read_keys,
        issuers=read_issuers,
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
    if isinstance(row, dict) and "limits" in form.__struct_fields__:
        check_known(row.get("limits"), UsageLimits.__struct_fields__, f"{place}.limits")
    if isinstance(row, dict):  # TOML has native dates
        row = {
            key: value.isoformat() if isinstance(value, date) else value
            for key, value in row.items()
        }
        if isinstance(origins := row.get("origins"), list):
            texts = [origin for origin in origins if isinstance(origin, str)]
            check_origins(texts, f"{place}.origins")
    try:
        return msgspec.convert(row, form)
    except msgspec.ValidationError as error:
        key, message = reason(error)
        raise SettingsError(f"{place}{key}: {message}") from None


def _check_issuers(issuers: tuple[IssuerConfig, ...], place: str) -> None:
    """Refuse issuers whose tokens would all be rejected, or be ambiguous."""
    seen: dict[str, int] = {}
    for n, row in enumerate(issuers, 1):
        here = f"{place}[{n}]"
        if row.issuer in seen:
            raise SettingsError(
                f"{here}.issuer: {row.issuer!r} is that of {place}[{seen[row.issuer]}]; "
                "give one table all its audiences and algorithms"
            )
        seen[row.issuer] = n
        for name in row.algorithms:
            if name not in ALGORITHMS:
                raise SettingsError(
                    f"{here}.algorithms: {name!r} cannot be used{suggest(name, ALGORITHMS)}; "
                    f"those with a public key can: {', '.join(ALGORITHMS)}"
                )
        # The issuer is only an identifier if `jwks_url` locates its keys.
        key, url = ("issuer", row.issuer) if row.jwks_url is None else ("jwks_url", row.jwks_url)
        message = why_unusable(url)
        if message is None and key == "issuer" and "?" in url:
            message = "set jwks_url, since it has a query"
        if message is not None:
            raise SettingsError(f"{here}.{key}: {message}")

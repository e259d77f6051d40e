"""Credentials of upstreams, from files and the environment. No message contains a credential."""

import re
from collections.abc import Mapping

from ..errors import UpstreamError
from ..upstreams.aws import AwsCredentials
from ..upstreams.credentials import (
    Auth,
    Credentials,
    CredentialsSource,
    Key,
    KeyFile,
    KeyUnusable,
    NoCredentials,
    Secret,
    check_key,
)
from ..upstreams.google import GoogleCredentials
from ..upstreams.presets import Preset
from .base_urls import find_place
from .failure import SettingsError
from .tables import UpstreamTable


def build_credentials(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str, needed: bool
) -> Credentials:
    """Return the credentials of the upstream at `place`; `needed`: whether a key is required."""
    if table.key_env and table.key_file:
        raise SettingsError(f"{place}: key_env and key_file are both set; remove one")
    if table.auth in ("none", "aws", "google"):
        if table.key_env or table.key_file:
            raise SettingsError(f"{place}: auth = {table.auth!r} takes no key; leave out the key")
        return _without_key(table.auth, table, preset, environ, place=place)
    secret = _read_key(table, preset, environ, place=place)
    if secret is not None:
        return Key(secret, table.auth or preset.auth)
    if table.auth is not None:
        raise SettingsError(f"{place}.auth: no key; set key_env or key_file")
    if needed and preset.without_key == "none":
        raise SettingsError(
            f"{place}: no key; set {' or '.join(preset.key_env)}, key_env or key_file"
        )
    return _without_key(preset.without_key, table, preset, environ, place=place)


def find_source(
    credentials: Credentials,
    table: UpstreamTable,
    preset: Preset,
    environ: Mapping[str, str],
    *,
    place: str,
) -> CredentialsSource:
    """Return the source of credentials that `build_credentials` returned."""
    match credentials:
        case Key() if table.key_file is not None:
            return CredentialsSource("file", table.key_file, f"{place}.key_file")
        case Key() if table.key_env is not None:
            return CredentialsSource("environment", table.key_env, f"{place}.key_env")
        case Key():
            found = (name for name in preset.key_env if environ.get(name, "").strip())
            return CredentialsSource("environment", next(found, None))
        case AwsCredentials() if table.profile is not None:
            return CredentialsSource("aws", f"profile {table.profile!r}", f"{place}.profile")
        case AwsCredentials():
            return CredentialsSource(
                "aws", _first_set(("AWS_ACCESS_KEY_ID", "AWS_PROFILE"), environ)
            )
        case GoogleCredentials():
            variable = _first_set(("GOOGLE_APPLICATION_CREDENTIALS",), environ)
            return CredentialsSource("google", variable)
        case _:
            return CredentialsSource()


def _first_set(variables: tuple[str, ...], environ: Mapping[str, str]) -> str | None:
    return next((name for name in variables if environ.get(name)), None)


def _without_key(
    auth: Auth,
    table: UpstreamTable,
    preset: Preset,
    environ: Mapping[str, str],
    *,
    place: str,
) -> Credentials:
    try:
        match auth:
            case "aws":
                region = find_place("region", table, preset, environ, place=place)
                return AwsCredentials(region=region, profile=table.profile)
            case "google":
                return GoogleCredentials()
            case _:
                return NoCredentials()
    except UpstreamError as error:  # a package is not installed
        raise SettingsError(f"{place}: {error}") from None


def _read_key(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> Secret | KeyFile | None:
    if table.key_file is not None:
        try:
            return KeyFile(table.key_file)
        except KeyUnusable as error:
            raise SettingsError(f"{place}.key_file: {error}") from None
    for variable in (table.key_env,) if table.key_env else preset.key_env:
        value = environ.get(variable, "").strip()
        if not value:
            continue
        try:
            return Secret(check_key(value))
        except KeyUnusable as error:
            raise SettingsError(f"the environment variable {variable}: {error}") from None
    if table.key_env:
        # Other values may be a key, set by mistake.
        is_name = re.fullmatch(r"[A-Z][A-Z0-9_]*", table.key_env)
        subject = (
            f"the environment variable {table.key_env}" if is_name else "the variable it names"
        )
        raise SettingsError(f"{place}.key_env: {subject} is not set")
    return None

"""The key that client secrets and stream tokens are signed with."""

import secrets
from pathlib import Path
from typing import Final

import msgspec
import structlog

from ..identity.keys_file import read_keys_file
from .failure import SettingsError
from .values import Settings

MIN_CHARACTERS: Final = 32

log = structlog.get_logger("seseragi.settings")


def settle_signing_key(settings: Settings) -> Settings:
    """Decide what client secrets and stream tokens are signed with, the same for all workers.

    Raises:
        SettingsError: the key cannot be used, or replicas would have different ones.
    """
    identity = settings.identity
    if not identity.configured:
        return settings
    keys_file = identity.auth.keys_file
    kept = None
    if identity.auth.signing_key is None and keys_file is not None:
        kept = read_keys_file(Path(keys_file)).file.signing_key
    signing_key = choose_signing_key(settings, kept=kept)
    auth = msgspec.structs.replace(identity.auth, signing_key=signing_key)
    return msgspec.structs.replace(settings, identity=msgspec.structs.replace(identity, auth=auth))


def choose_signing_key(settings: Settings, *, kept: str | None = None) -> str:
    """Return the key of the settings, else the keys file's, `kept`, else one for this run.

    To be called once, where logs are configured and before any worker is forked: all workers
    have to sign with the same.

    Raises:
        SettingsError: it is too short, or replicas would each have one of their own.
    """
    given = settings.identity.auth.signing_key
    if given is not None:
        return _check(given, "auth.signing_key")
    if kept is not None:
        return _check(kept, "auth.keys_file: its signing key")
    if settings.log.startswith("redis"):
        raise SettingsError(
            "auth.signing_key: relays that share a log in Redis have to sign with the same key: "
            "set it, or SESERAGI_SIGNING_KEY, to the same 32 random characters or more for all, "
            "or give all the same keys file of `seseragi key new`"
        )
    if settings.log != "memory":
        log.warning(
            "links to streams end with this run, which the log outlives",
            remedy="set SESERAGI_SIGNING_KEY, or use a keys file of `seseragi key new`",
        )
    return secrets.token_urlsafe(MIN_CHARACTERS)


def _check(key: str, place: str) -> str:
    if len(key) < MIN_CHARACTERS:
        raise SettingsError(
            f"{place}: it has {len(key)} characters, and whoever guesses it is let in: "
            f"give {MIN_CHARACTERS} random ones or more, as of `openssl rand -base64 32`"
        )
    return key

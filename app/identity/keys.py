"""API keys of the relay, from the settings and from a file that may change.

A key is random, so its SHA-256 discloses nothing and needs no salt. Lookups are by digest.
"""

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from ..errors import RequestError
from .config import KeyConfig, parse_time
from .keys_file import KeysFile, KeysUnusable, Stamp, read_keys_file, stamp_of
from .principal import Principal

PREFIX = "ssk_"
MAX_KEY = 256
"""Characters; generated keys have 47."""

KEY_ID = 16
"""Characters of a key's digest that tokens made with it contain."""

LOOK_EVERY_S = 1.0
"""Seconds between checks of the file, and the maximum delay of a revocation."""

AT_ONCE = 2**16
"""Bytes of a file that is read on the event loop: some 250 keys in 5 ms."""

log = structlog.get_logger("seseragi.keys")


def make_key() -> str:
    """Return a new key: 256 random bits."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def digest(key: str) -> str:
    """Return the stored form of a key: its SHA-256, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


class Keys:
    """Verifies API keys.

    The file is reread after changes: it is checked when a key is used, at most once a second.
    While it is missing or invalid, the last keys remain valid, so that a mistake while
    replacing it locks nobody out: to revoke a key, remove it from the file.

    Raises:
        KeysUnusable: the file or a key cannot be used.
    """

    def __init__(
        self,
        configs: Sequence[KeyConfig],
        keys_file: Path | None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._configs = tuple(configs)
        self._file = keys_file
        self._clock = clock
        self._checked_at = clock()
        self._stamp: Stamp = None
        self._trouble: tuple[Stamp, str] | None = None
        self._reading: asyncio.Task[None] | None = None
        if keys_file is not None:
            self._stamp = stamp_of(keys_file)  # before reading: a later change is read again
        self._known = self._load()

    def become(self, other: "Keys") -> None:
        """Adopt the keys and the file of another instance."""
        vars(self).update(vars(other))

    async def verify(self, credential: str) -> Principal | None:
        """Return the principal of a key; None for other credentials and unknown keys.

        Raises:
            RequestError: `unauthenticated`, it has expired.
        """
        if not (credential.startswith(PREFIX) and len(credential) <= MAX_KEY):
            return None
        if not credential.isascii():
            return None
        await self.refresh()
        sha256 = digest(credential)
        key = self._known.by_digest.get(sha256)
        if key is None or not hmac.compare_digest(key.sha256, sha256):
            return None
        if key.has_ended(self._clock()):
            raise RequestError(
                "unauthenticated",
                f"the key {key.principal.key!r} ended at {key.expires}; use another one",
            )
        return key.principal

    def find(self, name: str, *, issued_at: float | None = None) -> Principal | None:
        """Return the current principal of a named key; None if it was revoked or has expired.

        With `issued_at`, also None if the key was created later: the token was made with an
        earlier key of that name.
        """
        self._refresh()
        key = self._known.by_name.get(name)
        if key is None or key.has_ended(self._clock()):
            return None
        if issued_at is not None and key.created_at is not None and issued_at < key.created_at:
            return None
        return key.principal

    def all(self) -> tuple[Principal, ...]:
        """Return the principals of all keys; the same tuple until the file changes."""
        self._refresh()
        return self._known.principals

    def signing_keys(self) -> tuple[str, ...]:
        """Return the file's keys of valid tokens, first the one that signs."""
        self._refresh()
        return self._known.file.signing_keys(self._clock())

    async def refresh(self) -> None:
        """Reread the file if it is due."""
        self._refresh()
        if self._reading is not None:
            await asyncio.shield(self._reading)

    def _refresh(self) -> None:
        """Reread the file if a check is due, and it has changed: a large one in a thread."""
        if self._file is None:
            return
        now = self._clock()
        if 0 <= now - self._checked_at < LOOK_EVERY_S:  # the clock may be set back
            return
        self._checked_at = now
        stamp = stamp_of(self._file)
        if stamp == self._stamp and self._trouble is None:
            return
        if stamp is not None and stamp[2] > AT_ONCE:
            self._reading = self._reading or asyncio.create_task(self._reread(stamp))
            return
        with self._replacing(stamp):
            self._known = self._load()

    async def _reread(self, stamp: Stamp) -> None:
        reading = self._reading
        try:
            with self._replacing(stamp):
                known = await asyncio.to_thread(self._load)
                if self._reading is reading:  # else it became another instance
                    self._known = known
        finally:
            if self._reading is reading:
                self._reading = None

    @contextmanager
    def _replacing(self, stamp: Stamp) -> Iterator[None]:
        """Log the outcome of reading the file again."""
        try:
            yield
        except KeysUnusable as error:
            # Retried even without a change: there may have been no free file descriptor.
            if self._trouble != (stamp, str(error)):
                log.warning("keys file unusable, keeping the keys that were known", why=str(error))
            self._trouble = (stamp, str(error))
        else:
            self._stamp, self._trouble = stamp, None
            log.info("keys read again", keys=len(self._known.by_name))

    def _load(self) -> "_Known":
        """Read all keys, in any thread."""
        if self._file is None:
            return _collect(self._configs, KeysFile())
        file, caution = read_keys_file(self._file)
        if caution:
            log.warning(caution, file=str(self._file))
        return _collect((*self._configs, *file.keys), file)

    def __repr__(self) -> str:
        return f"Keys({len(self._known.by_name)} known)"


def check_keys(configs: Sequence[KeyConfig], keys_file: Path | None) -> None:
    """Validate the keys that `Keys` would load.

    Raises:
        KeysUnusable: the file or a key cannot be used.
    """
    file = read_keys_file(keys_file).file if keys_file is not None else KeysFile()
    _collect((*configs, *file.keys), file)


class _Key(msgspec.Struct, frozen=True, gc=False):
    sha256: str
    principal: Principal
    expires: str | None
    """The expiry as its owner wrote it."""
    ends_at: float | None
    created_at: float | None

    def has_ended(self, now: float) -> bool:
        return self.ends_at is not None and self.ends_at <= now


class _Known(NamedTuple):
    by_digest: dict[str, _Key]
    by_name: dict[str, _Key]
    principals: tuple[Principal, ...]
    file: KeysFile
    """Without its keys."""


def _collect(configs: Iterable[KeyConfig], file: KeysFile) -> _Known:
    """Index keys by digest and by name.

    Raises:
        KeysUnusable: a name or a key occurs twice, or a time is invalid.
    """
    by_digest: dict[str, _Key] = {}
    by_name: dict[str, _Key] = {}
    for config in configs:
        if config.name in by_name:
            raise KeysUnusable(f"two keys have the name {config.name!r}; rename one")
        for key in _build(config):
            same = by_digest.setdefault(key.sha256, key)
            if same is not key:
                names = f"{same.principal.key!r} and {config.name!r}"
                raise KeysUnusable(f"{names} are the same key (sha256); revoke one")
            by_name.setdefault(config.name, key)
    principals = tuple(key.principal for key in by_name.values())
    return _Known(by_digest, by_name, principals, msgspec.structs.replace(file, keys=()))


def _build(config: KeyConfig) -> Iterator[_Key]:
    """Yield a key, then its previous ones, which have the same principal until their end."""
    try:
        expires_at, created_at = (
            None if text is None else parse_time(text)
            for text in (config.expires_at, config.created_at)
        )
    except ValueError as error:
        raise KeysUnusable(f"the key {config.name!r} has an invalid time: {error}") from None
    principal = Principal(
        tenant=config.tenant,
        user=config.user,
        key=config.name,
        key_id=config.id or config.sha256[:KEY_ID],
        models=config.models,
        origins=config.origins,
        roles=frozenset(config.roles),
        key_limits=config.limits,
        expires_at=expires_at,
    )
    yield _Key(config.sha256, principal, config.expires_at, expires_at, created_at)
    for one in config.previous:
        yield _Key(one.sha256, principal, one.expires_at.isoformat(), one.ends_at, created_at)

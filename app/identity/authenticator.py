"""Authentication of a credential by the configured schemes, in order."""

import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..clock import SYSTEM, Clock
from ..errors import RequestError
from .config import Identity
from .keys import Keys
from .principal import Principal
from .tokens import Tokens

if TYPE_CHECKING:
    from .issuers import Issuers


class Credentials(Protocol):
    """One authentication scheme: keys, JWTs of issuers, or the relay's tokens."""

    async def verify(self, credential: str) -> Principal | None:
        """Return the principal of a credential; None for one of another scheme, or an unknown one.

        Raises:
            RequestError: `unauthenticated`, it is of this scheme, but invalid or expired. The
                message has the reason in terms that only help its owner.
            ServiceError: `overloaded`, it cannot be verified at present.
        """


class Authenticator:
    """Verifies credentials by the configured schemes; without any it rejects all."""

    def __init__(
        self,
        schemes: Sequence[Credentials],
        *,
        keys: Keys | None = None,
        tokens: Tokens | None = None,
        issuers: "Issuers | None" = None,
        operators_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Try `schemes` in turn, then `issuers`; `keys` can be listed, `tokens` issued."""
        self.tokens = tokens
        """The issuer of client secrets and stream tokens; None if there is none."""
        self.operators_only = operators_only
        """Whether clients need no credential, and only operators have one."""
        self._schemes = tuple(schemes)
        self._keys = keys
        self._issuers = issuers
        self._clock = clock

    @classmethod
    def build(
        cls,
        identity: Identity,
        *,
        signing_key: str,
        trust: Callable[[], ssl.SSLContext],
        clock: Clock = SYSTEM,
    ) -> "Authenticator":
        """Build an authenticator for the configured keys, tokens and issuers.

        `trust` creates the TLS context for fetches from issuers, at the first fetch.

        Raises:
            KeysUnusable: the keys file or a key cannot be used.
        """
        keys_file = identity.auth.keys_file
        keys = Keys(identity.keys, None if keys_file is None else Path(keys_file), clock=clock.wall)
        fallbacks = identity.auth.signing_key_fallbacks
        tokens = Tokens(
            signing_key, fallbacks=fallbacks, file=keys, find_key=keys.find, clock=clock.wall
        )
        issuers = None
        if identity.issuers:
            from .issuers import Issuers

            issuers = Issuers(
                identity.issuers, trust=trust, clock=clock.wall, monotonic=clock.monotonic
            )
        return cls((keys, tokens), keys=keys, tokens=tokens, issuers=issuers, clock=clock.wall)

    async def authenticate(self, credential: str) -> Principal:
        """Return the principal of a credential.

        Raises:
            RequestError: `unauthenticated`, no scheme accepts it, or it is invalid or expired.
            ServiceError: `overloaded`, it cannot be verified at present.
        """
        principal = await self.find(credential)
        if principal is None:
            raise RequestError(
                "unauthenticated",
                "the credential is not known here: it is wrong, or was revoked; check which relay "
                "it is for",
            )
        return principal

    async def find(self, credential: str) -> Principal | None:
        """Return the principal of a credential; None if no scheme accepts it.

        Raises:
            RequestError: `unauthenticated`, it is invalid or expired.
            ServiceError: `overloaded`, it cannot be verified at present.
        """
        for scheme in (*self._schemes, self._issuers):  # issuers accept every JWT, ours too
            principal = None if scheme is None else await scheme.verify(credential)
            if principal is None:
                continue
            # Schemes check the expiry themselves, but may cache principals.
            if principal.expires_at is not None and principal.expires_at <= self._clock():
                raise RequestError(
                    "unauthenticated", "the credential has expired; ask for a new one"
                )
            return principal
        return None

    def keys(self) -> tuple[Principal, ...]:
        """Return the principals of all keys; the same tuple until a key changes."""
        return () if self._keys is None else self._keys.all()

    async def reconfigure(self, other: "Authenticator") -> None:
        """Adopt the keys and issuers of another authenticator; tokens stay valid."""
        if self._keys is not None and other._keys is not None:
            self._keys.become(other._keys)  # in place, since tokens refer to keys
        before, self._issuers = self._issuers, other._issuers
        if before is not None:
            await before.aclose()

    async def aclose(self) -> None:
        """Cancel background fetches of issuers' keys."""
        if self._issuers is not None:
            await self._issuers.aclose()

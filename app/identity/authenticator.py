"""Authentication of a credential by the configured schemes, in order."""

import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..clock import SYSTEM, Clock
from ..errors import RequestError
from .config import Identity
from .credentials import Credentials
from .issuers import Issuers
from .keys import Keys
from .principal import Principal
from .tokens import Tokens


class Authenticator:
    """Verifies credentials by the configured schemes; without any it rejects all."""

    def __init__(
        self,
        schemes: Sequence[Credentials],
        *,
        tokens: Tokens | None = None,
        operators_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = tokens
        """The issuer of client secrets and stream tokens; None if there is none."""
        self.operators_only = operators_only
        """Whether clients need no credential, and only operators have one."""
        self._schemes = tuple(schemes)
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
        tokens = Tokens(signing_key, find_key=keys.find, clock=clock.wall)
        # Last: issuers accept every JWT, the relay's own too.
        issuers = Issuers(
            identity.issuers, trust=trust, clock=clock.wall, monotonic=clock.monotonic
        )
        return cls((keys, tokens, issuers), tokens=tokens, clock=clock.wall)

    async def authenticate(self, credential: str) -> Principal:
        """Return the principal of a credential.

        Raises:
            RequestError: `unauthenticated`, no scheme accepts it, or it is invalid or expired.
            ServiceError: `overloaded`, it cannot be verified at present.
        """
        for scheme in self._schemes:
            principal = await scheme.verify(credential)
            if principal is None:
                continue
            # Schemes check the expiry themselves, but may cache principals.
            if principal.expires_at is not None and principal.expires_at <= self._clock():
                raise RequestError(
                    "unauthenticated", "the credential has expired; ask for a new one"
                )
            return principal
        raise RequestError(
            "unauthenticated",
            "the credential is not known here: it is wrong, or was revoked; check which relay "
            "it is for",
        )

    def keys(self) -> tuple[Principal, ...]:
        """Return the principals of all keys; the same tuple until a key changes."""
        found = [scheme for scheme in self._schemes if isinstance(scheme, Keys)]
        return found[0].all() if found else ()

    async def reconfigure(self, other: "Authenticator") -> None:
        """Adopt the keys and issuers of another authenticator; tokens stay valid."""
        before = self._schemes
        for current, new in zip(before, other._schemes, strict=True):
            if isinstance(current, Keys) and isinstance(new, Keys):
                current.become(new)  # in place, since tokens refer to keys
        self._schemes = tuple(
            new if isinstance(new, Issuers) else current
            for current, new in zip(before, other._schemes, strict=True)
        )
        for scheme in before:
            if isinstance(scheme, Issuers):
                await scheme.aclose()

    async def aclose(self) -> None:
        """Cancel background fetches of issuers' keys."""
        for scheme in self._schemes:
            if isinstance(scheme, Issuers):
                await scheme.aclose()

"""Finds who shows a credential, by asking each kind of credential in turn."""

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
    """Resolves credentials by the kinds that are configured; without any it knows nobody."""

    def __init__(
        self,
        schemes: Sequence[Credentials],
        *,
        keys: Keys | None = None,
        tokens: Tokens | None = None,
        issuers: Issuers | None = None,
        operators_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepare it; `schemes` are asked in turn, and the `issuers` after them.

        `keys` and `tokens` are those of them that can be listed, and made.
        """
        self.tokens = tokens
        """What makes client secrets and stream tokens; None where there are none."""
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
        """Build an authenticator of the keys, tokens and issuers that the settings name.

        `trust` makes what the certificates of issuers are checked against, at the first fetch.

        Raises:
            KeysUnusable: the keys file or a key cannot be used.
        """
        keys_file = identity.auth.keys_file
        keys = Keys(identity.keys, None if keys_file is None else Path(keys_file), clock=clock.wall)
        tokens = Tokens(signing_key, find_key=keys.find, clock=clock.wall)
        issuers = Issuers(
            identity.issuers, trust=trust, clock=clock.wall, monotonic=clock.monotonic
        )
        return cls((keys, tokens), keys=keys, tokens=tokens, issuers=issuers, clock=clock.wall)

    async def authenticate(self, credential: str) -> Principal:
        """Return who shows a credential.

        Raises:
            RequestError: `unauthenticated`, no kind knows it, or it is not, or no longer, valid.
            ServiceError: `overloaded`, nobody can tell now.
        """
        for scheme in (*self._schemes, self._issuers):  # those know every JWT, our own too
            principal = None if scheme is None else await scheme.verify(credential)
            if principal is None:
                continue
            # Each kind looks at the time itself, but may remember who it has seen.
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
        """Return whose keys are known; the same tuple until one has changed."""
        return () if self._keys is None else self._keys.all()

    async def reconfigure(self, other: "Authenticator") -> None:
        """Take the keys and issuers of another one of the same kinds; tokens stay valid."""
        if self._keys is not None and other._keys is not None:
            self._keys.become(other._keys)  # in its place, since tokens stand on keys
        if self._issuers is not None:
            before, self._issuers = self._issuers, other._issuers
            await before.aclose()

    async def aclose(self) -> None:
        """End fetches of issuers' keys that go on in the background."""
        if self._issuers is not None:
            await self._issuers.aclose()

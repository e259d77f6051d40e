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
        tokens: Tokens | None = None,
        operators_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tokens = tokens
        """What makes client secrets and stream tokens; None where there are none."""
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
        """Build an authenticator of the keys, tokens and issuers that the settings name.

        `trust` makes what the certificates of issuers are checked against, at the first fetch.

        Raises:
            KeysUnusable: the keys file or a key cannot be used.
        """
        keys_file = identity.auth.keys_file
        keys = Keys(identity.keys, None if keys_file is None else Path(keys_file), clock=clock.wall)
        tokens = Tokens(signing_key, find_key=keys.find, clock=clock.wall)
        # Issuers know every JWT, the relay's own too.
        issuers = Issuers(
            identity.issuers, trust=trust, clock=clock.wall, monotonic=clock.monotonic
        )
        return cls((keys, tokens, issuers), tokens=tokens, clock=clock.wall)

    async def authenticate(self, credential: str) -> Principal:
        """Return who shows a credential.

        Raises:
            RequestError: `unauthenticated`, no kind knows it, or it is not, or no longer, valid.
            ServiceError: `overloaded`, nobody can tell now.
        """
        for scheme in self._schemes:
            principal = await scheme.verify(credential)
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
        found = [scheme for scheme in self._schemes if isinstance(scheme, Keys)]
        return found[0].all() if found else ()

    async def reconfigure(self, other: "Authenticator") -> None:
        """Take the keys and issuers of another one of the same kinds; tokens stay valid."""
        before = self._schemes
        for own, new in zip(before, other._schemes, strict=True):
            if isinstance(own, Keys) and isinstance(new, Keys):
                own.become(new)  # in its place, since tokens stand on keys
        self._schemes = tuple(
            new if isinstance(new, Issuers) else own
            for own, new in zip(before, other._schemes, strict=True)
        )
        for scheme in before:
            if isinstance(scheme, Issuers):
                await scheme.aclose()

    async def aclose(self) -> None:
        """End fetches of issuers' keys that go on in the background."""
        for scheme in self._schemes:
            if isinstance(scheme, Issuers):
                await scheme.aclose()

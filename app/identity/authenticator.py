"""Who shows a credential: every kind of credential is asked in its turn."""

import time
from collections.abc import Callable, Sequence

from ..errors import RequestError
from .credentials import Credentials
from .principal import Principal


class Authenticator:
    """Resolves credentials by the kinds that are configured; without any it knows nobody."""

    def __init__(
        self, schemes: Sequence[Credentials], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._schemes = tuple(schemes)
        self._clock = clock

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

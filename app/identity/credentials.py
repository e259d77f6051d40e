"""Interface of authentication schemes."""

from typing import Protocol

from .principal import Principal


class Credentials(Protocol):
    """One authentication scheme: keys, JWTs of issuers, or the relay's tokens."""

    async def verify(self, credential: str) -> Principal | None:
        """Return the principal of a credential; None for one of another scheme, or an unknown one.

        Raises:
            RequestError: `unauthenticated`, it is of this scheme, but invalid or expired. The
                message has the reason in terms that only help its owner.
            ServiceError: `overloaded`, it cannot be verified at present.
        """

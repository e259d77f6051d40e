"""What every kind of credential has in common."""

from typing import Protocol

from .principal import Principal


class Credentials(Protocol):
    """One kind of credential: keys, JWTs of issuers, tokens of our own."""

    async def verify(self, credential: str) -> Principal | None:
        """Return who shows a credential; None for one that is not of this kind, or unknown.

        Raises:
            RequestError: `unauthenticated`, it is of this kind and not, or no longer, valid.
                The message says why in words that help its owner and nobody else.
            ServiceError: `overloaded`, nobody can tell now.
        """

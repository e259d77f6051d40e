"""Credentials that tests make up: who shows which is in a table."""

from collections.abc import Mapping

from app.errors import RequestError
from app.identity.authenticator import Authenticator
from app.identity.principal import Principal

EXPIRED = "expired-credential"


class Table:
    """A kind of credential whose every credential is known here; it counts how often it is asked."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self.principals = principals
        self.asked = 0

    async def verify(self, credential: str) -> Principal | None:
        self.asked += 1
        if credential == EXPIRED:
            raise RequestError("unauthenticated", "the credential has expired; ask for a new one")
        return self.principals.get(credential)


def known(**principals: Principal) -> Authenticator:
    """Return what knows these, by credentials such as `key-me` for `me`."""
    return Authenticator([Table({f"key-{name}": who for name, who in principals.items()})])


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-{name}"}

"""`GET /v1/usage`: the caller's usage, and the rest of its limits."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RequestError
from ..generation.account_reader import AccountReader
from ..identity.principal import check_may
from ..identity.tokens import Tokens
from ..ledger.accounts import Account
from ..ledger.limits import UNLIMITED
from .body import document
from .request import principal_of, read_query

MAX_NAME: Final = 256
"""Characters of a name in the query."""


class Usage:
    """The endpoint that reports usage."""

    def __init__(self, reader: AccountReader, tokens: Tokens | None) -> None:
        self._reader = reader
        self._tokens = tokens

    async def get(self, request: Request) -> Response:
        """Report the caller's accounts; to an admin any account."""
        of = self._read_account(request)
        principal = principal_of(request)
        check_may(principal)
        if "admin" in principal.roles:
            return document(await self._reader.report((of or self._reader.accounts.relay(),)))
        if of is not None:
            raise RequestError(
                "forbidden",
                "tenant, user, key: other accounts need a key with the role 'admin'; "
                "leave them out",
            )
        return document(await self._reader.report(self._reader.accounts.accounts_of(principal)))

    def _read_account(self, request: Request) -> Account | None:
        """Return the account that the query names, for admins only."""
        tenant, user, key = (_read_name(request, name) for name in ("tenant", "user", "key"))
        accounts = self._reader.accounts
        if key is not None:
            if tenant is not None or user is not None:
                raise RequestError("invalid_request", "key: send it without tenant and user")
            limits = UNLIMITED if self._tokens is None else self._tokens.key_limits(key)
            return accounts.key(key, limits)
        if user is not None:
            return accounts.user(tenant or "", user)
        return None if tenant is None else accounts.tenant(tenant)


def _read_name(request: Request, name: str) -> str | None:
    value = read_query(request, name)
    if value is not None and not 0 < len(value) <= MAX_NAME:
        raise RequestError("invalid_request", f"{name}: send 1 to {MAX_NAME} characters")
    return value


def routes(reader: AccountReader, tokens: Tokens | None) -> list[Route]:
    return [Route("/v1/usage", Usage(reader, tokens).get, methods=["GET"])]

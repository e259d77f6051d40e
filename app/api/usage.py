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
from ..ledger.config import UNLIMITED
from .endpoints import document
from .request import principal_of, read_query

MAX_NAME: Final = 256
"""Characters of a name in the query."""


def routes(reader: AccountReader, tokens: Tokens | None) -> list[Route]:
    async def get(request: Request) -> Response:
        """Report the caller's accounts; to an admin any account."""
        of = _read_account(request, reader, tokens)
        principal = principal_of(request)
        check_may(principal)
        if "admin" in principal.roles:
            return document(await reader.usage((of or reader.accounts.relay(),)))
        if of is not None:
            raise RequestError(
                "forbidden",
                "tenant, user, key: other accounts need a key with the role 'admin'; "
                "leave them out",
            )
        return document(await reader.usage(reader.accounts.accounts_of(principal)))

    return [Route("/v1/usage", get, methods=["GET"])]


def _read_account(request: Request, reader: AccountReader, tokens: Tokens | None) -> Account | None:
    """Return the account that the query names, for admins only."""
    tenant, user, key = (_read_name(request, name) for name in ("tenant", "user", "key"))
    accounts = reader.accounts
    if key is not None:
        if tenant is not None or user is not None:
            raise RequestError("invalid_request", "key: send it without tenant and user")
        return accounts.key(key, UNLIMITED if tokens is None else tokens.key_limits(key))
    if user is not None:
        return accounts.user(tenant or "", user)
    return None if tenant is None else accounts.tenant(tenant)


def _read_name(request: Request, name: str) -> str | None:
    value = read_query(request, name)
    if value is not None and not 0 < len(value) <= MAX_NAME:
        raise RequestError("invalid_request", f"{name}: send 1 to {MAX_NAME} characters")
    return value

"""`GET /metrics`, for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RelayError, RequestError
from ..generation.account_reader import AccountReader
from ..identity.principal import ANYONE
from ..ledger.accounts import Account, AccountState
from ..telemetry.metrics import PLAIN, Metrics
from .request import principal_of

READERS = frozenset(("metrics", "admin"))
"""The roles that may read them."""


def routes(metrics: Metrics, reader: AccountReader) -> list[Route]:
    async def get(request: Request) -> Response:
        principal = principal_of(request)
        if principal is not ANYONE and not principal.roles & READERS:
            raise RequestError(
                "forbidden", "the metrics require a key with the role 'metrics' or 'admin'"
            )
        used = await _read_limited(reader)
        headers = {"cache-control": "no-store", "content-type": PLAIN}
        return Response(await metrics.render(used), headers=headers)

    return [Route("/metrics", get, methods=["GET"])]


async def _read_limited(reader: AccountReader) -> list[tuple[Account, AccountState]]:
    """Return the named accounts that have limits; none while the log cannot be read."""
    limited = [account for account in reader.list_named()[0] if account.has_limit()]
    if not limited:
        return []
    try:
        return await reader.read(limited)
    except RelayError:
        return []

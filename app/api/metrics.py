"""`GET /metrics`, for Prometheus."""

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..admin.money import Accounts
from ..errors import RequestError
from ..generation.hub import Hub
from ..identity.principal import ANYONE, Principal
from ..telemetry.metrics import Metrics
from .request import principal_of

READERS = frozenset(("metrics", "admin"))
"""The roles that may."""


def routes(metrics: Metrics, hub: Hub, keys: Callable[[], Sequence[Principal]]) -> list[Route]:
    named = Accounts(hub.accounting.limits)

    async def get(request: Request) -> Response:
        nonlocal named
        principal = principal_of(request)
        if principal is not ANYONE and not principal.roles & READERS:
            raise RequestError(
                "forbidden", "the metrics are for keys with the role 'metrics' or 'admin'"
            )
        if named.limits is not hub.accounting.limits:  # reloaded
            named = Accounts(hub.accounting.limits)
        accounts = [account for account in named.known(keys())[0] if account.has_limits]
        used = await hub.read_accounts(accounts) if accounts else []
        body, media_type = await metrics.render(request.headers.get("accept", ""), used)
        headers = {"cache-control": "no-store", "content-type": media_type}
        return Response(body, headers=headers)

    return [Route("/metrics", get, methods=["GET"])]

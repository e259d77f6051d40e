"""`GET /healthz` and `GET /readyz`, the probes, and `GET /metrics`, for Prometheus."""

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import RelayError, RequestError
from ..generation.account_reader import AccountReader
from ..generation.hub import Hub
from ..identity.principal import ANYONE, Principal, check_may
from ..ledger.accounts import Account, AccountState
from ..telemetry.metrics import PLAIN, Metrics
from ..upstreams.routes import Health
from .endpoints import document
from .request import principal_of, read_query

READERS = frozenset(("metrics", "admin"))
"""The roles that may read the metrics."""


class ProcessStatus(msgspec.Struct, omit_defaults=True):
    """The state of the process, and of its targets if they were asked for."""

    status: str
    targets: list[Health] | None = None


def routes(hub: Hub, accounts: AccountReader, measured: Metrics | None) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return document(ProcessStatus("ok"))

    async def readyz(request: Request) -> Response:
        status = ProcessStatus(hub.readiness)
        if read_query(request, "verbose") is not None:
            _check_all_models(principal_of(request))
            status.targets = hub.upstreams.health(now=asyncio.get_running_loop().time())
        return document(status, status_code=200 if status.status == "ready" else 503)

    probes = [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
    ]
    if measured is None:
        return probes

    async def metrics(request: Request) -> Response:
        principal = principal_of(request)
        if principal is not ANYONE and not principal.roles & READERS:
            raise RequestError(
                "forbidden", "the metrics require a key with the role 'metrics' or 'admin'"
            )
        headers = {"cache-control": "no-store", "content-type": PLAIN}
        return Response(await measured.render(await _read_limited(accounts)), headers=headers)

    return [*probes, Route("/metrics", metrics, methods=["GET"])]


def _check_all_models(principal: Principal) -> None:
    check_may(principal)
    if principal.models is not None:
        raise RequestError(
            "forbidden",
            "verbose: the health of targets needs a credential that may use every model",
        )


async def _read_limited(reader: AccountReader) -> list[tuple[Account, AccountState]]:
    """Return the named accounts that have limits; none while the log cannot be read."""
    limited = [account for account in reader.list_named()[0] if account.has_limit()]
    if not limited:
        return []
    try:
        return await reader.read(limited)
    except RelayError:
        return []

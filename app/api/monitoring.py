"""The probes `GET /healthz` and `GET /readyz`, `GET /metrics` for Prometheus, and `GET /v1/echo`.

The last echoes the request's headers, to debug proxies: only those that identify proxies or that
clients of the relay depend on, since others may be secrets that a proxy adds.
"""

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import __version__
from ..errors import RelayError, RequestError
from ..generation.account_reader import AccountReader
from ..generation.hub import Hub
from ..identity.principal import ANYONE, Principal, check_may
from ..ledger.accounts import Account, AccountState
from ..telemetry.metrics import PLAIN, Metrics
from ..upstreams.routes import Health
from .endpoints import document
from .http_settings import HttpSettings
from .request import principal_of, read_query

READERS = frozenset(("metrics", "admin"))
"""The roles that may read the metrics."""

ECHOED: Final = frozenset(
    (
        *("host", "via", "forwarded", "cdn-loop", "connection", "te"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto"),
        *("accept", "accept-encoding", "prefer", "last-event-id", "idempotency-key", "origin"),
    )
)
MAX_VALUE: Final = 512
"""The most characters of a header; longer ones are cut."""
MAX_HEADERS: Final = 40


class ProcessStatus(msgspec.Struct, omit_defaults=True):
    """The state of the process, and of its targets if they were asked for."""

    status: str
    targets: list[Health] | None = None


class Echo(msgspec.Struct):
    """A request as it arrived."""

    version: str
    http_version: str
    client: str | None
    headers: list[list[str]]
    """Names with values."""
    heartbeat_s: float
    max_request_bytes: int


def routes(
    hub: Hub, http_settings: HttpSettings, accounts: AccountReader, measured: Metrics | None
) -> list[Route]:
    async def healthz(request: Request) -> Response:
        return document(ProcessStatus("ok"))

    async def readyz(request: Request) -> Response:
        status = ProcessStatus(hub.readiness)
        if read_query(request, "verbose") is not None:
            _check_all_models(principal_of(request))
            status.targets = hub.upstreams.health(now=asyncio.get_running_loop().time())
        return document(status, status_code=200 if status.status == "ready" else 503)

    async def echo(request: Request) -> Response:
        headers = [
            [name.decode("latin-1"), value.decode("latin-1")[:MAX_VALUE]]
            for name, value in request.scope["headers"]
            if name.decode("latin-1") in ECHOED
        ]
        return document(
            Echo(
                version=__version__,
                http_version=request.scope["http_version"],
                client=request.client.host if request.client else None,
                headers=headers[:MAX_HEADERS],
                heartbeat_s=http_settings.heartbeat_s,
                max_request_bytes=http_settings.max_request_bytes,
            )
        )

    found = [
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/v1/echo", echo, methods=["GET"]),
    ]
    if measured is None:
        return found

    async def metrics(request: Request) -> Response:
        principal = principal_of(request)
        if principal is not ANYONE and not principal.roles & READERS:
            raise RequestError(
                "forbidden", "the metrics require a key with the role 'metrics' or 'admin'"
            )
        headers = {"cache-control": "no-store", "content-type": PLAIN}
        return Response(await measured.render(await _read_limited(accounts)), headers=headers)

    return [*found, Route("/metrics", metrics, methods=["GET"])]


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

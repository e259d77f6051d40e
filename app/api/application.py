"""The routes, and the ASGI app that serves them."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from ..addresses import is_loopback
from ..admin.service import AdminService
from ..errors import RelayError
from ..generation.account_reader import AccountReader
from ..generation.hub import Hub
from ..identity.authenticator import Authenticator
from ..identity.hook import IdentifyHook
from ..identity.principal import Principal
from ..identity.tokens import Tokens
from ..policies.deadlines import Limits
from ..settings import Settings
from ..settings.convert import same_fields
from ..telemetry.metrics import Metrics
from ..upstreams.client_headers import REQUEST_ID
from . import (
    client_secrets,
    forwarding,
    generation,
    models,
    monitoring,
    openapi,
    page,
    responses,
    single_call,
    stream_watch,
    streams,
    ui,
    usage,
)
from .authentication import Authentication
from .checkpoints import Checkpoints
from .deliveries import Deliveries
from .endpoints import HttpParts
from .generation import MODEL
from .guard import LOCAL_ORIGINS, Guard, HostNames
from .http_settings import HttpSettings
from .middleware import RequestMiddleware, Watch
from .problems import RATE_LIMIT_HEADERS
from .responses_socket import ResponsesSocket
from .watches import RequestSpans, log_request

if TYPE_CHECKING:
    from ..telemetry.tracing import Tracing

EXPOSED_HEADERS = (
    *("stream-id", "content-location", "location"),
    # Read by official clients before they retry.
    *("retry-after", "x-should-retry", "x-request-id", "request-id"),
    *("www-authenticate", "seseragi-estimated", "seseragi-ignored"),
    *("seseragi-cassette", REQUEST_ID, "openai-processing-ms"),
    *RATE_LIMIT_HEADERS,
)

_MODULES = (
    *(generation, client_secrets, single_call, forwarding),
    *(responses, stream_watch, streams, ui),
)
"""The modules whose endpoints take `HttpParts`."""


def build_app(
    settings: Settings,
    routes: Sequence[BaseRoute],
    hub: Hub,
    *,
    authenticator: Authenticator | None,
    measured: Metrics | None,
    tracing: "Tracing | None",
    hook: IdentifyHook | None,
) -> ASGIApp:
    """Build the ASGI app that serves the routes of a hub.

    Without `tracing` requests have no spans. A `hook` identifies callers instead of credentials.
    """
    local_origins = settings.local_origins
    if local_origins is None:  # allowed if only this machine can reach the relay
        # With a hook the server is the host application's, and pages bring cookies.
        local_origins = hook is None and is_loopback(settings.host)
    add_cors = partial(
        CORSMiddleware,
        allow_origins=settings.cors_origins,
        allow_origin_regex=LOCAL_ORIGINS if local_origins else None,
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("*",),
        allow_private_network=True,  # for allowed origins
        allow_credentials=hook is not None,
        expose_headers=EXPOSED_HEADERS,
    )
    guard = Guard(
        HostNames(settings.host, settings.allowed_hosts),
        origins=settings.cors_origins,
        local_origins=local_origins,
    )
    paths = _paths_of(routes)
    watches: list[Watch] = [log_request] if settings.access_log else []
    if tracing is not None:
        watches.append(RequestSpans(tracing, partial(_path_of_route, paths)).watch)
    served: ASGIApp = RequestMiddleware(
        routes,
        guard=guard,
        authentication=Authentication(
            authenticator, loopback_only=not settings.identity.trusted, hook=hook
        ),
        add_cors=add_cors,
        on_refused=partial(_report_refusal, hub),
        on_answer=None if measured is None else partial(_count, paths, measured),
        watches=watches,
        serve_socket=ResponsesSocket(
            hub,
            send_timeout_s=settings.send_timeout_s,
            max_bytes=settings.max_request_bytes,
        )
        if settings.responses_websocket
        else None,
    )
    if settings.trusted_proxies:  # whose forwarded headers are trusted
        trusted = list(settings.trusted_proxies)
        served = cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, served), trusted_hosts=trusted))
    return served


def _paths_of(routes: Sequence[BaseRoute]) -> dict[object, str]:
    """Return the path template of each endpoint."""
    return {
        route.app if isinstance(route, Mount) else route.endpoint: route.path
        for route in routes
        if isinstance(route, Mount | Route)
    }


def _report_refusal(hub: Hub, request: Request, principal: Principal, error: RelayError) -> None:
    """Report a request that failed without a stream to the observers."""
    scope = request.scope
    hub.report_refusal(principal, scope.get("request_id", ""), scope.get(MODEL), error)


def _count(paths: Mapping[object, str], measured: Metrics, scope: Scope, status: int) -> None:
    """Count an answer, by its route if there is one."""
    measured.answered(paths.get(scope.get("endpoint")), scope["method"], status)


def _path_of_route(paths: Mapping[object, str], scope: Scope) -> str | None:
    """Return the path template of the route of a request."""
    return paths.get(scope.get("endpoint"))


def build_routes(
    settings: Settings,
    hub: Hub,
    *,
    tokens: Tokens | None,
    accounts: AccountReader,
    measured: Metrics | None,
    admin_service: AdminService | None,
    with_session: bool,
) -> list[BaseRoute]:
    """List all routes; `with_session`: a host application identifies users."""
    http_settings = HttpSettings(
        **same_fields(settings, HttpSettings),
        longest_s=find_longest_s(settings),
        client_secret_s=settings.identity.auth.client_secret_s,
    )
    checkpoints = Checkpoints(keep_s=settings.retention_s)
    parts = HttpParts(hub, http_settings, tokens, Deliveries(), checkpoints)
    static = static_folder()
    routes: list[BaseRoute] = [
        *(route for module in _MODULES for route in module.routes(parts)),
        *models.routes(hub),
        *usage.routes(accounts, tokens),
        *monitoring.routes(hub, http_settings, accounts, measured),
        *page.routes(static, admin_service, with_session=with_session),
    ]
    return [*routes, *openapi.routes(routes, root_path=settings.root_path)]


def find_longest_s(settings: Settings) -> float:
    """Return the longest time that a stream may run, over all targets."""
    limits = Limits(total_timeout_s=settings.total_timeout_s)
    targets = (target for route in settings.routes for target in route.targets)
    return max([limits.total_timeout_s, *(t.limits(limits).total_timeout_s for t in targets)])


def static_folder() -> Path:
    """Return the folder of the page: inside the installed package, beside it in a checkout."""
    package = Path(__file__).parent.parent
    installed = package / "static"
    return installed if installed.is_dir() else package.parent / "static"

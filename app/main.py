"""The composition root: builds everything from the settings, and the app around it.

`app` is what ASGI servers serve. `create_app` gives one of its own settings, to be mounted.
"""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from .addresses import is_loopback
from .admission import Shares
from .api import (
    chat,
    client_secrets,
    counting,
    embeddings,
    health,
    messages,
    models,
    page,
    problems,
    responses,
    share,
    streams,
    ui,
)
from .api.authentication import Authentication
from .api.guard import LOCAL_ORIGINS, Guard
from .api.hosts import HostNames
from .api.middleware import CommonHeaders, ReadBeforeAnswer
from .api.paths import path_of
from .api.policy import HttpSettings
from .deadlines import Limits
from .demo import DemoTransport
from .dialects.client_formats import client_format_of
from .errors import RelayError, RequestError, ServiceError
from .eventlog import EventLog, LogUnusable, opening
from .eventlog.lost import LostStream
from .generation.hub import Hub, HubLimits
from .identity.authenticator import Authenticator
from .identity.keys import check_keys
from .identity.keys_file import KeysUnusable, read_keys_file
from .identity.tokens import Tokens
from .retry import Rules
from .settings import Settings, SettingsError, load_settings
from .settings.first_minute import Start, costly_upstreams, settle_access
from .settings.signing import choose_signing_key
from .settings.upstreams import DEMO
from .telemetry.access_logs import hide_tokens_in_access_logs
from .telemetry.logs import configure_logs
from .telemetry.observer import Ended, Observer, Observers
from .telemetry.stream_log import StreamLog
from .upstreams.client import open_client, open_trust
from .upstreams.routes import Upstreams

EXPOSED_HEADERS = (
    *("stream-id", "content-location", "location", "etag"),
    # What official clients look at before they send a request again.
    *("retry-after", "x-should-retry", "x-request-id", "request-id"),
    *("www-authenticate", "seseragi-estimated", "seseragi-ignored"),
)


def build_observers() -> list[Observer]:
    """Build what is told of every stream; to add another observer, add it here."""
    return [StreamLog()]


def build_hub(settings: Settings, *, observers: Sequence[Observer] | None = None) -> Hub:
    """Build what runs the generations, and tells the observers of them.

    Raises:
        SettingsError: the default model is none that the settings know.
    """
    demo = (DEMO,) if settings.demo or not settings.upstreams else ()
    upstreams = Upstreams(
        (*demo, *settings.upstreams),
        routes=settings.routes,
        default_model=settings.default_model,
        passthrough=settings.passthrough,
        attempts=settings.attempts,
        rules=Rules(
            window_s=settings.breaker_window_s,
            pause_s=settings.breaker_pause_s,
            longest_pause_s=max(settings.breaker_pause_s, settings.breaker_longest_pause_s),
        ),
    )
    if not (settings.passthrough or settings.routes or demo):
        raise SettingsError("passthrough: it is false, so a [[route]] is needed; there is none")
    if settings.default_model is not None:
        try:
            upstreams.resolve(None)
        except RequestError as error:
            raise SettingsError(f"default_model: {error}") from None
    return Hub(
        upstreams=upstreams,
        client=open_client(
            connect_timeout_s=settings.connect_timeout_s,
            mounts={"all://demo": DemoTransport()} if demo else {},
        ),
        event_log=build_log(settings),
        limits=Limits(
            connect_timeout_s=settings.connect_timeout_s,
            first_event_timeout_s=settings.first_event_timeout_s,
            fallback_after_s=settings.fallback_after_s,
            event_gap_timeout_s=settings.event_gap_timeout_s,
            idle_timeout_s=settings.idle_timeout_s,
            total_timeout_s=settings.total_timeout_s,
            max_line=settings.max_line_bytes,
            max_event=settings.max_event_bytes,
        ),
        capacity=HubLimits(max_streams=settings.max_streams, max_readers=settings.max_readers),
        shares=Shares(
            max_streams_per_address=settings.max_streams_per_address,
            max_starts_per_minute_per_address=settings.max_starts_per_minute_per_address,
            max_readers_per_address=settings.max_readers_per_address,
            max_requests_bytes=settings.max_requests_bytes,
        ),
        observers=build_observers() if observers is None else observers,
    )


def settle_identity(settings: Settings) -> Start:
    """Decide who may ask, and check the keys there are; make one for this run if that is needed.

    Raises:
        SettingsError: nobody could ask, or a key or the keys file cannot be used.
    """
    start = settle_access(settings)
    identity = start.settings.identity
    keys_file = identity.auth.keys_file
    try:
        check_keys(identity.keys, None if keys_file is None else Path(keys_file))
    except KeysUnusable as error:
        raise SettingsError(f"auth: {error}") from None
    return start


def build_log(settings: Settings) -> EventLog:
    """Build the event log, which is opened with the hub.

    Raises:
        SettingsError: no log can be built of what they say.
    """
    try:
        return opening.build_log(
            settings.log,
            workers=settings.workers,
            retention_s=settings.retention_s,
            max_bytes=settings.max_log_bytes,
            max_stream_bytes=settings.max_stream_bytes,
            max_stream_events=settings.max_stream_events,
        )
    except opening.LogRefused as error:
        raise SettingsError(str(error)) from None


def prepare_log(settings: Settings) -> None:
    """Make the log ready for several workers; tell the observers of streams that it ended.

    Raises:
        LogUnusable: the place of the log cannot be used.
    """
    observers = Observers(build_observers())

    def tell(lost: Sequence[LostStream]) -> None:
        for stream in lost:
            observers.ended(Ended.of_lost(stream))

    opening.prepare_log(settings.log, on_lost=tell)


class App:
    """The relay as an ASGI app.

    Its lifespan opens what the settings name and closes it. A server runs that by itself; an
    app in which this one is mounted has to be given it: `Starlette(..., lifespan=relay.lifespan)`.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._served: ASGIApp | None = None

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open the relay, and close it at the end.

        Without settings they are read from the environment and `seseragi.toml`.

        Raises:
            SettingsError: they cannot be used.
            LogUnusable: the place of the log cannot be used.
        """
        start = settle_identity(self._settings or load_settings(os.environ))
        settings = start.settings
        if not structlog.is_configured():  # else whoever mounts it has said how to log
            configure_logs(format=settings.log_format, level=settings.log_level, libraries=False)
        hide_tokens_in_access_logs()
        settings = settle_signing_key(settings)
        hub, authenticator = build_hub(settings), build_authenticator(settings)
        await hub.open()
        self._served = build_app(settings, hub, authenticator)
        start.tell(settings.port)
        try:
            yield
        finally:
            self._served = None
            if authenticator is not None:
                await authenticator.aclose()
            await hub.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _run_lifespan(self.lifespan(), receive, send)
        elif self._served is None:
            error = ServiceError(
                "internal",
                "the relay has not been opened: the app that it is mounted in has to run its "
                "lifespan, as in Starlette(..., lifespan=relay.lifespan)",
            )
            response = problems.failure(
                client_format_of(path_of(scope), scope["headers"]), error, Request(scope)
            )
            await response(scope, receive, send)
        else:
            await self._served(scope, receive, send)


def create_app(settings: Settings | None = None) -> App:
    """Build the relay as an ASGI app, to be served or to be mounted.

    Without settings they are read from the environment and `seseragi.toml` when it is opened.
    """
    return App(settings)


def settle_signing_key(settings: Settings) -> Settings:
    """Decide what client secrets and stream tokens are signed with, the same for all workers.

    Raises:
        SettingsError: the key cannot be used, or replicas would have different ones.
    """
    identity = settings.identity
    if not identity.configured:
        return settings
    keys_file = identity.auth.keys_file
    kept = None
    if identity.auth.signing_key is None and keys_file is not None:
        kept = read_keys_file(Path(keys_file)).file.signing_key
    signing_key = choose_signing_key(settings, kept=kept)
    auth = msgspec.structs.replace(identity.auth, signing_key=signing_key)
    return msgspec.structs.replace(settings, identity=msgspec.structs.replace(identity, auth=auth))


def build_authenticator(settings: Settings) -> Authenticator | None:
    """Build what knows who asks; None where nobody has to say it.

    Raises:
        SettingsError: a key or the keys file cannot be used.
    """
    if not settings.identity.configured:
        return None
    identity = settle_signing_key(settings).identity
    signing_key = identity.auth.signing_key
    assert signing_key is not None  # noqa: S101  (it is settled)
    try:
        return Authenticator.build(identity, signing_key=signing_key, trust=open_trust)
    except KeysUnusable as error:
        raise SettingsError(f"auth: {error}") from None


def build_app(settings: Settings, hub: Hub, authenticator: Authenticator | None = None) -> ASGIApp:
    """Build what serves a hub that is open, to those whom the authenticator knows.

    Without one it is built of the settings.
    """
    if authenticator is None:
        authenticator = build_authenticator(settings)
    tokens = None if authenticator is None else authenticator.tokens
    app = Starlette(
        routes=build_routes(settings, hub, tokens),
        exception_handlers={
            RelayError: problems.on_relay_error,
            HTTPException: problems.on_http_error,
            Exception: problems.on_bug,
        },
    )
    app.router.redirect_slashes = False  # an absolute URL, wrong behind a proxy
    local_origins = settings.local_origins
    if local_origins is None:  # where only this machine can reach the relay
        local_origins = is_loopback(settings.host)
    authenticated = Authentication(
        app,
        authenticator,
        closed=not settings.identity.trusted and any(costly_upstreams(settings)),
    )
    # Around it, so that pages can read why they were refused.
    with_cors = CORSMiddleware(
        authenticated,
        allow_origins=settings.cors_origins,
        allow_origin_regex=LOCAL_ORIGINS if local_origins else None,
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("*",),
        expose_headers=EXPOSED_HEADERS,
    )
    guarded = Guard(
        with_cors,
        HostNames(settings.host, settings.allowed_hosts),
        origins=settings.cors_origins,
        local_origins=local_origins,
    )
    # Around Starlette and not in it, so that the answer to a bug has these headers too.
    served: ASGIApp = ReadBeforeAnswer(CommonHeaders(guarded))
    if settings.trusted_proxies:  # whose word on who the client is counts
        trusted = list(settings.trusted_proxies)
        served = cast(ASGIApp, ProxyHeadersMiddleware(cast(Any, served), trusted_hosts=trusted))
    return served


def build_routes(settings: Settings, hub: Hub, tokens: Tokens | None = None) -> list[BaseRoute]:
    """List all routes of the HTTP interface."""
    policy = HttpSettings(
        gate_s=settings.gate_s,
        heartbeat_s=settings.heartbeat_s,
        retry_ms=settings.retry_ms,
        linger_s=settings.linger_s,
        send_timeout_s=settings.send_timeout_s,
        drain_s=settings.drain_s,
        max_request_bytes=settings.max_request_bytes,
        retention_s=settings.retention_s,
        longest_s=_longest_s(settings),
        client_secret_s=settings.identity.auth.client_secret_s,
    )
    return [
        *chat.routes(hub, policy, tokens),
        *client_secrets.routes(hub, policy, tokens),
        *counting.routes(hub, policy),
        *embeddings.routes(hub, policy),
        *messages.routes(hub, policy, tokens),
        *responses.routes(hub, policy, tokens),
        *share.routes(hub, policy, tokens),
        *streams.routes(hub, policy),
        *ui.routes(hub, policy),
        *models.routes(hub),
        *health.routes(hub),
        *page.routes(static_folder()),
    ]


def _longest_s(settings: Settings) -> float:
    """Return how long a stream may run, whatever its target."""
    limits = Limits(total_timeout_s=settings.total_timeout_s)
    targets = (target for route in settings.routes for target in route.targets)
    return max([limits.total_timeout_s, *(t.limits(limits).total_timeout_s for t in targets)])


def static_folder() -> Path:
    """Find the page's files: inside the package once installed, beside it in a checkout."""
    package = Path(__file__).parent
    installed = package / "static"
    return installed if installed.is_dir() else package.parent / "static"


async def _run_lifespan(
    lifespan: AbstractAsyncContextManager[None], receive: Receive, send: Send
) -> None:
    """Speak ASGI's lifespan protocol; a failure that settings can mend is told in one line."""
    await receive()
    try:
        async with lifespan:
            await send({"type": "lifespan.startup.complete"})
            await receive()
    except (SettingsError, LogUnusable) as error:
        await send({"type": "lifespan.startup.failed", "message": f"seseragi: {error}"})
        return
    await send({"type": "lifespan.shutdown.complete"})


app = App()
"""For `uvicorn app.main:app`, and every other ASGI server."""

"""A relay within a process of others: all that the settings name, opened and closed together.

The lifespan of the app, `seseragi.testing` and the tests open it so. The command puts the same
parts together in `app/__main__.py`, around its server and its workers.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from starlette.types import ASGIApp

from .api.operator import OperatorPaths
from .asgi import build_app
from .composition import (
    NO_SUBSTITUTES,
    Substitutes,
    build_authenticator,
    build_hub,
    build_log,
    build_metrics,
    build_tracing,
    opened,
    settle_signing_key,
)
from .eventlog import LogParts
from .generation.hub import Hub
from .identity.hook import Identify, IdentifyHook
from .peers import Peers
from .server import Server
from .settings import Settings
from .telemetry.metrics import Metrics

MAX_CONNECTIONS = 65_536
"""The limit even where more files may be open: 640 MiB at 10 KiB for an idle connection."""

OPERATOR_CONNECTIONS = 100


class Relay:
    """An open relay: `app` serves it, the other attributes are its parts."""

    def __init__(
        self, *, app: ASGIApp, hub: Hub, log_parts: LogParts, metrics: Metrics | None
    ) -> None:
        self.app = app
        self.hub = hub
        self.log_parts = log_parts
        self.event_log = log_parts.log
        self.metrics = metrics

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        substitutes: Substitutes = NO_SUBSTITUTES,
        identify: Identify | None = None,
    ) -> AsyncIterator[Self]:
        """Open a relay, and close it at the end of the `async with`.

        The settings say who may ask: `settle_identity`, or with `identify` `settle_hook`, has
        completed them.

        Raises:
            SettingsError: a setting cannot be used.
            LogUnusable: the event log cannot be opened.
        """
        settings = settle_signing_key(settings)
        log_parts = build_log(settings, substitutes.clock)
        if substitutes.wrap_log is not None:
            log_parts = log_parts.with_log(substitutes.wrap_log(log_parts.log))
        hub = build_hub(settings, log_parts=log_parts, substitutes=substitutes)
        authenticator = substitutes.authenticator or build_authenticator(
            settings, substitutes.clock
        )
        metrics, tracing = build_metrics(settings, hub), build_tracing(settings)
        async with opened(hub, authenticator, metrics, tracing):
            hook = None if identify is None else IdentifyHook(identify)
            app = build_app(settings, hub, authenticator, metrics, tracing, hook)
            yield cls(app=app, hub=hub, log_parts=log_parts, metrics=metrics)


def build_server(
    settings: Settings,
    app: ASGIApp,
    hub: Hub,
    metrics: Metrics | None = None,
    *,
    others_answer: Callable[[], bool],
    on_listening: Callable[[], None],
    stop_now: Callable[[], None],
    obeys_signals: bool = True,
) -> Server:
    """Build the HTTP server of a relay, which drains the hub when it is told to stop.

    Where an operator has a port, the end waits for a last scrape of the metrics.
    """

    async def drain() -> None:
        await hub.drain(settings.drain_s)
        if metrics is not None and settings.operator_port is not None:
            await metrics.wait_for_scrape(settings.last_scrape_s, unless=hub.shutdown.hastened)

    return _build_server(
        settings,
        app,
        most=settings.max_connections or MAX_CONNECTIONS,
        each=settings.max_connections_per_address,
        others_answer=others_answer,
        on_listening=on_listening,
        drain=drain,
        stop_now=stop_now,
        obeys_signals=obeys_signals,
    )


def build_operator_server(settings: Settings, app: ASGIApp) -> Server:
    """Build the HTTP server of the operator's port, with connections that clients cannot take."""

    async def stays() -> None:
        """Whoever serves it says when it ends."""

    return _build_server(
        settings,
        OperatorPaths(app),
        most=OPERATOR_CONNECTIONS,
        each=OPERATOR_CONNECTIONS,
        others_answer=lambda: False,
        on_listening=lambda: None,
        drain=stays,
        stop_now=lambda: None,
        obeys_signals=False,
    )


def _build_server(settings: Settings, app: ASGIApp, *, most: int, each: int, **how: Any) -> Server:
    return Server(
        app,
        peers=Peers(most, each=each, trusted=settings.trusted_proxies),
        send_timeout_s=settings.send_timeout_s,
        min_reader_rate=settings.min_reader_rate,
        keepalive_s=settings.keepalive_s,
        root_path=settings.root_path,
        count_bytes=settings.access_log,
        **how,
    )

"""The composition of a relay: its parts, opened and closed together.

The command, the lifespan of the app, `seseragi.testing` and the tests open a relay here.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Self

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from .admin.history import History
from .admin.service import AdminService
from .api.application import build_app, build_routes
from .composition import (
    NO_SUBSTITUTES,
    Substitutes,
    build_authenticator,
    build_cassette_recorder,
    build_log,
    build_metrics,
    build_observers,
    build_parts,
    build_recorder,
    build_tracing,
    build_upstreams,
    build_webhooks,
    check_takeover,
    describe_process,
    load_formats,
    open_cassettes,
)
from .eventlog import LogParts
from .generation.account_reader import AccountReader
from .generation.hub import Hub
from .generation.parts import Parts
from .identity.authenticator import Authenticator
from .identity.hook import Identify, IdentifyHook
from .ledger.config import LedgerConfig
from .ledger.prices import PriceBook
from .settings import Settings
from .settings.access import settle_signing_key
from .telemetry.logs import LineCounter
from .telemetry.metrics import LabelNames, Metrics
from .telemetry.observer import Observers
from .telemetry.shared_counters import SharedCounters
from .upstreams.routes import Upstreams


class Reloaded(NamedTuple):
    """The parts of reloaded settings, for later streams."""

    ledger: LedgerConfig
    prices: PriceBook
    upstreams: Upstreams
    authenticator: Authenticator | None


@dataclass(frozen=True, kw_only=True)
class Relay:
    """An open relay: `app` serves it, the other attributes are its parts."""

    settings: Settings
    app: ASGIApp
    routes: Sequence[BaseRoute]
    hub: Hub
    parts: Parts
    log_parts: LogParts
    authenticator: Authenticator | None
    metrics: Metrics | None
    admin_service: AdminService | None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        substitutes: Substitutes = NO_SUBSTITUTES,
        identify: Identify | None = None,
        lines: LineCounter | None = None,
        shared_counters: Sequence[SharedCounters] = (),
        own_index: int = 0,
    ) -> AsyncIterator[Self]:
        """Open a relay, and close it at the end of the `async with`.

        `settle_identity`, or with `identify` `settle_hook`, has completed the settings. The metrics
        count `lines` of the log; `shared_counters` are those of all workers, and `own_index` is the
        index of this process's.

        Raises:
            SettingsError: a setting cannot be used.
            LogUnusable: the event log cannot be opened.
        """
        load_formats()
        settings = settle_signing_key(settings)
        folder = open_cassettes(settings)
        upstreams = build_upstreams(settings, folder)
        log_parts = build_log(settings, substitutes.clock)
        if substitutes.wrap_log is not None:
            log_parts = log_parts.with_log(substitutes.wrap_log(log_parts.log))
        recorder = build_recorder(settings, log_parts.rows)
        authenticator = substitutes.authenticator or build_authenticator(
            settings, substitutes.clock
        )
        history = History((), ()) if settings.admin else None
        metrics = build_metrics(
            settings,
            upstreams,
            recorder,
            shared_counters=shared_counters,
            own_index=own_index,
        )
        tracing = build_tracing(settings)
        if metrics is not None and lines is not None:
            lines.count_by(metrics.logged)
        observers = build_observers(settings, recorder, history, metrics, tracing)
        if substitutes.observers is not None:  # in place of the log line
            observers[:1] = substitutes.observers
        fan_out = Observers(observers)
        parts = build_parts(
            settings,
            upstreams=upstreams,
            folder=folder,
            log_parts=log_parts,
            recorder=recorder,
            observer=fan_out,
            substitutes=substitutes,
        )
        check_takeover(parts, log_parts)
        webhooks = build_webhooks(settings, log_parts.rows, parts.client, metrics)
        for webhook in webhooks:
            fan_out.add(webhook)
        hub = Hub(
            parts,
            max_readers=settings.max_readers,
            cassette_recorder=build_cassette_recorder(settings, folder),
            takeover=log_parts.takeover,
        )
        keys = tuple if authenticator is None else authenticator.keys
        accounts = AccountReader(parts, log_parts.accounts, keys)
        admin_service = None
        if history is not None:
            about = describe_process(settings, recorder)
            admin_service = AdminService(
                parts,
                hub,
                accounts=accounts,
                history=history,
                broadcast=log_parts.broadcast,
                about=about,
            )
        routes = build_routes(
            settings,
            hub,
            tokens=None if authenticator is None else authenticator.tokens,
            accounts=accounts,
            measured=metrics,
            admin_service=admin_service,
            with_session=identify is not None,
        )
        app = build_app(
            settings,
            routes,
            hub,
            authenticator=authenticator,
            measured=metrics,
            tracing=tracing,
            hook=None if identify is None else IdentifyHook(identify),
        )
        async with AsyncExitStack() as stack:
            if tracing is not None:
                tracing.open()  # before the log, which may end orphaned streams when it opens
                stack.push_async_callback(tracing.aclose)
            stack.push_async_callback(parts.client.aclose)
            await hub.open()
            stack.push_async_callback(parts.event_log.close)
            for service in (recorder, *webhooks, admin_service):
                if service is not None:
                    await service.open()
                    stack.push_async_callback(service.close)
            stack.push_async_callback(hub.close)
            if authenticator is not None:
                stack.push_async_callback(authenticator.aclose)
            if metrics is not None:
                metrics.open(hub.load)
                stack.callback(metrics.close)
            yield cls(
                settings=settings,
                app=app,
                routes=routes,
                hub=hub,
                parts=parts,
                log_parts=log_parts,
                authenticator=authenticator,
                metrics=metrics,
                admin_service=admin_service,
            )

    async def reconfigure(self, reloaded: Reloaded) -> None:
        """Use reloaded settings for all later streams and calls."""
        parts = self.parts
        parts.upstreams.become(reloaded.upstreams)
        parts.reservations = parts.reservations.with_limits(reloaded.ledger.limits, reloaded.prices)
        parts.settlements = parts.settlements.with_prices(reloaded.prices)
        if self.admin_service is not None:
            self.admin_service.reconfigure()
        if self.metrics is not None:
            self.metrics.rename(LabelNames(parts.upstreams))
        if self.authenticator is not None and reloaded.authenticator is not None:
            await self.authenticator.reconfigure(reloaded.authenticator)

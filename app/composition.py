"""Builders of a relay's parts from the settings; `app/relay.py` composes them."""

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import httpx2

from .admin.service import About
from .cassettes.folder import Folder
from .cassettes.player import CassetteTransport
from .clock import SYSTEM, Clock
from .demo import DemoTransport
from .dialects.client_formats import CLIENT_FORMATS
from .errors import RequestError
from .eventlog import EventLog, LogParts, opening
from .eventlog.stream_ended import StreamEnded
from .eventlog.waiting_rows import RECORDS, RowQueues, WaitingRows
from .generation.cassette_recorder import CassetteRecorder
from .generation.parts import Parts
from .generation.reservation import Reservations
from .generation.settlement import Settlements
from .generation.via import ViaName
from .hooks.contract import Hook, Hooks
from .hooks.endpoint import Endpoint
from .identity.authenticator import Authenticator
from .identity.keys import Keys
from .identity.keys_file import KeysUnusable
from .ledger.genai import open_catalog
from .ledger.prices import PriceBook
from .plugins import PluginError
from .policies.admission import Admission, Shares
from .policies.deadlines import Limits
from .policies.retry import Rules
from .settings import Settings, SettingsError
from .settings.convert import same_fields
from .settings.load import read_span_limits
from .settings.upstreams import DEMO
from .telemetry.metrics import LabelNames, Metrics
from .telemetry.observer import OBSERVERS, Observer, Observers
from .telemetry.shared_counters import SharedCounters
from .telemetry.stream_log import StreamLog
from .upstreams.cassettes import CASSETTE
from .upstreams.http import HttpClient, open_client, open_trust
from .upstreams.routes import Upstreams

if TYPE_CHECKING:
    from .records.content_hook import Redact
    from .records.recorder import Recorder
    from .telemetry.tracing import Tracing
    from .webhooks.deliverer import Deliverer


class Substitutes(NamedTuple):
    """Parts of a relay that a test replaces."""

    clock: Clock = SYSTEM
    transports: Mapping[str, httpx2.AsyncBaseTransport] = MappingProxyType({})
    """Upstreams without a socket, by the URL pattern to mount them at in httpx2."""
    observers: Sequence[Observer] | None = None
    authenticator: Authenticator | None = None
    prices: PriceBook | None = None
    keeps_rows: bool = False
    """Whether the event log stores the rows of ended streams, as it does for records."""
    wrap_log: Callable[[EventLog], EventLog] | None = None
    """Returns a wrapper of the event log."""


NO_SUBSTITUTES = Substitutes()


def build_observers(settings: Settings, *optional: Observer | None) -> list[Observer]:
    """List the observers of streams: the log line, and those that the settings turn on."""
    named = [OBSERVERS.find(name)() for name in settings.observers]
    return [StreamLog(), *(one for one in optional if one is not None), *named]


def load_formats() -> None:
    """Load the client formats of installed packages, which add routes.

    Raises:
        SettingsError: one cannot be used.
    """
    try:
        CLIENT_FORMATS.load_all()
    except PluginError as error:
        raise SettingsError(str(error)) from error.__cause__


def build_metrics(
    settings: Settings,
    upstreams: Upstreams,
    recorder: "Recorder | None" = None,
    *,
    shared_counters: Sequence[SharedCounters] = (),
    own_index: int = 0,
) -> Metrics | None:
    """Build the metrics of this process; None if they are off.

    `shared_counters` are those of all workers, and `own_index` is the index of this process's.
    """
    if not settings.metrics:
        return None
    return Metrics(
        LabelNames(upstreams),
        shared_counters,
        own_index,
        process=os.getpid(),
        rows_waiting=None if recorder is None else lambda: recorder.state.waiting,
    )


def build_tracing(settings: Settings) -> "Tracing | None":
    """Build the tracing, which has to be opened; None if it is off.

    Raises:
        SettingsError: its library is not installed, or an OTEL_* variable is not supported.
    """
    if not settings.traces:
        return None
    try:
        from .telemetry.tracing import Tracing
    except ImportError:
        raise SettingsError(
            "traces: OpenTelemetry is not installed; in the checkout: pip install '.[otel]'"
        ) from None
    limits = read_span_limits(os.environ, content=settings.trace_content)
    if limits is None:
        return None
    return Tracing(spans=limits.spans, batch=limits.batch, delay_ms=limits.delay_ms)


def build_settlements(
    settings: Settings,
    prices: PriceBook,
    recorder: "Recorder | None" = None,
    *,
    keeps_rows: bool = False,
) -> Settlements:
    """Build the settlements; without a recorder, the records are never unavailable."""
    return Settlements(
        prices,
        keeps_rows=keeps_rows or settings.records is not None or bool(settings.webhooks),
        records_away=lambda: recorder is not None and recorder.state.away_since is not None,
    )


def check_takeover(parts: Parts, log_parts: LogParts) -> None:
    """Check that the answers of routes with `takeover` can be taken over.

    Raises:
        SettingsError: those of one cannot.
    """
    for route in parts.upstreams.routes.values():
        if not route.takeover:
            continue
        place = f"route {route.name!r}.takeover"
        if log_parts.takeover is None:
            raise SettingsError(
                f"{place}: the log ends with its process; "
                "use --log sqlite:///PATH or --log redis://HOST/DB"
            )
        if parts.hooks is not None and parts.hooks.of(route.name, "answer"):
            raise SettingsError(
                f"{place}: an answer that hooks check cannot be taken over; "
                "give the hook other routes, or on = ['request']"
            )


def build_price_book(settings: Settings) -> PriceBook:
    """Build the price book: the settings, then genai-prices if it is installed.

    Its providers have HTTPS only; without one, its 11 MiB are not loaded.
    """
    base_urls = {
        upstream.name: upstream.base_url
        for upstream in settings.upstreams
        if upstream.base_url.startswith("https:")
    }
    catalog = open_catalog(base_urls) if base_urls else None
    return PriceBook(settings.ledger.prices, catalog, free=(DEMO.name, CASSETTE.name))


def build_recorder(settings: Settings, waiting: WaitingRows) -> "Recorder | None":
    """Build the recorder of rows; None if records are off.

    Raises:
        SettingsError: the database or the content hook cannot be used.
    """
    if settings.records is None:
        return None
    try:
        from .records.address import Address, RecordsRefused
        from .records.database import Database
        from .records.recorder import Recorder
    except ImportError:
        extra = "postgresql" if settings.records.startswith("postgresql") else "records"
        raise SettingsError(
            f"records: SQLAlchemy is not installed; in the checkout: pip install '.[{extra}]'"
        ) from None
    try:
        return Recorder(
            waiting,
            Database(Address(settings.records)),
            retention_days=settings.records_retention_days,
            redact=build_redact(settings),
        )
    except RecordsRefused as error:
        raise SettingsError(f"records: {error}") from None


def build_redact(settings: Settings) -> "Redact":
    """Build the function that redacts recorded content.

    Raises:
        SettingsError: the content hook cannot be used.
    """
    from .records.content_hook import Hook, HookUnusable, keep_all

    hook = settings.record_content_hook
    try:
        return keep_all if hook is None else Hook(hook)
    except HookUnusable as error:
        raise SettingsError(f"record_content_hook: {error}") from None


def build_webhooks(
    settings: Settings, rows: RowQueues, client: HttpClient, metrics: Metrics | None
) -> "Sequence[Deliverer]":
    """Build what delivers to the webhooks.

    Raises:
        SettingsError: the content hook cannot be used.
    """
    if not settings.webhooks:
        return ()
    from .webhooks.deliverer import Deliverer

    redact = build_redact(settings)
    return [Deliverer(one, rows, client, redact, metrics) for one in settings.webhooks]


def list_queues(settings: Settings) -> Sequence[str]:
    """List the queues of the rows of ended streams."""
    webhooks = [webhook.queue for webhook in settings.webhooks]
    return webhooks if webhooks and settings.records is None else [RECORDS, *webhooks]


def open_cassettes(settings: Settings) -> Folder | None:
    """Return the folder of cassettes, created for recording; None if there is none.

    Raises:
        SettingsError: it cannot be used.
    """
    records = settings.record_cassettes != "off"
    if settings.cassettes is None:
        if records:
            raise SettingsError(
                "record_cassettes: it needs 'cassettes', the folder in which they are kept"
            )
        return None
    path = Path(settings.cassettes)
    try:
        if records:
            path.mkdir(parents=True, exist_ok=True)
        is_folder = path.is_dir()
    except OSError as error:
        raise SettingsError(f"cassettes: {str(path)!r} cannot be used: {error.strerror}") from None
    if not is_folder:
        raise SettingsError(f"cassettes: there is no folder {str(path)!r}; make it")
    return Folder(path)


def build_cassette_recorder(settings: Settings, folder: Folder | None) -> CassetteRecorder | None:
    """Build the recorder of cassettes; None without a folder."""
    if folder is None:
        return None
    return CassetteRecorder(
        folder,
        mode=settings.record_cassettes,
        keeps_requests=settings.cassette_requests,
        excluded=(DEMO.name, CASSETTE.name),
    )


def build_upstreams(settings: Settings, folder: Folder | None) -> Upstreams:
    """Build the upstreams and routes, with the cassettes of a folder if there is one.

    Raises:
        SettingsError: no model can be used, or the default model is unknown.
    """
    demo = (DEMO,) if settings.demo or not settings.upstreams else ()
    signing_key = settings.identity.auth.signing_key or ""
    upstreams = Upstreams(
        (*demo, *settings.upstreams),
        routes=settings.routes,
        default_model=settings.default_model,
        passthrough=settings.passthrough,
        attempts=settings.attempts,
        rules=Rules(
            window_s=settings.breaker_window_s,
            pause_s=settings.breaker_pause_s,
            max_pause_s=max(settings.breaker_pause_s, settings.breaker_max_pause_s),
        ),
        cassettes=None if folder is None else folder.names,
        affinity_secret=blake2b(signing_key.encode(), person=b"affinity").digest(),
    )
    if not (settings.passthrough or settings.routes or demo):
        raise SettingsError("passthrough: it is false, so a [[route]] is needed; there is none")
    if settings.default_model is not None:
        try:
            upstreams.resolve(None)
        except RequestError as error:
            raise SettingsError(f"default_model: {error}") from None
    return upstreams


def build_parts(
    settings: Settings,
    *,
    upstreams: Upstreams,
    folder: Folder | None,
    log_parts: LogParts,
    recorder: "Recorder | None",
    observer: Observers,
    substitutes: Substitutes,
) -> Parts:
    """Build the parts that all streams and calls share."""
    mounts: dict[str, httpx2.AsyncBaseTransport] = {"all://demo": DemoTransport()}
    if folder is not None:
        mounts[f"all://{httpx2.URL(CASSETTE.base_url).host}"] = CassetteTransport(folder)
    clock, prices = substitutes.clock, substitutes.prices or build_price_book(settings)
    client = open_client(
        connect_timeout_s=settings.connect_timeout_s,
        mounts={**mounts, **substitutes.transports},
        shared=settings.share_upstream_connections,
    )
    return Parts(
        upstreams=upstreams,
        client=client,
        event_log=log_parts.log,
        accounts=log_parts.accounts,
        peers=log_parts.peers,
        limits=Limits(
            max_line=settings.max_line_bytes,
            max_event=settings.max_event_bytes,
            **same_fields(settings, Limits),
        ),
        reservations=Reservations(settings.ledger.limits, prices, wall=clock.wall),
        settlements=build_settlements(
            settings, prices, recorder, keeps_rows=substitutes.keeps_rows
        ),
        admission=Admission(
            Shares(**same_fields(settings, Shares)),
            max_streams=settings.max_streams,
            clock=clock.monotonic,
        ),
        observer=observer,
        via_name=ViaName(),
        clock=clock,
        trace_content=settings.traces and settings.trace_content,
        hooks=build_hooks(settings, client),
    )


def build_hooks(settings: Settings, client: HttpClient) -> Hooks | None:
    """Build the hooks; None without any."""
    hooks = [
        Hook(
            call=one.function or Endpoint(one.name, one.url, client, secret=one.secret),
            **same_fields(one, Hook),
        )
        for one in settings.hooks
    ]
    return Hooks(hooks) if hooks else None


def describe_process(settings: Settings, recorder: "Recorder | None") -> About:
    """Return what the admin page shows of this process and its settings."""
    kind, records = settings.log.partition(":")[0], settings.records
    return About(
        host=platform.node()[:100],
        pid=os.getpid(),
        log="redis" if kind.startswith("redis") else kind,
        records=None if records is None else records.partition(":")[0],
        rows_waiting=int if recorder is None else lambda: recorder.state.waiting,
    )


def build_log(settings: Settings, clock: Clock = SYSTEM) -> LogParts:
    """Build the event log; the hub opens it.

    Raises:
        SettingsError: the URL of the log cannot be used.
    """
    try:
        return opening.build_log(
            settings.log,
            workers=settings.workers,
            retention_s=settings.retention_s,
            max_bytes=settings.max_log_bytes,
            max_stream_bytes=settings.max_stream_bytes,
            max_stream_events=settings.max_stream_events,
            clock=clock,
            queues=list_queues(settings),
        )
    except opening.LogRefused as error:
        raise SettingsError(str(error)) from None


def prepare_log(settings: Settings, observers: Sequence[Observer]) -> None:
    """Prepare the log for several workers; report the orphaned streams that it ends.

    Raises:
        LogUnusable: the log cannot be opened.
    """
    fan_out = Observers(observers)

    def on_orphans(orphans: Sequence[StreamEnded]) -> None:
        for ended in orphans:
            fan_out.ended(ended)

    close = build_settlements(settings, build_price_book(settings)).close_orphaned
    queues = list_queues(settings)
    opening.prepare_log(settings.log, on_orphans=on_orphans, close=close, queues=queues)


def build_authenticator(settings: Settings, clock: Clock = SYSTEM) -> Authenticator | None:
    """Build the authenticator; None without any keys.

    Without configured credentials it knows operators' keys only. The settings must have their
    signing key: see `settle_signing_key`.

    Raises:
        SettingsError: a key or the keys file cannot be used.
    """
    identity = settings.identity
    signing_key = identity.auth.signing_key
    keys_file = identity.auth.keys_file
    try:
        if not identity.configured:
            if not identity.keys and keys_file is None:
                return None
            path = None if keys_file is None else Path(keys_file)
            keys = Keys(identity.keys, path, clock=clock.wall)
            return Authenticator((keys,), keys=keys, operators_only=True, clock=clock.wall)
        assert signing_key is not None  # noqa: S101  (it is settled)
        return Authenticator.build(identity, signing_key=signing_key, trust=open_trust, clock=clock)
    except KeysUnusable as error:
        raise SettingsError(f"auth: {error}") from None

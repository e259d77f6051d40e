"""The composition root: builds all that the settings name."""

import os
import platform
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import httpx2
import msgspec

from .admin.desk import About, Desk
from .admission import Shares
from .cassettes.folder import Folder
from .cassettes.transport import CassetteTransport
from .clock import SYSTEM, Clock
from .deadlines import Limits
from .demo import DemoTransport
from .errors import RequestError
from .eventlog import EventLog, opening
from .eventlog.stream_ended import StreamEnded
from .generation.accounting import Accounting
from .generation.hub import Hub, HubLimits
from .generation.taping import Taping
from .identity.authenticator import Authenticator
from .identity.keys import Keys, check_keys
from .identity.keys_file import KeysUnusable, read_keys_file
from .ledger.genai import open_catalog
from .ledger.prices import PriceBook
from .retry import Rules
from .settings import Settings, SettingsError
from .settings.first_minute import Start, settle_access
from .settings.signing import choose_signing_key
from .settings.traces import read_span_limits
from .settings.upstreams import DEMO
from .telemetry.areas import Area
from .telemetry.metrics import Metrics, Names, RecordsState
from .telemetry.observer import Observer, Observers
from .telemetry.stream_log import StreamLog
from .upstreams.cassettes import CASSETTE
from .upstreams.client import open_client, open_trust
from .upstreams.options import SAFE_WORD
from .upstreams.routes import Upstreams

if TYPE_CHECKING:
    from .records.recorder import Recorder
    from .telemetry.tracing import Tracing


class Substitutes(NamedTuple):
    """Parts of a relay that a test puts in the place of those that the settings name."""

    clock: Clock = SYSTEM
    transports: Mapping[str, httpx2.AsyncBaseTransport] = MappingProxyType({})
    """Upstreams without a socket, by the URL pattern that httpx2 mounts them at."""
    observers: Sequence[Observer] | None = None
    authenticator: Authenticator | None = None
    prices: PriceBook | None = None
    keeps_rows: bool = False
    """Whether the event log keeps the rows of ended streams, as it does for records."""
    wrap_log: Callable[[EventLog], EventLog] | None = None
    """Returns what stands between the relay and its event log."""


NO_SUBSTITUTES = Substitutes()


def build_observers() -> list[Observer]:
    """Build what is told of every stream; to add another observer, add it here."""
    return [StreamLog()]


def build_metrics(
    settings: Settings,
    hub: Hub,
    *,
    areas: Sequence[Area] = (),
    own: int = 0,
) -> Metrics | None:
    """Build what measures a hub and what is answered; None if the settings want none.

    `areas` are those of all workers, and `own` is the number of this process's.
    """
    if not settings.metrics:
        return None
    records = None
    if settings.records is not None:
        from .records.recorder import Recorder

        (recorder,) = (one for one in hub.services if isinstance(one, Recorder))
        records = partial(_state_of_records, recorder)
    built = Metrics(
        Names(hub.upstreams), areas, own, process=os.getpid(), look=hub.load, records=records
    )
    hub.observe(built)
    return built


def _state_of_records(recorder: "Recorder") -> RecordsState:
    return RecordsState(recorder.state.waiting, recorder.state.failures)


def build_tracing(settings: Settings) -> "Tracing | None":
    """Build what makes spans, once it is opened; None if the settings want none.

    Raises:
        SettingsError: its library is not there, or the environment says what it cannot do.
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
    return Tracing(
        spans=limits.spans,
        batch=limits.batch,
        delay_ms=limits.delay_ms,
        trusts_flags=settings.trust_trace_flags,
    )


def build_accounting(
    settings: Settings, *, substitutes: Substitutes = NO_SUBSTITUTES
) -> Accounting:
    """Build what knows limits and prices."""
    return Accounting(
        settings.ledger,
        substitutes.prices or build_price_book(settings),
        keeps_rows=substitutes.keeps_rows or settings.records is not None,
        wall=substitutes.clock.wall,
    )


def build_price_book(settings: Settings) -> PriceBook:
    """Build what knows prices: those of the settings, then those of genai-prices, if it is here."""
    base_urls = {upstream.name: upstream.base_url for upstream in settings.upstreams}
    catalog = open_catalog(base_urls) if base_urls else None
    return PriceBook(settings.ledger.prices, catalog, free=(DEMO.name, CASSETTE.name))


def build_recorder(settings: Settings, event_log: EventLog) -> "Recorder | None":
    """Build what writes the records; None where there are to be none.

    Raises:
        SettingsError: they cannot be where the settings say.
    """
    if settings.records is None:
        return None
    try:
        from .records.address import Address, RecordsRefused
        from .records.database import Database
        from .records.recorder import Recorder
        from .records.redaction import Hook, HookUnusable, keep_all
    except ImportError:
        extra = "postgresql" if settings.records.startswith("postgresql") else "records"
        raise SettingsError(
            f"records: SQLAlchemy is not installed; in the checkout: pip install '.[{extra}]'"
        ) from None
    hook = settings.record_content_hook
    try:
        return Recorder(
            event_log,
            Database(Address(settings.records)),
            retention_days=settings.records_retention_days,
            redact=keep_all if hook is None else Hook(hook),
        )
    except RecordsRefused as error:
        raise SettingsError(f"records: {error}") from None
    except HookUnusable as error:
        raise SettingsError(f"record_content_hook: {error}") from None


def open_cassettes(settings: Settings) -> Folder | None:
    """Find the folder of cassettes, made where they are to be recorded; None where there is none.

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
    folder = Folder(path)
    if settings.record_cassettes == "new":
        with suppress(OSError):  # who writes there is told when it cannot be read
            folder.clean()
    return folder


def build_taping(settings: Settings, folder: Folder | None) -> Taping | None:
    """Build what replays and records cassettes; None where there are none."""
    if folder is None:
        return None
    return Taping(
        folder,
        mode=settings.record_cassettes,
        keeps_requests=settings.cassette_requests,
        apart=(DEMO.name, CASSETTE.name),
    )


def build_upstreams(settings: Settings, folder: Folder | None) -> Upstreams:
    """Build the upstreams and routes, with the cassettes of a folder if there is one.

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
        cassettes=None if folder is None else folder.names,
    )
    if not (settings.passthrough or settings.routes or demo):
        raise SettingsError("passthrough: it is false, so a [[route]] is needed; there is none")
    if settings.default_model is not None:
        try:
            upstreams.resolve(None)
        except RequestError as error:
            raise SettingsError(f"default_model: {error}") from None
    return upstreams


def build_hub(
    settings: Settings,
    *,
    event_log: EventLog | None = None,
    substitutes: Substitutes = NO_SUBSTITUTES,
) -> Hub:
    """Build what runs the generations, and tells the observers of them.

    Raises:
        SettingsError: the default model is none that the settings know.
    """
    folder = open_cassettes(settings)
    upstreams = build_upstreams(settings, folder)
    event_log = event_log or build_log(settings)
    recorder = build_recorder(settings, event_log)
    observers = build_observers() if substitutes.observers is None else substitutes.observers
    accounting = build_accounting(settings, substitutes=substitutes)
    mounts: dict[str, httpx2.AsyncBaseTransport] = {"all://demo": DemoTransport()}
    if folder is not None:
        mounts[f"all://{httpx2.URL(CASSETTE.base_url).host}"] = CassetteTransport(folder)
    if recorder is not None:
        accounting.records_away = lambda: recorder.state.away_since is not None
    hub = Hub(
        upstreams=upstreams,
        client=open_client(
            connect_timeout_s=settings.connect_timeout_s,
            mounts={**mounts, **substitutes.transports},
        ),
        event_log=event_log,
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
        accounting=accounting,
        observers=observers if recorder is None else [*observers, recorder],
        services=() if recorder is None else [recorder],
        tells_content=settings.traces and settings.trace_content,
        taping=build_taping(settings, folder),
        clock=substitutes.clock,
    )
    if settings.admin:
        hub.services = [*hub.services, build_desk(settings, hub, event_log, recorder)]
    return hub


def build_desk(
    settings: Settings, hub: Hub, event_log: EventLog, recorder: "Recorder | None"
) -> Desk:
    """Build what shows an operator how all processes fare."""
    kind, records = settings.log.partition(":")[0], settings.records
    return Desk(
        hub,
        event_log,
        About(
            host=platform.node()[:100],
            pid=os.getpid(),
            log="redis" if kind.startswith("redis") else kind,
            records=None if records is None else records.partition(":")[0],
            limits=settings.ledger.limits,
            rows_waiting=int if recorder is None else lambda: recorder.state.waiting,
        ),
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


def settle_hook(settings: Settings) -> Settings:
    """Complete the settings of a relay whose host application identifies the callers.

    Raises:
        SettingsError: they say themselves who may ask, or let every page use the cookies of users.
    """
    identity = settings.identity
    if identity.trusted or identity.keys or identity.issuers or identity.auth.keys_file:
        raise SettingsError(
            "identify: the settings say who may ask too; leave out identify, or auth = 'none', "
            "keys_file, [[key]] and [[issuer]]"
        )
    if anybody := {"*", "null"}.intersection(settings.cors_origins):  # null: any sandboxed frame
        raise SettingsError(
            f"cors_origins: with identify {anybody.pop()!r} would let every page ask with the "
            "cookies of your users; name the origins of your pages"
        )
    upstreams = tuple(  # as for every relay that asks who it is
        msgspec.structs.replace(upstream, options=(SAFE_WORD,))
        if upstream.options is None
        else upstream
        for upstream in settings.upstreams
    )
    identity = msgspec.structs.replace(identity, configured=True)
    return msgspec.structs.replace(settings, identity=identity, upstreams=upstreams)


def build_log(settings: Settings, clock: Clock = SYSTEM) -> EventLog:
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
            clock=clock,
        )
    except opening.LogRefused as error:
        raise SettingsError(str(error)) from None


def prepare_log(settings: Settings, observers: Sequence[Observer]) -> None:
    """Make the log ready for several workers; tell the observers of streams that it ended.

    Raises:
        LogUnusable: the place of the log cannot be used.
    """
    told = Observers(observers)

    def tell(lost: Sequence[StreamEnded]) -> None:
        for ended in lost:
            told.ended(ended)

    close = build_accounting(settings).close_lost
    opening.prepare_log(settings.log, on_lost=tell, close=close)


@asynccontextmanager
async def opened(
    hub: Hub,
    authenticator: Authenticator | None,
    measured: Metrics | None,
    tracing: "Tracing | None",
) -> AsyncIterator[None]:
    """Open what serves, and close it in the reverse order.

    Raises:
        LogUnusable: the place of the log cannot be used.
    """
    async with AsyncExitStack() as stack:
        if tracing is not None:
            tracing.open()  # the log may have streams whose end is told as it is opened
            stack.push_async_callback(tracing.aclose)
            hub.observe(tracing)
        await hub.open()
        stack.push_async_callback(hub.close)
        if authenticator is not None:
            stack.push_async_callback(authenticator.aclose)
        if measured is not None:
            measured.open()
            stack.callback(measured.close)
        yield


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


def build_authenticator(settings: Settings, clock: Clock = SYSTEM) -> Authenticator | None:
    """Build what authenticates clients; with keys for operators alone, what knows those.

    Raises:
        SettingsError: a key or the keys file cannot be used.
    """
    identity = settle_signing_key(settings).identity
    signing_key = identity.auth.signing_key
    keys_file = identity.auth.keys_file
    try:
        if not identity.configured:
            if not identity.keys and keys_file is None:
                return None
            path = None if keys_file is None else Path(keys_file)
            keys = Keys(identity.keys, path, clock=clock.wall)
            return Authenticator((keys,), operators_only=True, clock=clock.wall)
        assert signing_key is not None  # noqa: S101  (it is settled)
        return Authenticator.build(identity, signing_key=signing_key, trust=open_trust, clock=clock)
    except KeysUnusable as error:
        raise SettingsError(f"auth: {error}") from None

"""The `Settings` value, with defaults and ranges."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..hooks.contract import Function
from ..identity.config import Identity
from ..ledger.config import LedgerConfig
from ..upstreams.endpoints import Upstream
from ..upstreams.routes import Route
from ..webhooks.message import Webhook

Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=31_536_000)]
Count = Annotated[int, Meta(ge=1)]
Attempts = Annotated[int, Meta(ge=1, le=10)]
Bytes = Annotated[int, Meta(ge=1024)]

Level = Literal["debug", "info", "warning", "error"]

# A description is the remedy in an error message.
LogUrl = Annotated[
    str,
    Meta(
        pattern=r"^(memory|sqlite:///(?!:|file:).+|rediss?(\+sentinel)?://.+"
        r"|(?!sqlite|redis)[a-z][a-z0-9+.-]*://.+)$",
        description="use 'memory', 'sqlite:///PATH' or 'redis://HOST/DB'",
    ),
]
RecordsUrl = Annotated[
    str,
    Meta(
        pattern=r"^(sqlite:///(?!:|file:).+|postgresql://.+)$",
        description="use 'sqlite:///PATH' or 'postgresql://USER:PASSWORD@HOST/DATABASE'",
    ),
]
RootPath = Annotated[
    str,
    Meta(
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        description="give a path without a slash at the end, such as '/chat'",
    ),
]
Host = Annotated[
    str,
    Meta(
        pattern=r"^(\*|(\*\.)?[\w-]+(\.[\w-]+)*\.?|\[?[\da-fA-F]*:[\da-fA-F]*:[\da-fA-F:.]*\]?)\Z",
        description="give a name without scheme and port, such as 'chat.example.com', "
        "'*.example.com' for all below it, or '*' for any",
    ),
]
Scheme = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9+.-]*$", description="give schemes of URLs, such as 'https'"),
]


class HookConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One hook: a function, or the URL of an endpoint."""

    name: str
    function: Function | None
    url: str
    secret: str
    """The value of the endpoint's `authorization` header."""
    stages: frozenset[str]
    routes: frozenset[str] | None
    hold: int
    timeout_s: float
    fails_open: bool

    def __repr__(self) -> str:
        """Return the name alone, since the rest may be secret."""
        return f"HookConfig({self.name!r})"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings of a deployment. Units are in the names."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8000
    operator_port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    root_path: RootPath = ""
    log: LogUrl = "memory"
    records: RecordsUrl | None = None
    records_retention_days: Annotated[int, Meta(ge=0, le=36_500)] = 400
    record_content_hook: str | None = None
    workers: Annotated[int, Meta(ge=1, le=1000)] = 1
    observers: tuple[str, ...] = ()
    log_format: Literal["auto", "console", "json"] = "auto"
    log_level: Level = "info"
    access_log: bool = False
    admin: bool = True
    metrics: bool = True
    traces: bool = False
    trace_content: bool = False
    demo: bool = True
    cassettes: str | None = None
    record_cassettes: Literal["off", "new", "replay"] = "off"
    cassette_requests: bool = False
    default_model: str | None = None
    allowed_hosts: tuple[Host, ...] = ()
    cors_origins: tuple[str, ...] = ()
    local_origins: bool | None = None
    trusted_proxies: tuple[str, ...] = ("127.0.0.1", "::1")

    status_wait_s: SecondsOrNone = 5
    heartbeat_s: Seconds = 10
    retry_ms: Annotated[int, Meta(ge=500, le=600_000)] = 2000
    send_timeout_s: Seconds = 30
    min_reader_rate: Annotated[int, Meta(ge=0)] = 1024
    keepalive_s: Seconds = 150
    linger_s: SecondsOrNone = 60
    drain_s: SecondsOrNone = 5
    last_scrape_s: SecondsOrNone = 20
    retention_s: SecondsOrNone = 900

    connect_timeout_s: Seconds = 10
    first_event_timeout_s: Seconds = 300
    fallback_after_s: Seconds = 60
    event_gap_timeout_s: Seconds = 300
    idle_timeout_s: Seconds = 300
    total_timeout_s: Seconds = 1800
    attempts: Attempts = 2
    share_upstream_connections: bool = False
    breaker_window_s: Seconds = 60
    breaker_pause_s: Seconds = 15
    breaker_max_pause_s: Seconds = 15
    passthrough: bool = True
    responses_websocket: bool = True
    url_schemes: tuple[Scheme, ...] = ("https", "data")

    max_request_bytes: Bytes = 32 * 2**20
    max_request_memory_bytes: Bytes = 256 * 2**20
    max_line_bytes: Bytes = 64 * 2**20
    max_event_bytes: Bytes = 64 * 2**20
    max_log_bytes: Bytes = 512 * 2**20
    max_stream_bytes: Bytes = 64 * 2**20
    max_stream_events: Count = 1_000_000
    max_streams: Count = 2000
    max_readers: Count = 200
    max_connections: Count | None = None
    max_connections_per_address: Count = 256
    max_streams_per_address: Count = 200
    max_starts_per_minute_per_address: Count = 600
    max_readers_per_address: Count = 400

    upstreams: tuple[Upstream, ...] = ()
    routes: tuple[Route, ...] = ()
    hooks: tuple[HookConfig, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    identity: Identity = Identity()
    ledger: LedgerConfig = LedgerConfig()


TABLES = ("upstreams", "routes", "hooks", "webhooks", "identity", "ledger")
SCALARS = tuple(name for name in Settings.__struct_fields__ if name not in TABLES)
LISTS = ("allowed_hosts", "cors_origins", "observers", "trusted_proxies", "url_schemes")
"""List settings: a list in the file, comma-separated in a variable."""

"""Validation of the environment variables that libraries read: TLS, proxies, OpenTelemetry.

The HTTP client would fail at start with a traceback; OpenTelemetry would silently accept some of
these values, or request unsupported features.
"""

import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple

import httpx2

from .convert import SettingsError

SPANS: Final = 2048
BATCH: Final = 64
"""Encoding takes 3 ms, which blocks the process: a batch of 512 took 20 ms."""

CONTENT_SPANS: Final = 256
CONTENT_BATCH: Final = 32
"""Spans with content take up to 320 KB: at most 80 MB are queued, and 10 MB sent at once."""

_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def check_network(environ: Mapping[str, str]) -> None:
    """Refuse unreadable certificates and invalid proxies."""
    if path := environ.get("SSL_CERT_FILE"):
        try:
            ssl.create_default_context(cafile=path)
        except (OSError, ValueError):  # an SSLError is an OSError
            raise SettingsError(
                f"the environment variable SSL_CERT_FILE: {path!r} is not a file of certificates "
                "(PEM)"
            ) from None
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        for variable in (name, name.lower()):
            url = environ.get(variable, "").strip()
            try:
                if url:
                    httpx2.Proxy(url if "://" in url else f"http://{url}")
            except (ValueError, httpx2.InvalidURL):
                raise SettingsError(
                    f"the environment variable {variable}: not a proxy URL"
                ) from None


class SpanLimits(NamedTuple):
    """The maximum number of queued spans, the batch size, and the delay to fill a batch."""

    spans: int
    batch: int
    delay_ms: int


def read_span_limits(environ: Mapping[str, str], *, content: bool) -> SpanLimits | None:
    """Return the limits for exporting spans; None if the environment disables that.

    Raises:
        SettingsError: a variable is invalid.
    """
    environ = {name: value.strip() for name, value in environ.items() if value.strip()}
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    exporter = environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise SettingsError(
            f"OTEL_TRACES_EXPORTER: {exporter!r} cannot be used: use 'otlp', or 'none' for none"
        )
    protocol = next((environ[name] for name in _PROTOCOLS if name in environ), "http/protobuf")
    if protocol != "http/protobuf":
        raise SettingsError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} cannot be used: use 'http/protobuf', which "
            "collectors take at port 4318"
        )
    spans = _read(environ, "OTEL_BSP_MAX_QUEUE_SIZE", CONTENT_SPANS if content else SPANS)
    batch = _read(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", CONTENT_BATCH if content else BATCH)
    delay_ms = _read(environ, "OTEL_BSP_SCHEDULE_DELAY", 5000)
    return SpanLimits(spans, min(batch, spans), delay_ms)


def _read(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, f"{default}")
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and int(value)):
        raise SettingsError(f"{name}: {value!r} cannot be used: give a whole number from 1 on")
    return int(value)

"""Trace settings from OpenTelemetry's environment variables.

Its library reads the collector's address and similar variables itself; here are those that it
would silently accept, or that request unsupported features.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from .failure import SettingsError

SPANS: Final = 2048
BATCH: Final = 64
"""Encoding takes 3 ms, which blocks the process: a batch of 512 took 20 ms."""

CONTENT_SPANS: Final = 256
CONTENT_BATCH: Final = 32
"""Spans with content take up to 320 KB: at most 80 MB are queued, and 10 MB sent at once."""

PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


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
    protocol = next((environ[name] for name in PROTOCOLS if name in environ), "http/protobuf")
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

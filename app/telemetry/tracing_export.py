"""Exports spans to a collector, by OTLP over HTTP, and logs when spans are lost.

The log has one line when that begins and one when it ends. The library's own lines quote headers
and URLs.
"""

import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

RECOVERED_S: Final = 30.0
"""Without a lost span for so long, export has recovered: else each batch might change it."""

log = structlog.get_logger("seseragi.telemetry")


class BoundedSession(requests.Session):
    """Reads only the heads of responses: a body is not needed, and may be endless."""

    def __init__(self) -> None:
        super().__init__()
        self.collector = ""
        """The host of the last request."""
        self.failure = ""
        """The reason of its failure, without its URL and headers."""

    def request(
        self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any
    ) -> requests.Response:
        self.collector, self.failure = _host_of(str(url)), ""
        try:
            response = super().request(method, url, *args, **{**kwargs, "stream": True})
        except requests.RequestException as error:
            self.failure = type(error).__name__
            raise
        response.close()
        if response.status_code >= 300:
            self.failure = f"status {response.status_code}"
        return response


class LoggedExporter(OTLPSpanExporter):
    """The library's exporter, with log lines that have no secret."""

    def __init__(self) -> None:
        self._responses = BoundedSession()
        super().__init__(session=self._responses)
        self._failed_at: float | None = None
        """When spans were lost last; None once export has recovered."""
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.note_loss(self._responses.failure or "a batch cannot be sent")
            self._lost += len(spans)
        elif self._failed_at is not None and time.monotonic() - self._failed_at >= RECOVERED_S:
            log.info("spans are sent again", collector=self._responses.collector, lost=self._lost)
            self._failed_at, self._lost = None, 0
        return result

    def note_loss(self, reason: str) -> None:
        """Log that spans are lost, unless the log has that line."""
        if self._failed_at is None:
            log.warning("spans are lost", collector=self._responses.collector, reason=reason)
        self._failed_at = time.monotonic()


def _host_of(url: str) -> str:
    """Return the host and port of a URL, without parts that may be secret."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    except ValueError:
        return "an address that cannot be read"

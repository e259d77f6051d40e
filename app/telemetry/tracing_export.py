"""Exports spans to a collector, by OTLP over HTTP, from a thread of its own.

Streams never wait for it: if the collector is down or slow, spans are dropped. The log has one
line when that begins and one when it ends.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

CLOSE_S: Final = 2.0
"""The time for sending queued spans when the relay stops."""

RECOVERED_S: Final = 30.0
"""Without a dropped span for so long, export has recovered: else each batch might change it."""

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


class CollectorState:
    """Counts queued and dropped spans, from the event loop and the sending thread."""

    def __init__(self, session: BoundedSession, *, most: int) -> None:
        self._session = session
        self._most = most
        self._lock = threading.Lock()
        self._failing = False
        """Whether the log has the line on dropped spans, and not yet that on recovery."""
        self._dropped_at = 0.0
        self.dropped = 0
        """Since the last line in the log."""
        self.waiting = 0

    def admit(self) -> bool:
        """Count a span to be queued; False if the queue is full."""
        with self._lock:
            if self.waiting < self._most:
                self.waiting += 1
                return True
        self._drop(1, "more wait than fit into the queue")
        return False

    def note(self, spans: int, failure: str | None) -> None:
        """Count a sent or failed batch."""
        with self._lock:
            self.waiting -= spans
        if failure is not None:
            self._drop(spans, failure)
        elif self._failing and time.monotonic() - self._dropped_at >= RECOVERED_S:
            self._failing = False
            dropped, self.dropped = self.dropped, 0
            log.info("spans are sent again", collector=self._session.collector, lost=dropped)

    def close(self) -> None:
        """Log the spans that were not sent in time."""
        self._failing = True
        if self.waiting:
            log.warning(
                "spans are lost",
                collector=self._session.collector,
                reason="the relay stops, and they could not be sent in time",
                lost=self.dropped + self.waiting,
            )

    def _drop(self, spans: int, reason: str) -> None:
        with self._lock:
            self.dropped += spans
            self._dropped_at = time.monotonic()
            logged, self._failing = self._failing, True
        if not logged:
            log.warning(
                "spans are lost",
                collector=self._session.collector,
                reason=reason,
            )


class CountedExporter(SpanExporter):
    """Counts the result of each batch."""

    def __init__(
        self, exporter: SpanExporter, session: BoundedSession, state: CollectorState
    ) -> None:
        self._exporter = exporter
        self._session = session
        self._state = state

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        failure: str | None = "a batch cannot be sent"
        try:
            result = self._exporter.export(spans)
            failure = None
            if result is not SpanExportResult.SUCCESS:
                failure = self._session.failure or "a batch cannot be sent"
            return result
        finally:
            self._state.note(len(spans), failure)

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class SpanQueue(BatchSpanProcessor):
    """The queue of spans, and the thread that sends them, started at once."""

    def __init__(self, *, spans: int, batch: int, delay_ms: int) -> None:
        session = BoundedSession()
        exporter: SpanExporter = OTLPSpanExporter(session=session)
        self.state = CollectorState(session, most=spans)
        self._exporter = exporter
        super().__init__(
            CountedExporter(exporter, session, self.state),
            max_queue_size=spans,
            max_export_batch_size=batch,
            schedule_delay_millis=delay_ms,
        )

    def on_end(self, span: ReadableSpan) -> None:
        sampled = span.context is not None and span.context.trace_flags.sampled
        if sampled and self.state.admit():
            super().on_end(span)

    def begin_close(self) -> threading.Thread:
        """Begin to send the queued spans in a thread, which may outlive `CLOSE_S`."""
        # The library waits 30 s regardless of its arguments, and a collector may take longer.
        closing = threading.Thread(target=self.shutdown, name="spans", daemon=True)
        closing.start()
        return closing

    def close(self) -> None:
        """Send the queued spans, within `CLOSE_S`."""
        self.begin_close().join(CLOSE_S)
        self.end_close()

    def end_close(self) -> None:
        """Stop sending, and log the spans that were not sent."""
        self._exporter.shutdown()  # a retry may be pending
        self.state.close()


def _host_of(url: str) -> str:
    """Return the host and port of a URL, without parts that may be secret."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    except ValueError:
        return "an address that cannot be read"

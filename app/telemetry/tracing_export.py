"""Brings spans to a collector, by OTLP over HTTP, from a thread of its own.

Streams never wait for it: where the collector is away or slow spans are dropped, and a line of
the log says so once, and once more when it takes them again.
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
"""How long is sent yet when the relay stops."""

QUIET_S: Final = 30.0
"""How long none must have been lost until that is told: else each batch might change it."""

log = structlog.get_logger("seseragi.telemetry")


class BoundedSession(requests.Session):
    """Reads the heads of answers alone: of bodies nothing is needed, and one may be endless."""

    def __init__(self) -> None:
        super().__init__()
        self.collector = ""
        """The host that the last request went to."""
        self.failure = ""
        """Why it failed, in words that have nothing of its URL and headers."""

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
    """What becomes of the spans; told by the event loop and by the thread that sends."""

    def __init__(self, session: BoundedSession, *, most: int) -> None:
        self._session = session
        self._most = most
        self._lock = threading.Lock()
        self._away = False
        """Whether it was told that spans are lost, and not yet that they are sent again."""
        self._lost_at = 0.0
        self.lost = 0
        """Since it was told last."""
        self.waiting = 0

    def admit(self) -> bool:
        """Count a span that is to be sent; False if too many wait already."""
        with self._lock:
            if self.waiting < self._most:
                self.waiting += 1
                return True
        self._lose(1, "more wait than fit into the queue")
        return False

    def note(self, spans: int, failure: str | None) -> None:
        """Note what has become of a batch."""
        with self._lock:
            self.waiting -= spans
        if failure is not None:
            self._lose(spans, failure)
        elif self._away and time.monotonic() - self._lost_at >= QUIET_S:
            self._away = False
            lost, self.lost = self.lost, 0
            log.info("spans are sent again", collector=self._session.collector, lost=lost)

    def close(self) -> None:
        """Tell of those that have not been sent in time."""
        self._away = True
        if self.waiting:
            log.warning(
                "spans are lost",
                collector=self._session.collector,
                reason="the relay stops, and they could not be sent in time",
                lost=self.lost + self.waiting,
            )

    def _lose(self, spans: int, reason: str) -> None:
        with self._lock:
            self.lost += spans
            self._lost_at = time.monotonic()
            told, self._away = self._away, True
        if not told:
            log.warning(
                "spans are lost",
                collector=self._session.collector,
                reason=reason,
            )


class CountedExporter(SpanExporter):
    """Says what has become of each batch."""

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
    """The spans that wait, and the thread that sends them, which runs from now on."""

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
        kept = span.context is not None and span.context.trace_flags.sampled
        if kept and self.state.admit():
            super().on_end(span)

    def begin_close(self) -> threading.Thread:
        """Send what waits, in a thread that ends by `CLOSE_S` or is left behind."""
        # The library waits 30 s, whatever it is told, and a collector may take longer yet.
        closing = threading.Thread(target=self.shutdown, name="spans", daemon=True)
        closing.start()
        return closing

    def close(self) -> None:
        """Do so, and wait for it."""
        self.begin_close().join(CLOSE_S)
        self.end_close()

    def end_close(self) -> None:
        """Send nothing more, and tell of what has not been sent."""
        self._exporter.shutdown()  # it may be about to try again
        self.state.close()


def _host_of(url: str) -> str:
    """Return where a URL leads, without what may be secret in it."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"
    except ValueError:
        return "an address that cannot be read"

"""Traces: a span for each request, for each stream, and for each call of an upstream.

The span of a stream is a child of its request's span and may outlive it: it ends with the
stream. The spans of its attempts are children of the stream's. No work is done for a token.

Names of attributes that begin with `gen_ai` follow OpenTelemetry's conventions for generative AI as
of November 2026 (github.com/open-telemetry/semantic-conventions-genai), those with `seseragi` are
ours, the others follow its conventions 1.44 for HTTP.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .. import __version__
from ..eventlog.stream_ended import StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import TokenCounts
from .logs import hide_tokens
from .observer import (
    TRACEPARENT,
    AttemptDropped,
    AttemptFailed,
    AttemptStarted,
    CallEnded,
    FirstEvent,
    Observer,
    ReaderJoined,
    Refused,
)
from .tracing_content import render_messages

CLOSE_S: Final = 2.0
"""The time for sending queued spans when the relay stops."""

REPEAT_S: Final = 20.0
"""The shortest time between two lines on a collector that takes no spans."""

MAX_TEXT: Final = 200
MAX_PATH: Final = 1000
"""Characters of attributes with text from clients."""

MAX_STREAMS: Final = 20_000
"""Unfinished stream spans. If another process ends the stream, no `ended` comes here."""

METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"))

_USAGE: Final[Mapping[str, str]] = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_input_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
"""Attributes by the fields of `TokenCounts`."""

_HEADERS: Final = (b"traceparent", b"tracestate")

log = structlog.get_logger("seseragi.telemetry")

_REQUEST: Final[ContextVar[Span | None]] = ContextVar("seseragi_request_span", default=None)
_W3C: Final = TraceContextTextMapPropagator()


class _Attempt(NamedTuple):
    """The span of a running attempt."""

    span: Span
    at: int
    """Its start, in nanoseconds of the wall clock."""


class _Stream:
    """The spans of a running stream."""

    __slots__ = ("attempts", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self.attempts: dict[int, _Attempt] = {}
        """By number: several at once only until one answers."""

    @property
    def last(self) -> _Attempt | None:
        return next(reversed(self.attempts.values()), None)


class Tracing(Observer):
    """Makes spans between `open` and `close`; `open` starts the thread."""

    def __init__(self, *, spans: int, batch: int, delay_ms: int) -> None:
        """Prepare it: the queue has room for `spans`, sent in batches every `delay_ms`."""
        self._spans, self._batch, self._delay_ms = spans, batch, delay_ms
        self._exporter: OTLPSpanExporter | None = None
        self._processor: BatchSpanProcessor | None = None
        self._tracer: trace.Tracer = trace.NoOpTracer()
        self._streams: dict[str, _Stream] = {}
        self._calls: dict[str, Span] = {}

    def open(self) -> None:
        """Begin to make and send spans in this process."""
        _limit_logs()
        provider = TracerProvider(resource=_build_resource(), shutdown_on_exit=False)
        self._exporter = OTLPSpanExporter()
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=self._spans,
            max_export_batch_size=self._batch,
            schedule_delay_millis=self._delay_ms,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("seseragi", __version__)

    async def aclose(self) -> None:
        """Send the queued spans, within `CLOSE_S`."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Do the same in this thread."""
        if self._processor is None or self._exporter is None:
            return
        # The library's shutdown blocks for 30 s if the collector is silent.
        closing = threading.Thread(target=self._processor.shutdown, name="spans", daemon=True)
        self._tracer, self._processor = trace.NoOpTracer(), None
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            log.warning("the last spans are lost: the collector did not take them in time")
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # a retry may be pending

    # Requests

    def begin_request(self, scope: Mapping[str, Any]) -> Span:
        """Begin the span of a request, within the client's trace if it names one."""
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        span = self._tracer.start_span(
            method,
            _context_of(scope["headers"]),
            SpanKind.SERVER,
            {
                "http.request.method": method,
                "url.path": _text(hide_tokens(scope["path"][:MAX_PATH]), MAX_PATH),
                "url.scheme": scope.get("scheme", "http"),
            },
        )
        traceparent = _traceparent_of(span)
        _REQUEST.set(span)
        TRACEPARENT.set(traceparent)
        # Each request has its own task; tasks that it starts inherit this.
        structlog.contextvars.bind_contextvars(trace_id=traceparent[3:35])
        return span

    def end_request(
        self,
        span: Span,
        *,
        method: str,
        route: str | None,
        status: int | None,
        request_id: str | None,
        client_left: bool,
    ) -> None:
        """End the span of a request; `status` is None if no response began."""
        if span.is_recording():
            name = method if method in METHODS else "HTTP"
            span.update_name(name if route is None else f"{name} {route}")
            _set(
                span,
                {
                    "http.route": route,
                    "seseragi.request_id": request_id,
                    "http.response.status_code": status,
                    "seseragi.client_left": client_left or None,
                },
            )
            if status is not None and status >= 500:
                _fail(span, str(status))
        span.end()

    def refused(self, refused: Refused) -> None:
        if (span := _REQUEST.get()) is not None:
            span.set_attribute("seseragi.code", refused.error.code)

    def reader_joined(self, joined: ReaderJoined) -> None:
        """Link the span of a request that reads a stream to the stream's span."""
        span, stream = _REQUEST.get(), self._streams.get(joined.stream)
        if span is not None and stream is not None:
            span.set_attribute("seseragi.stream", joined.stream)
            span.add_link(stream.span.get_span_context())

    # Streams

    def started(self, info: StreamInfo) -> None:
        request = _REQUEST.get()
        if request is not None and info.traceparent == TRACEPARENT.get():
            parent = trace.set_span_in_context(request, Context())
            request.set_attribute("seseragi.stream", info.id)
        else:
            parent = _parent_of(info)
        self._streams[info.id] = _Stream(self._begin_stream(info, parent))
        if len(self._streams) > MAX_STREAMS:
            oldest = self._streams.pop(next(iter(self._streams)))
            for span in (*(one.span for one in oldest.attempts.values()), oldest.span):
                _fail(span, "producer_lost")
                span.end()

    def _begin_stream(self, info: StreamInfo, parent: Context) -> Span:
        return self._tracer.start_span(
            "stream",
            parent,
            SpanKind.INTERNAL,
            {
                "seseragi.stream": info.id,
                "seseragi.request_id": info.request_id,
                "seseragi.route": _text(info.route),
                "seseragi.client_format": info.client_format,
                **({"seseragi.key": _text(info.key_name)} if info.key_name else {}),
            },
            start_time=_nanoseconds(info.created_at) if info.created_at else None,
        )

    def attempt_started(self, started: AttemptStarted) -> dict[str, str]:
        headers: dict[str, str] = {}
        target, generates = started.target, started.operation == "generation"
        stream = self._streams.get(started.id)
        if generates and stream is None:  # its `ended` came already
            return headers
        above = _REQUEST.get() if stream is None else stream.span
        parent = Context() if above is None else trace.set_span_in_context(above, Context())
        upstream = target.upstream
        operation: str = started.operation
        if generates:
            operation = target.dialect.operation
        model = _text(target.model)
        url = urlsplit(upstream.base_url)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": target.dialect.provider or upstream.name,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": generates or None,
            "server.address": url.hostname,
            "server.port": url.port or (80 if url.scheme == "http" else 443),
            "seseragi.target": _text(target.name),
            "seseragi.attempt": started.attempt,
        }
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{operation} {model}", parent, SpanKind.CLIENT, _known(attributes), start_time=now
        )
        if upstream.trace_context:
            _W3C.inject(headers, trace.set_span_in_context(span, Context()))
        if stream is not None:
            stream.attempts[started.attempt] = _Attempt(span, now)
        else:
            self._calls[started.id] = span
        return headers

    def call_ended(self, ended: CallEnded) -> None:
        span = self._calls.pop(ended.id, None)
        if span is None:
            return
        model, cancelled = ended.answered_model, ended.code == "cancelled"
        _set(
            span,
            {
                "gen_ai.response.model": None if model is None else _text(model),
                "seseragi.status": "cancelled" if cancelled else None,
                **_usage_of(ended.usage),
            },
        )
        if ended.code is not None and not cancelled:
            _fail(span, ended.code)
        span.end()

    def first_event(self, first: FirstEvent) -> None:
        stream = self._streams.get(first.info.id)
        if stream is not None and (attempt := stream.last) is not None:
            seconds = (time.time_ns() - attempt.at) / 1e9
            attempt.span.set_attribute("gen_ai.response.time_to_first_chunk", seconds)

    def attempt_failed(self, failed: AttemptFailed) -> None:
        stream = self._streams.get(failed.info.id)
        attempt = None if stream is None else stream.attempts.pop(failed.attempt, None)
        if attempt is not None:
            _fail(attempt.span, failed.error.code)
            attempt.span.end()

    def attempt_dropped(self, dropped: AttemptDropped) -> None:
        stream = self._streams.get(dropped.info.id)
        attempt = None if stream is None else stream.attempts.pop(dropped.attempt, None)
        if attempt is not None:
            attempt.span.set_attribute("seseragi.status", "cancelled")
            attempt.span.end()

    def ended(self, ended: StreamEnded) -> None:
        stream = self._streams.pop(ended.info.id, None)
        if stream is None:  # of a dead process, or from before a restart
            stream = _Stream(self._begin_stream(ended.info, _parent_of(ended.info)))
        if (attempt := stream.last) is not None:
            if attempt.span.is_recording():
                _add_answer(attempt.span, ended)
                _mark(attempt.span, ended)
            attempt.span.end()
        if stream.span.is_recording():
            _sum_up(stream.span, ended)
        stream.span.end()


def _build_resource() -> Resource:
    """Return the resource of all spans; the environment takes precedence."""
    resource = Resource({SERVICE_VERSION: __version__}).merge(Resource.create())
    named = not str(resource.attributes.get(SERVICE_NAME)).startswith("unknown_service")
    return resource if named else resource.merge(Resource({SERVICE_NAME: "seseragi"}))


def _add_answer(span: Span, ended: StreamEnded) -> None:
    """Add the answer to the span of a stream's last attempt."""
    end = ended.end
    reason = "error" if end.finish_reason == "cancelled" else end.finish_reason
    attributes: dict[str, Any] = {
        "gen_ai.response.finish_reasons": [reason],
        "gen_ai.response.model": _text(ended.answered_model or "") or None,
        "seseragi.status": end.status,
    }
    if ended.traced_content:
        messages = render_messages(ended.traced_content, finish_reason=end.finish_reason)
        attributes |= {
            "gen_ai.input.messages": messages.input,
            "gen_ai.output.messages": messages.output,
        }
    _set(span, attributes | _usage_of(end.usage))


def _sum_up(span: Span, ended: StreamEnded) -> None:
    """Add the result of a stream to its span."""
    end = ended.end
    _set(
        span,
        {
            "seseragi.status": end.status,
            "seseragi.attempts": None if ended.target is None else ended.attempts,
            "seseragi.target": None if ended.target is None else _text(ended.target),
            "seseragi.first_event_s": ended.first_event_s,
            "seseragi.cost_usd": None if end.cost is None else float(end.cost),
            "seseragi.ended_by": end.ended_by,
            "seseragi.lost": ended.lost or None,
        },
    )
    _mark(span, ended)


def _mark(span: Span, ended: StreamEnded) -> None:
    """Mark the span of a failed stream; a cancelled one did not fail."""
    end = ended.end
    if end.status in ("failed", "interrupted"):
        _fail(span, end.error.code if end.error is not None else end.status)


def _usage_of(usage: TokenCounts | None) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {name: getattr(usage, field) for field, name in _USAGE.items()}
    return {**counts, "seseragi.usage.estimated": usage.estimated or None}


def _set(span: Span, attributes: Mapping[str, Any]) -> None:
    """Set all attributes but None in one call: each call costs 2 us."""
    span.set_attributes(_known(attributes))


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _fail(span: Span, code: str) -> None:
    """Mark a span as failed, with the code only: messages may quote a request."""
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def _context_of(headers: list[tuple[bytes, bytes]]) -> Context:
    """Return the parent of a request: the span of an app around this one, or the client's."""
    if trace.get_current_span().get_span_context().is_valid:
        return trace.set_span_in_context(trace.get_current_span(), Context())
    found: dict[str, list[str]] = {}
    for name, value in headers:
        if name in _HEADERS:
            found.setdefault(name.decode(), []).append(value.decode("latin-1"))
    if len(found.get("traceparent", ())) != 1:  # several are invalid
        return Context()
    return _W3C.extract(found, Context())


def _parent_of(info: StreamInfo) -> Context:
    """Return the span of the request that started a stream, in any process."""
    if not info.traceparent:
        return Context()
    _, trace_id, span_id, flags = (int(part, 16) for part in info.traceparent.split("-"))
    # Not remote: the relay itself decided on its flags.
    parent = SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())


def _traceparent_of(span: Span) -> str:
    own = span.get_span_context()
    return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"


def _text(text: str, most: int = MAX_TEXT) -> str:
    """Truncate a text, and replace lone surrogates, which OTLP cannot encode."""
    text = text[:most]
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


class _ExporterErrors(logging.Filter):
    """Passes one line in `REPEAT_S`, without the text of exceptions, which quotes URLs."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._passed_at < REPEAT_S:
            return False
        self._passed_at = now
        if isinstance(record.args, tuple):
            record.args = tuple(
                type(one).__name__ if isinstance(one, Exception) else one for one in record.args
            )
        return True


def _limit_logs() -> None:
    """Limit the libraries' lines, some of which have headers, to lost spans.

    The operator's own levels take precedence.
    """
    if logging.getLogger("opentelemetry").level != logging.NOTSET:
        return
    exporter = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    for name, level in (
        ("opentelemetry", logging.CRITICAL),
        (exporter, logging.ERROR),
        ("opentelemetry.sdk._shared_internal", logging.WARNING),
        ("urllib3", logging.WARNING),
    ):
        logging.getLogger(name).setLevel(level)
    logging.getLogger(exporter).addFilter(_ExporterErrors())

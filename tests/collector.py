"""A collector of traces on a real socket: it decodes what it is sent by OTLP over HTTP.

`answer` is what it does with a request, on a thread of its own, such as failing or staying silent.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.waiting import until


@dataclass(frozen=True)
class Span:
    """One span, in words that tests compare."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    attributes: dict[str, Any]
    status: str
    events: list[tuple[str, dict[str, Any]]]
    links: list[tuple[str, str]]
    state: str
    start: int
    end: int
    resource: dict[str, Any]

    @property
    def error(self) -> str | None:
        return self.attributes.get("error.type") if self.status == "error" else None


@dataclass
class Collector:
    """What has come so far."""

    port: int = 0
    spans: list[Span] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answer: Callable[[BaseHTTPRequestHandler], None] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environ(self, **more: str) -> dict[str, str]:
        """The variables of a relay that sends here, soon."""
        return {
            "SESERAGI_TRACES": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_BSP_SCHEDULE_DELAY": "20",
            **more,
        }

    async def wait_for(self, found: Callable[[list[Span]], Any]) -> Any:
        """Wait until what has come has what is looked for, and return that."""
        seen: list[Any] = []

        def look() -> bool:
            seen[:] = [found([*self.spans])]
            return bool(seen[0])

        try:
            await until(look)
        except AssertionError:
            names = [(span.name, span.kind, span.attributes) for span in self.spans]
            raise AssertionError(f"these spans have come: {names}") from None
        return seen[0]

    async def wait_for_names(self, *names: str) -> list[Span]:
        """Wait until a span of each name has come; return the first of each."""

        def found(spans: list[Span]) -> list[Span] | None:
            first = {span.name: span for span in reversed(spans)}
            return [first[name] for name in names] if set(names) <= set(first) else None

        spans: list[Span] = await self.wait_for(found)
        return spans

    async def wait_for_requests(self, count: int) -> None:
        await self.wait_for(lambda _: len(self.headers) >= count)


@contextlib.contextmanager
def collect() -> Iterator[Collector]:
    """Run a collector on a free port."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/traces"
            answer = collector.answer
            if answer is None:
                collector.spans += decode(body)
            collector.bodies.append(body)
            collector.headers.append({k.lower(): v for k, v in self.headers.items()})
            if answer is not None:
                with contextlib.suppress(OSError):
                    answer(self)
                self.close_connection = True
                return
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

        def server_bind(self) -> None:  # without asking for the machine's name
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(self.server_address)
            self.server_address = self.socket.getsockname()

    server = Server(("127.0.0.1", 0), Handler)
    collector.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()


def decode(body: bytes) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        Span(
            name=span.name,
            kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
            trace=span.trace_id.hex(),
            id=span.span_id.hex(),
            parent=span.parent_span_id.hex(),
            attributes=_attributes(span.attributes),
            status={0: "unset", 1: "ok", 2: "error"}[span.status.code],
            events=[(event.name, _attributes(event.attributes)) for event in span.events],
            links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
            state=span.trace_state,
            start=span.start_time_unix_nano,
            end=span.end_time_unix_nano,
            resource=_attributes(one.resource.attributes),
        )
        for one in request.resource_spans
        for scope in one.scope_spans
        for span in scope.spans
    ]


def _attributes(rows: Any) -> dict[str, Any]:
    return {row.key: _value(row.value) for row in rows}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind)

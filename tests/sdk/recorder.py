"""A server that writes down what an official SDK sends, and what it sends is the judge."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Recorded(NamedTuple):
    """One request: `path` with its query, header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class Recorder:
    def __init__(self, url: str) -> None:
        self.url = url
        """Where it listens: http://127.0.0.1:PORT."""
        self.requests: list[Recorded] = []

    def record(self, call: Callable[[], Any]) -> Recorded:
        """Return the request that a call of an SDK sends; the call itself fails, with a 418."""
        before = len(self.requests)
        try:
            answer = call()
            if hasattr(answer, "__iter__"):
                list(answer)  # some SDKs send nothing before the stream is read
        except Exception:  # noqa: S110  (each SDK has errors of its own for the 418)
            pass
        assert len(self.requests) > before, "the SDK sent nothing"
        return self.requests[before]


@contextmanager
def serve_recorder() -> Iterator[Recorder]:
    """Serve a recorder on a free port of the loopback address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Recorded(self.command, self.path, headers, self.rfile.read(size))
            recorder.requests.append(request)
            body = b'{"error": {"message": "recorded", "type": "teapot"}}'
            self.send_response(418)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorder = Recorder(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Relays that lie: each answers a POST with tokens of its own making, on a thread of its own."""

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator, Sequence

from bench.load import Target

END = "data: [DONE]\n\n"


@contextlib.contextmanager
def answering(numbers: Sequence[int], *, end: str = END, other: int = 0) -> Iterator[Target]:
    """Serve streams of the given token numbers; `other` is added to the stream's own number."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            found = re.search(r"bench:(\d+):", body)
            assert found is not None, body
            stream = int(found[1]) + other
            text = "".join(f"data: ~{stream}.{number}~\n\n" for number in numbers)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write((text + end).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Target(server.server_port, None)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""Parser of the HTTP responses on one connection, over httptools. No I/O."""

from typing import Final

import httptools
import httpx2
import msgspec

INTERIM_HEADS: Final = 16
"""The maximum number of interim responses (RFC 9110, 15.2) before the final one."""

MAX_HEAD: Final = 64 * 1024
"""The maximum bytes of the heads of one response, and of anything else that is not its body.

A field continued over lines (RFC 9112, 5.2) takes httptools quadratic time: 20 ms here, and 0.3 s
with four times as much."""

HEAD_PIECE: Final = 16 * 1024
"""The bytes of a head that are parsed at once."""

MAX_FIELDS: Final = 128
"""The maximum number of fields of one head or trailer."""

_CODINGS: Final = frozenset(("chunked", "identity", ""))
"""The transfer codings that are decoded; "identity" is that of RFC 2616 for none."""


class NotHttp(httpx2.RemoteProtocolError):
    """What came in place of a response is not HTTP, or exceeds a limit."""


class Head(msgspec.Struct, frozen=True):
    """The head of a response."""

    status: int
    headers: dict[str, str]
    """By lower-case names; of a repeated name the first."""


class ResponseParser:
    """Parses the responses on one connection, one after the other.

    `feed` sets the attributes. After a failure nothing more may be fed.
    """

    def __init__(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        # Called by httptools, as are the methods whose names begin with `on_`.
        self.on_body = self._pieces.append
        self._parser = parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(  # what servers are known to send
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.begin()

    def begin(self) -> None:
        """Expect the response to the next request."""
        self.head: Head | None = None
        """The head of the final response, once it is complete."""
        self.complete = False
        """Whether the whole response has arrived."""
        self.excess = False
        """Whether something came after it."""
        self.failure: httpx2.RemoteProtocolError | None = None
        self.interim = 0
        """The number of interim responses."""
        self.keeps_alive = False
        """Whether the server keeps the connection after the response."""
        self._until_close = False
        self._other_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Parse the next bytes; return those of the body among them."""
        if self.head is None and len(data) > HEAD_PIECE:
            body = self.feed(data[:HEAD_PIECE])
            return body if self.failure is not None else body + self.feed(data[HEAD_PIECE:])
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self.complete:
                self.excess = True
            else:
                self._fail(error.__context__ or error, data)
        if not self._pieces:
            self._count_other(len(data))
            return b""
        self._other_bytes = 0
        if self.excess:
            del self._pieces[self._last :]
        body = b"".join(self._pieces)
        self._pieces.clear()
        return body

    @property
    def begun(self) -> bool:
        """Whether anything has arrived since the last request, also an interim response."""
        return self.head is not None or self._other_bytes > 0

    def close(self) -> None:
        """End the input; it is a failure within a head or body."""
        if self.head is not None and self._until_close:
            self.complete = True
        elif not self.complete and self.failure is None:
            self.failure = httpx2.RemoteProtocolError("the response is incomplete")
        del self._parser  # which refers to this parser: it would wait for the garbage collector

    def _count_other(self, size: int) -> None:
        """Bound what is not a body: heads, trailers, sizes of chunks."""
        self._other_bytes += size
        if self._other_bytes > MAX_HEAD and not self.complete and self.failure is None:
            self._fail(f"more than {MAX_HEAD} bytes without a body")

    def _fail(self, reason: object, data: bytes = b"") -> None:
        if self.head is not None:
            self.failure = httpx2.RemoteProtocolError(f"the body is malformed: {reason}")
        else:
            self.failure = NotHttp(f"{reason}: {data[:20]!r}" if data else str(reason))

    def on_message_begin(self) -> None:
        self.excess = self.complete
        self._fields.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self._fields) >= MAX_FIELDS:
            raise ValueError(f"more than {MAX_FIELDS} header fields")
        self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        headers: dict[str, str] = {}
        codings: set[str] = set()
        for raw_name, raw_value in self._fields:
            if b"\0" in raw_value:
                raise ValueError("a header field with a NUL character")
            # httptools accepts spaces before the colon (RFC 9112, 5.1).
            name = raw_name.rstrip(b" \t").decode("utf-8", "surrogateescape").lower()
            value = raw_value.rstrip(b" \t").decode("utf-8", "surrogateescape")
            headers.setdefault(name, value)
            if name == "transfer-encoding":
                codings.update(map(str.strip, value.lower().split(",")))
        self._fields.clear()  # those of trailers follow
        if unknown := codings - _CODINGS:
            raise ValueError(f"the transfer coding {min(unknown)[:40]!r}")
        status = self._parser.get_status_code()
        if not 100 <= status <= 599:  # RFC 9110, 15
            raise ValueError(f"the status {status:03}")
        if status == 101:
            raise ValueError("the server switches to another protocol")
        if status < 200:
            if codings or headers.get("content-length", "0") != "0":
                raise ValueError("an interim response with a body")
            self.interim += 1
            if self.interim > INTERIM_HEADS:
                raise ValueError(f"more than {INTERIM_HEADS} interim responses")
            return
        self._until_close = "chunked" not in codings and "content-length" not in headers
        self.keeps_alive = self._parser.should_keep_alive()
        self.head = Head(status, headers)

    def on_message_complete(self) -> None:
        if self.head is not None and not self.complete:
            self.complete = True
            self._last = len(self._pieces)

"""HTTP calls to upstreams: the client, streams, documents, and the translation of failures."""

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any, Final

import certifi
import httpx2
import msgspec
import structlog

from ..dialects.reading.provider_errors import Redact, parse_failure
from ..errors import UpstreamError
from ..framing.content_coding import CODINGS, ContentDecoder
from ..framing.sse import FramingError
from .connection import Disconnected, HttpBody
from .http_call import HttpCall, HttpReply, Origin
from .response_parser import NotHttp
from .transport import ProxyRefused, Transport, owner, read_pieces, reused

MAX_FAILURE_BYTES = 64 * 1024
"""The maximum bytes of an error reply, raw and decoded."""

FAILURE_WAIT_S = 2.0
"""The timeout of an error reply's body: below `status_wait_s`, which would hide its status."""

REPLY_NAMES: Final = (
    *("anthropic-organization-id", "openai-organization", "openai-processing-ms"),
    *("openai-project", "openai-version"),
)
"""Headers of replies that a client of the same dialect may receive, besides rate limits."""
KEPT_NAMES: Final = frozenset(("date", *REPLY_NAMES))
_OF_LIMITS: Final = re.compile("ratelimit|retry-after")
REQUEST_IDS = ("x-request-id", "request-id", "x-amzn-requestid", "apim-request-id")
"""Headers with the provider's id of a call: OpenAI and most, Anthropic, AWS, Azure."""

MAX_REQUEST_ID = 100
"""Characters of a provider's id."""

MAX_PROVIDER_MESSAGE = 200
"""Characters of a provider's error message in the log."""

CLOSED_WITHIN_S = 0.25
"""A closed connection shows within a round trip, too short to run a model."""

TLS_ALERT = "\\x15\\x03"
"""The bytes of a TLS alert, the reply to plain HTTP, as messages escape them."""

_UNREAD = (NotHttp, FramingError, httpx2.ConnectError, httpx2.ProxyError)
"""Errors of calls that no model has read."""

LOST = (httpx2.HTTPError, OSError)
"""Errors of a connection."""

FAILURES = (*LOST, FramingError)
"""Errors of a call beside `UpstreamError`; `explain` translates them."""

log = structlog.get_logger("seseragi.upstreams")


def open_client(
    *,
    connect_timeout_s: float,
    mounts: Mapping[str, httpx2.AsyncBaseTransport],
    shared: bool = False,
) -> "HttpClient":
    """Open the HTTP client of all upstreams; `mounts` are transports for URL patterns.

    `shared`: owners use each other's free connections.
    """
    return HttpClient(
        shared=shared,
        mounts=dict(mounts),
        verify=open_trust(),
        timeout=httpx2.Timeout(None, connect=connect_timeout_s, pool=connect_timeout_s),
        follow_redirects=False,
        # Cookies set by one call must not be sent with another client's call.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def open_trust() -> ssl.SSLContext:
    """Return the TLS context with the trusted certificates.

    These are SSL_CERT_FILE, else SSL_CERT_DIR, else the system's store, else certifi's, if the
    system has none, as in minimal images.
    """
    context = httpx2.create_ssl_context()
    # Python's default on Debian 12 depends on OpenSSL's configuration, or is unset.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    paths = ssl.get_default_verify_paths()
    configured = bool(paths.capath) and paths.capath != paths.openssl_capath
    if not context.cert_store_stats()["x509_ca"] and not configured and not _is_store(paths.capath):
        context.load_verify_locations(certifi.where())
    return context


def _is_store(folder: str | None) -> bool:
    """Return whether OpenSSL would find certificates there, by their hashes."""
    return bool(folder) and any(Path(str(folder)).glob("*.0"))


class HttpClient(httpx2.AsyncClient):
    """A client on `Transport`, also with proxies from the environment; calls use `open`."""

    def __init__(self, *, verify: ssl.SSLContext, shared: bool = False, **settings: Any) -> None:
        super().__init__(verify=verify, **settings)
        self._shared = shared
        self._by_origin: dict[Origin, httpx2.AsyncBaseTransport] = {}
        """The transports of earlier calls: httpx2 compares each URL with all patterns."""

    def _init_transport(  # type: ignore[override]  # called with keywords only
        self,
        *,
        verify: ssl.SSLContext,
        transport: httpx2.AsyncBaseTransport | None = None,
        **_: Any,
    ) -> httpx2.AsyncBaseTransport:
        return transport or Transport(verify)

    def _init_proxy_transport(  # type: ignore[override]  # as above
        self, proxy: httpx2.Proxy, *, verify: ssl.SSLContext, **_: Any
    ) -> httpx2.AsyncBaseTransport:
        if proxy.url.scheme not in ("http", "https"):
            return _NoTransport("the environment sets a proxy that is not an HTTP proxy")
        return Transport(verify, proxy)

    async def open(self, call: HttpCall, *, fresh: bool = False) -> HttpReply:
        """Send a call and return the reply, regardless of its status, once its head arrived.

        `fresh`: on a new connection.
        It bypasses httpx2's redirects, cookies and hooks, which calls to upstreams do not use,
        and saves 100 us per request.
        """
        transport = self._by_origin.get(call.url.origin)
        if transport is None:
            transport = self._transport_for_url(call.url.parsed)
            self._by_origin[call.url.origin] = transport
        if isinstance(transport, Transport):
            reply = await transport.open(call, "" if self._shared else owner.get(), fresh=fresh)
            return _decode(reply) if "content-encoding" in reply.headers else reply
        url, content = call.url.parsed, call.content
        request = httpx2.Request(call.method, url, headers=call.headers, content=content)
        reused.set(False)
        response = await transport.handle_async_request(request)  # of a mounted transport
        return HttpReply(response.status_code, response.headers, read_pieces(response))


def _decode(reply: HttpReply) -> HttpReply:
    """Return a reply with its body decoded, if its coding is known: some compress unasked."""
    if reply.coding not in CODINGS or not isinstance(reply.body, HttpBody):
        return reply
    encoded = ("content-encoding", "content-length")
    headers = {name: value for name, value in reply.headers.items() if name not in encoded}
    return HttpReply(reply.status, headers, DecodedBody(reply.body, reply.coding))


class DecodedBody(AsyncGenerator[bytes]):
    """The body of a compressed reply; each step returns a decoded piece as soon as it came.

    Not an async generator function: closing one that has not begun would not close the body.
    """

    def __init__(self, body: HttpBody, coding: str) -> None:
        self._body = body
        self._decoder = ContentDecoder(coding)
        self._pieces: Iterator[bytes] = iter(())

    async def asend(self, _: object = None) -> bytes:
        while (piece := next(self._pieces, None)) is None:
            try:
                encoded = await anext(self._body)
            except StopAsyncIteration:
                self._decoder.close()
                raise
            self._pieces = self._decoder.feed(encoded)
        await asyncio.sleep(0)  # a step of the body may decode to a megabyte
        return piece

    async def athrow(self, *error: Any) -> bytes:
        await self.aclose()
        raise error[0]

    async def aclose(self) -> None:
        await self._body.aclose()


class _NoTransport(httpx2.AsyncBaseTransport):
    """Fails every call: the URL has no transport."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ProxyError(self._reason)


class HttpHead(msgspec.Struct, frozen=True):
    """The head of a reply, with the id to quote to the provider's support."""

    status: int
    headers: Mapping[str, str]
    """Those of rate limits and retries, and `KEPT_NAMES`, by lower-case names."""
    request_id: str
    """The provider's id of the call; "" without one."""

    @classmethod
    def of(cls, reply: HttpReply) -> "HttpHead":
        """Return the head of a reply."""
        found = reply.headers
        # All of them, with their cookies, take 5 KiB while the stream lasts.
        kept = {}
        for name, value in found.items():
            if (lower := name.lower()) in KEPT_NAMES or _OF_LIMITS.search(lower):
                kept[lower] = value
        for name in REQUEST_IDS:
            request_id = found.get(name)
            if request_id and request_id.isprintable():
                return cls(reply.status, kept, request_id[:MAX_REQUEST_ID])
        return cls(reply.status, kept, "")


async def open_stream(
    client: HttpClient,
    call: HttpCall,
    *,
    upstream: str,
    on_head: Callable[[HttpHead], None] | None = None,
) -> HttpReply:
    """Make a call and return a streaming reply, whose body the caller closes.

    `on_head` receives the head of every reply, errors included.

    Raises:
        UpstreamError: the upstream refused, or did not send a stream.
        FAILURES: the connection failed.
    """
    reply = await _send(client, call, upstream)
    if on_head is not None:
        on_head(HttpHead.of(reply))
    try:
        await _check(reply, upstream, call.redact)
    except BaseException:
        await reply.body.aclose()
        raise
    return reply


async def fetch(
    client: HttpClient,
    call: HttpCall,
    *,
    upstream: str,
    max_bytes: int,
    take: Callable[[int], None] = lambda _: None,
) -> bytes:
    """Make a call and return its reply, one document.

    `take` receives the sizes of arriving pieces; its exceptions end the call.

    Raises:
        UpstreamError: the upstream refused, has no such path (`upstream_not_found`), or sent
            an invalid or too long reply.
        FAILURES: the connection failed before an answer came.
    """
    reply = await _send(client, call, upstream)
    body = bytearray()
    try:
        if reply.status in (405, 501):
            raise UpstreamError(
                "upstream_not_found",
                f"upstream {upstream!r} has no such endpoint; check its base URL",
            )
        await _check(reply, upstream, call.redact)
        try:
            async for piece in reply.body:
                take(len(piece))
                body += piece
                if len(body) > max_bytes:
                    raise UpstreamError(
                        "upstream_invalid_response",
                        f"upstream {upstream!r} answered with more than {max_bytes} bytes",
                    )
        except FAILURES as failure:
            # Only the last chunk is missing; a length would say that more was to come.
            chunked = "transfer-encoding" in reply.headers
            if not (isinstance(failure, LOST) and chunked and _is_object(body)):
                raise explain(failure, upstream=upstream, answered=True) from failure
    finally:
        await reply.body.aclose()
    return bytes(body)


def _is_object(body: bytearray) -> bool:
    """Return whether a body is a complete JSON object."""
    try:
        return bytes(msgspec.json.decode(body, type=msgspec.Raw)).startswith(b"{")
    except (msgspec.DecodeError, RecursionError):
        return False


async def _send(client: HttpClient, call: HttpCall, upstream: str) -> HttpReply:
    """Make a call; repeat it once, on a new connection, if a free one turns out to be closed.

    A server that closed an idle connection resets a request on it at once. One that took the
    request and failed later may have run the model, so the call is not repeated. One that took it
    and failed at once looks like the first, and may bill both, so `HttpCall.on_resend` counts them
    (RFC 9110, 9.2.2).
    """
    clock = asyncio.get_running_loop().time
    reused.set(None)
    sent_at = clock()
    try:
        return await client.open(call)
    except Disconnected:
        if not (reused.get() and clock() - sent_at < CLOSED_WITHIN_S):
            raise
    log.warning("request sent again on a new connection", upstream=upstream)
    call.on_resend()
    reused.set(None)
    return await client.open(call, fresh=True)


async def _check(reply: HttpReply, upstream: str, redact: Redact) -> None:
    if reply.status >= 400:
        body = await read_some(reply) if reply.coding == "identity" else b""
        now = time.time()
        raise parse_failure(
            reply.status, reply.headers, body, upstream=upstream, now=now, redact=redact
        )
    media_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    if reply.status >= 300 or reply.status == 204:
        instead = f"with status {reply.status}"
    elif media_type in ("text/html", "application/xhtml+xml"):
        instead = f"with {media_type}"
    elif reply.coding != "identity":
        instead = f"with the unsupported content-encoding {reply.coding!r}"
    else:
        return
    raise UpstreamError(
        "upstream_invalid_response",
        f"upstream {upstream!r} answered {instead} instead of a stream; check its base URL",
    )


async def read_some(reply: HttpReply) -> bytes:
    """Read the start of an error reply, which may break off or be endless."""
    body = bytearray()
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(FAILURE_WAIT_S):
            async for piece in reply.body:
                body += piece
                if len(body) >= MAX_FAILURE_BYTES:
                    break
    return bytes(body[:MAX_FAILURE_BYTES])


def was_sent(error: BaseException) -> bool:
    """Return whether this task's call may have reached its upstream.

    `error` is one of `FAILURES` or a cancellation. False without a connection, or if the other
    end does not speak HTTP.
    """
    return reused.get() is not None and not isinstance(error, _UNREAD)


def explain(error: Exception, *, upstream: str, answered: bool) -> UpstreamError:
    """Translate one of `FAILURES`, without addresses or URLs.

    `answered`: the head of the reply had arrived.
    """
    name = f"upstream {upstream!r}"
    if isinstance(error, FramingError):
        setting = (
            "; raise max_line_bytes and max_event_bytes" if "longer than" in str(error) else ""
        )
        return UpstreamError(
            "upstream_invalid_response", f"{name} sent an unreadable response: {error}{setting}"
        )
    if answered:
        return UpstreamError(
            "upstream_truncated", f"{name} closed the connection before the end of its answer"
        )
    match error:
        case httpx2.ConnectError(__cause__=socket.gaierror()):
            reason = "has a host name that cannot be resolved; check its base URL"
        case httpx2.ConnectError(__cause__=ssl.SSLCertVerificationError() as refused):
            reason = _explain_certificate(refused)
        case httpx2.ConnectError(__cause__=ssl.SSLError() as refused):
            reason = _explain_tls(str(refused))
        case httpx2.ConnectError():
            reason = "cannot be reached; check its base URL and whether it is running"
        case ProxyRefused() | httpx2.ProxyError(__cause__=None):
            reason = f"cannot be reached: {error}"
        case httpx2.ProxyError():
            reason = "cannot be reached through the proxy that the environment sets"
        case NotHttp() if TLS_ALERT in str(error):
            reason = "speaks TLS at its address; begin its base URL with https://"
        case NotHttp():
            return UpstreamError(
                "upstream_invalid_response",
                f"{name} did not answer in valid HTTP; check its base URL",
            )
        case httpx2.TimeoutException() | TimeoutError():
            return UpstreamError("upstream_timeout", f"{name} did not accept a connection in time")
        case _:
            reason = "closed the connection without an answer"
    return UpstreamError("upstream_unavailable", f"{name} {reason}")


def _explain_certificate(error: ssl.SSLCertVerificationError) -> str:
    match error.verify_code:
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return "has an expired certificate"
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return "has a certificate for another host name; check its base URL"
        case 18 | 19 | 20 | 21:  # self-signed, or of an unknown issuer
            return (
                "has a certificate of an untrusted authority; "
                "set SSL_CERT_FILE to the authority's certificate"
            )
        case _:
            return "has an untrusted certificate"


def _explain_tls(reason: str) -> str:
    if "protocol version" in reason.lower() or "UNSUPPORTED_PROTOCOL" in reason:
        return "only speaks obsolete versions of TLS; TLS 1.2 or later is required"
    return "does not speak TLS at its address; check its base URL"

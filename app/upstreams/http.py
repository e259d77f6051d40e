"""The HTTP side of a call: the client, opening a stream, and what its failures mean."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any

import aiohttp
import certifi
import httpx2
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp.httpx2 import AiohttpTransport, Httpx2AiohttpClient
from httpx_aiohttp.httpx2.transport import map_aiohttp_exceptions
from yarl import URL

from app.dialects.failure import parse_failure
from app.errors import UpstreamError
from app.framing.sse import FramingError

MAX_FAILURE_BYTES = 64 * 1024
"""How much of an error reply is read."""

FAILURE_WAIT_S = 2.0
"""How long the body of an error reply may take: less than the gate, or its status is lost."""

KEPT_TRIES = 2
"""How many kept connections may be found closed before the last try."""

CLOSED_WITHIN_S = 0.25
"""How soon that shows: a round trip, and no time to run a model."""

# Many servers close idle connections after 5 s (uvicorn, Node). A connection that is kept for
# less is not found closed by the request that wants it.
KEEPALIVE_S = 4.0

CODINGS = ("", "identity", "gzip", "deflate")
"""What can be decoded, though only the first two are asked for."""

TLS_ALERT = "\\x15\\x03"
"""How a message shows the bytes with which TLS refuses plain HTTP."""

FAILURES = (httpx2.HTTPError, aiohttp.ClientError, OSError, FramingError)
"""What a call may fail with beside `UpstreamError`; `explain` says what it means."""


def open_client(
    *, connect_timeout_s: float, mounts: Mapping[str, httpx2.AsyncBaseTransport]
) -> "Client":
    """Open the HTTP client of all upstreams; `mounts` are transports for URL patterns."""
    return Client(
        mounts=dict(mounts),
        verify=open_trust(),
        timeout=httpx2.Timeout(None, connect=connect_timeout_s, pool=connect_timeout_s),
        follow_redirects=False,
        # A cookie that one call was given must not go out with the next, somebody else's.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def open_trust() -> ssl.SSLContext:
    """Give what certificates are checked against.

    That is SSL_CERT_FILE, else SSL_CERT_DIR, else the system's store, else, where the system
    has none, as in the smallest images, certifi's.
    """
    context = httpx2.create_ssl_context()
    paths = ssl.get_default_verify_paths()
    asked = bool(paths.capath) and paths.capath != paths.openssl_capath
    if not context.cert_store_stats()["x509_ca"] and not asked and not _is_store(paths.capath):
        context.load_verify_locations(certifi.where())
    return context


def _is_store(folder: str | None) -> bool:
    """Tell whether OpenSSL would find certificates there, by their hashes."""
    return bool(folder) and any(Path(str(folder)).glob("*.0"))


_reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the connection that this task uses had served before."""


class _Connection(ResponseHandler):
    """Ends the body that is being read when the connection fails, and says if it is reused.

    aiohttp 3.14 tells only who waits for the next response: a body whose chunks are
    malformed would never end for its reader, though the connection is closed.
    """

    _served = False

    def set_response_params(self, **settings: Any) -> None:
        _reused.set(self._served)
        self._served = True
        super().set_response_params(**settings)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body is malformed"))


class _Body(httpx2.AsyncByteStream):
    """The body of a reply: with each step all that has come since the last.

    It fails with aiohttp's errors, which are among `FAILURES`.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content

    def __aiter__(self) -> "_Body":
        return self

    async def __anext__(self) -> bytes:
        # httpx-aiohttp's own stream and httpx2's around it are four generators: 6 us a token.
        piece = await self._content.readany()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        self._response.release()


class _Transport(AiohttpTransport):
    """aiohttp's, without its limit of 100 connections and its memory for cookies.

    URLs go out as they are: aiohttp would quote them anew, and send ":" for "%3A", so that
    the model's name in a path, or a signature of the path, were not what was built.
    """

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # the hub bounds the streams in flight
            keepalive_timeout=KEEPALIVE_S,
            ssl=self.ssl_context,
        )
        loop = asyncio.get_running_loop()
        assert hasattr(connector, "_factory")  # noqa: S101  (or this would do nothing, quietly)
        connector._factory = partial(_Connection, loop=loop)  # type: ignore[assignment]
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request with a body of bytes; give the reply when its head has come."""
        if not isinstance(self.client, aiohttp.ClientSession):
            self.client = self.get_client()
        proxy = self.proxy
        with map_aiohttp_exceptions():
            response = await self.client.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=request.content or None,
                allow_redirects=False,
                auto_decompress=False,
                timeout=_timeout(**request.extensions.get("timeout", {})),
                proxy=str(proxy.url) if proxy else None,
                proxy_headers=dict(proxy.headers) if proxy else None,
            )
        return httpx2.Response(
            response.status,
            headers=response.raw_headers,
            stream=_Body(response),
            request=request,
        )


@cache
def _timeout(
    *, connect: float | None = None, pool: float | None = None, **_: float | None
) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(sock_connect=connect, connect=pool)


class Client(Httpx2AiohttpClient):
    """Uses `_Transport`, also where the environment names a proxy; calls go through `open`."""

    def _init_transport(  # type: ignore[override]  # called with keywords only
        self, *, transport: httpx2.AsyncBaseTransport | None = None, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        return transport or _Transport(**settings)

    def _init_proxy_transport(  # type: ignore[override]  # as above
        self, proxy: httpx2.Proxy, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        if proxy.url.scheme not in ("http", "https"):
            return _NoTransport("the environment names a proxy that is no HTTP proxy")
        if proxy.auth is not None:
            # httpx-aiohttp hands it on as aiohttp's deprecated `BasicAuth`.
            login = base64.b64encode(":".join(proxy.auth).encode()).decode()
            proxy = httpx2.Proxy(proxy.url, headers={"authorization": f"Basic {login}"})
        return _Transport(proxy=proxy, **settings)

    async def open(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; give the reply when its head has come, whatever it says.

        Straight to the transport: what lies between knows of redirects, cookies and hooks,
        which a call to an upstream has not, and takes 100 us a request.
        """
        return await self._transport_for_url(request.url).handle_async_request(request)


class _NoTransport(httpx2.AsyncBaseTransport):
    """Stands where there is no way."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ProxyError(self._reason)


async def open_stream(client: Client, request: httpx2.Request, *, upstream: str) -> httpx2.Response:
    """Send a request; return a response that promises a stream, for the caller to close.

    Raises:
        UpstreamError: the upstream refused, or answered with something else.
        FAILURES: the connection failed.
    """
    response = await _send(client, request)
    try:
        await _check(response, upstream)
    except BaseException:
        await response.aclose()
        raise
    return response


async def _send(client: Client, request: httpx2.Request) -> httpx2.Response:
    """Send a request, again if a kept connection turns out to have been closed meanwhile.

    A server that had closed an idle connection answers a request on it with a reset at
    once. One that took the request and failed later may have run the model: that is no
    reason to run it again. On a connection of its own a request is sent once.
    """
    clock = asyncio.get_running_loop().time
    for _ in range(KEPT_TRIES):
        _reused.set(False)
        sent_at = clock()
        try:
            return await client.open(request)
        except httpx2.HTTPError as error:
            lost = isinstance(error.__cause__, aiohttp.ClientConnectionError)
            if not (lost and _reused.get() and clock() - sent_at < CLOSED_WITHIN_S):
                raise
    return await client.open(request)


async def _check(response: httpx2.Response, upstream: str) -> None:
    if response.status_code >= 400:
        body = await _read_some(response)
        raise parse_failure(response.status_code, response.headers, body, upstream=upstream)
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code >= 300 or response.status_code == 204:
        instead = f"with status {response.status_code}"
    elif media_type in ("text/html", "application/xhtml+xml"):
        instead = f"with {media_type}"
    elif coding not in CODINGS:
        instead = f"in the content-encoding {coding[:40]!r}, which was not asked for,"
    else:
        return
    raise UpstreamError(
        "upstream_invalid_response",
        f"upstream {upstream!r} answered {instead} instead of a stream; check its base URL",
    )


def body_of(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Give the pieces of a body as they come."""
    if response.headers.get("content-encoding", "identity").strip().lower() in ("", "identity"):
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101  (for mypy)
        return aiter(response.stream)
    return response.aiter_bytes()


async def _read_some(response: httpx2.Response) -> bytes:
    """Read the start of an error reply; a broken or endless one is cut short."""
    body = b""
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(FAILURE_WAIT_S):
            async for piece in body_of(response):
                body += piece
                if len(body) >= MAX_FAILURE_BYTES:
                    break
    return body[:MAX_FAILURE_BYTES]


def explain(error: Exception, *, upstream: str, answered: bool) -> UpstreamError:
    """Say what one of `FAILURES` means, without addresses or URLs.

    `answered`: the reply's head had come.
    """
    name = f"upstream {upstream!r}"
    if isinstance(error, FramingError):
        return UpstreamError(
            "upstream_invalid_response", f"{name} sent what cannot be read: {error}"
        )
    if isinstance(error, httpx2.DecodingError):
        return UpstreamError(
            "upstream_invalid_response",
            f"{name} sent a body that does not match its content-encoding",
        )
    if answered:
        return UpstreamError("upstream_truncated", f"{name} closed the connection in mid-answer")
    # The transport gives most of them as a connect timeout: the cause tells.
    match error.__cause__ or error:
        case aiohttp.ClientConnectorDNSError():
            told = "has a host name that cannot be resolved; check its base URL"
        case aiohttp.ClientConnectorCertificateError() as refused:
            told = _explain_certificate(refused.certificate_error)
        case aiohttp.ClientSSLError() as refused:
            told = _explain_tls(str(refused))
        case aiohttp.ClientHttpProxyError() as refused:
            told = f"cannot be reached: the proxy answered with status {refused.status}"
        case aiohttp.ClientProxyConnectionError():
            told = "cannot be reached through the proxy that the environment names"
        case httpx2.ProxyError():
            told = "cannot be reached: the environment names a proxy that is no HTTP proxy"
        case aiohttp.ClientError() | HttpProcessingError() as refused if TLS_ALERT in str(refused):
            told = "speaks TLS at its address; its base URL has to begin with https://"
        case aiohttp.ClientConnectorError():
            told = "cannot be reached; check its base URL and that it is up"
        case TimeoutError():
            return UpstreamError("upstream_timeout", f"{name} could not be connected to in time")
        case aiohttp.ClientResponseError() | HttpProcessingError():
            return UpstreamError(
                "upstream_invalid_response",
                f"{name} did not answer in valid HTTP; check its base URL",
            )
        case _:
            told = "closed the connection without an answer"
    return UpstreamError("upstream_unavailable", f"{name} {told}")


def _explain_certificate(error: Exception) -> str:
    match getattr(error, "verify_code", None):
        case 10:  # X509_V_ERR_CERT_HAS_EXPIRED
            return "has a certificate that has expired"
        case 62 | 64:  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
            return "has a certificate for another host name; check its base URL"
        case 18 | 19 | 20 | 21:  # self-signed, or of an unknown issuer
            return (
                "has a certificate of an authority that is not trusted here; "
                "name the authority's file in SSL_CERT_FILE"
            )
        case _:
            return "has a certificate that cannot be trusted"


def _explain_tls(reason: str) -> str:
    if "protocol version" in reason.lower() or "UNSUPPORTED_PROTOCOL" in reason:
        return "speaks only TLS versions that are no longer safe; it needs TLS 1.2 or later"
    return "does not speak TLS at its address; check its base URL"

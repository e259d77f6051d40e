"""The HTTP side of a call: the client, opening a stream, and what its failures mean."""

import asyncio
import contextlib
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import aiohttp
import httpx2
from httpx_aiohttp.httpx2 import AiohttpTransport, Httpx2AiohttpClient

from app.dialects.failure import parse_failure
from app.errors import UpstreamError
from app.framing.sse import FramingError

MAX_FAILURE_BYTES = 64 * 1024
"""How much of an error reply is read."""

FAILURE_WAIT_S = 5.0
"""How long the body of an error reply may take."""

# Many servers close idle connections after 5 s (uvicorn, Node). A connection that is kept for
# less is not found closed by the request that wants it.
KEEPALIVE_S = 4.0

FAILURES = (httpx2.HTTPError, aiohttp.ClientError, OSError, FramingError)
"""What a call may fail with beside `UpstreamError`; `explain` says what it means."""


def open_client(
    *, connect_timeout_s: float, mounts: Mapping[str, httpx2.AsyncBaseTransport]
) -> httpx2.AsyncClient:
    """Open the HTTP client of all upstreams; `mounts` are transports for URL patterns."""
    return _Client(
        mounts=dict(mounts),
        timeout=httpx2.Timeout(None, connect=connect_timeout_s, pool=connect_timeout_s),
        follow_redirects=False,
        # A cookie that one call was given must not go out with the next, somebody else's.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


class _Transport(AiohttpTransport):
    """aiohttp's, without its limit of 100 connections and its memory for cookies."""

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # the hub bounds the streams in flight
            keepalive_timeout=KEEPALIVE_S,
            ssl=self.ssl_context,
        )
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


class _Client(Httpx2AiohttpClient):
    """Uses `_Transport`, also where the environment names a proxy."""

    def _init_transport(  # type: ignore[override]  # called with keywords only
        self, *, transport: httpx2.AsyncBaseTransport | None = None, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        return transport or _Transport(**settings)

    def _init_proxy_transport(  # type: ignore[override]  # as above
        self, proxy: httpx2.Proxy, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        return _Transport(proxy=proxy, **settings)


async def open_stream(
    client: httpx2.AsyncClient, request: httpx2.Request, *, upstream: str
) -> httpx2.Response:
    """Send a request; return a response that promises a stream, for the caller to close.

    Raises:
        UpstreamError: the upstream refused, or answered with something else.
        FAILURES: the connection failed.
    """
    response = await client.send(request, stream=True)
    try:
        await _check(response, upstream)
    except BaseException:
        await response.aclose()
        raise
    return response


async def _check(response: httpx2.Response, upstream: str) -> None:
    if response.status_code >= 400:
        body = await _read_some(response)
        raise parse_failure(response.status_code, response.headers, body, upstream=upstream)
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code >= 300 or response.status_code == 204:
        instead = f"with status {response.status_code}"
    elif media_type in ("text/html", "application/xhtml+xml"):
        instead = f"with {media_type}"
    else:
        return
    raise UpstreamError(
        "upstream_invalid_response",
        f"upstream {upstream!r} answered {instead} instead of a stream; check its base URL",
    )


async def _read_some(response: httpx2.Response) -> bytes:
    """Read the start of an error reply; a broken or endless one is cut short."""
    body = b""
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(FAILURE_WAIT_S):
            async for chunk in response.aiter_bytes():
                body += chunk
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
    # The transport reports a server that hangs up as a connect timeout: the cause tells.
    if isinstance(error, httpx2.TimeoutException) and isinstance(error.__cause__, TimeoutError):
        return UpstreamError("upstream_timeout", f"{name} could not be connected to in time")
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return UpstreamError(
            "upstream_unavailable",
            f"{name} cannot be reached; check its base URL and that it is up",
        )
    return UpstreamError("upstream_unavailable", f"{name} closed the connection without an answer")

"""HTTP client of all upstreams: transports, proxies and trusted certificates."""

import base64
import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any

import certifi
import httpx2
from httpx_aiohttp.httpx2 import Httpx2AiohttpClient

from .transport import HttpCall, HttpReply, Transport, read_pieces, reused


def open_client(
    *, connect_timeout_s: float, mounts: Mapping[str, httpx2.AsyncBaseTransport]
) -> "HttpClient":
    """Open the HTTP client of all upstreams; `mounts` are transports for URL patterns."""
    return HttpClient(
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


class HttpClient(Httpx2AiohttpClient):
    """A client on `Transport`, also with proxies from the environment; calls use `open`."""

    def _init_transport(  # type: ignore[override]  # called with keywords only
        self, *, transport: httpx2.AsyncBaseTransport | None = None, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        return transport or Transport(**settings)

    def _init_proxy_transport(  # type: ignore[override]  # as above
        self, proxy: httpx2.Proxy, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        if proxy.url.scheme not in ("http", "https"):
            return _NoTransport("the environment sets a proxy that is not an HTTP proxy")
        if proxy.auth is not None:
            # httpx-aiohttp would pass it as aiohttp's deprecated `BasicAuth`.
            login = base64.b64encode(":".join(proxy.auth).encode()).decode()
            proxy = httpx2.Proxy(proxy.url, headers={"authorization": f"Basic {login}"})
        return Transport(proxy=proxy, **settings)

    async def open(self, call: HttpCall) -> HttpReply:
        """Send a call and return the reply, regardless of its status, once its head arrived.

        It bypasses httpx2's redirects, cookies and hooks, which calls to upstreams do not use,
        and saves 100 us per request.
        """
        transport = self._transport_for_url(call.url)
        if isinstance(transport, Transport):
            return await transport.open(call)
        request = httpx2.Request(call.method, call.url, headers=call.headers, content=call.content)
        reused.set(False)
        response = await transport.handle_async_request(request)  # of a mounted transport
        return HttpReply(response.status_code, response.headers, read_pieces(response))


class _NoTransport(httpx2.AsyncBaseTransport):
    """Fails every call: the URL has no transport."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ProxyError(self._reason)

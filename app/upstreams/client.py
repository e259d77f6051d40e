"""The HTTP client of all upstreams: where calls go, and which certificates they trust."""

import base64
import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any

import certifi
import httpx2
from httpx_aiohttp.httpx2 import Httpx2AiohttpClient

from .transport import Call, Reply, Transport, read_pieces, reused


def open_client(
    *,
    connect_timeout_s: float,
    mounts: Mapping[str, httpx2.AsyncBaseTransport],
    kind: "type[Client] | None" = None,
) -> "Client":
    """Open the HTTP client of all upstreams; `mounts` are transports for URL patterns."""
    return (kind or Client)(
        mounts=dict(mounts),
        verify=open_trust(),
        timeout=httpx2.Timeout(None, connect=connect_timeout_s, pool=connect_timeout_s),
        follow_redirects=False,
        # A cookie that one call was given must not go out with the next, somebody else's.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def open_trust() -> ssl.SSLContext:
    """Return what certificates are checked against.

    That is SSL_CERT_FILE, else SSL_CERT_DIR, else the system's store, else, where the system
    has none, as in the smallest images, certifi's.
    """
    context = httpx2.create_ssl_context()
    # Python's own default on Debian 12 is whatever OpenSSL's configuration says, or nothing.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    paths = ssl.get_default_verify_paths()
    asked = bool(paths.capath) and paths.capath != paths.openssl_capath
    if not context.cert_store_stats()["x509_ca"] and not asked and not _is_store(paths.capath):
        context.load_verify_locations(certifi.where())
    return context


def _is_store(folder: str | None) -> bool:
    """Return whether OpenSSL would find certificates there, by their hashes."""
    return bool(folder) and any(Path(str(folder)).glob("*.0"))


class Client(Httpx2AiohttpClient):
    """Uses `Transport`, also where the environment names a proxy; calls go through `open`."""

    def _init_transport(  # type: ignore[override]  # called with keywords only
        self, *, transport: httpx2.AsyncBaseTransport | None = None, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        return transport or Transport(**settings)

    def _init_proxy_transport(  # type: ignore[override]  # as above
        self, proxy: httpx2.Proxy, **settings: Any
    ) -> httpx2.AsyncBaseTransport:
        if proxy.url.scheme not in ("http", "https"):
            return _NoTransport("the environment names a proxy that is no HTTP proxy")
        if proxy.auth is not None:
            # httpx-aiohttp hands it on as aiohttp's deprecated `BasicAuth`.
            login = base64.b64encode(":".join(proxy.auth).encode()).decode()
            proxy = httpx2.Proxy(proxy.url, headers={"authorization": f"Basic {login}"})
        return Transport(proxy=proxy, **settings)

    async def open(self, call: Call) -> Reply:
        """Make a call and return the reply, whatever its status, when its head has come.

        Straight to the transport: what lies between knows of redirects, cookies and hooks,
        which a call to an upstream has not, and takes 100 us a request.
        """
        transport = self._transport_for_url(call.url)
        if isinstance(transport, Transport):
            return await transport.open(call)
        request = httpx2.Request(call.method, call.url, headers=call.headers, content=call.content)
        reused.set(False)
        response = await transport.handle_async_request(request)  # of a mounted one
        return Reply(response.status_code, response.headers, read_pieces(response))


class _NoTransport(httpx2.AsyncBaseTransport):
    """Refuses every call: the URL has no transport."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ProxyError(self._reason)

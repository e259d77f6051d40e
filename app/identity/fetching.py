"""Fetcher of identity providers' documents, with limited size and without redirects."""

import asyncio
import ssl
from collections.abc import Callable

import httpx2

from .jwks import JwksUnusable
from .urls import is_loopback

MAX_BYTES = 512 * 1024
"""A set of ten keys with their certificates takes 30 KiB."""

HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "seseragi",
}


class Fetcher:
    """Fetches documents, each with a new client: an issuer's is fetched every ten minutes."""

    def __init__(self, trust: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._make_trust = trust or httpx2.create_ssl_context
        self._trust: ssl.SSLContext | None = None

    async def fetch(self, url: str) -> bytes:
        """Return the body at a URL, which the caller has validated.

        The caller limits the time with `asyncio.timeout`.

        Raises:
            JwksUnusable: it is unreachable, the status is not 200, or the body is encoded or
                longer than `MAX_BYTES`.
        """
        if self._trust is None:
            # Loading the system's certificates takes some 20 ms.
            self._trust = await asyncio.to_thread(self._make_trust)
        try:
            async with (
                httpx2.AsyncClient(
                    verify=self._trust,
                    # This machine is not behind a proxy.
                    trust_env=not is_loopback(url),
                    follow_redirects=False,
                    timeout=None,  # the caller's timeout covers the whole fetch
                ) as client,
                client.stream("GET", url, headers=HEADERS) as response,
            ):
                return await _read(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise JwksUnusable(f"{type(error).__name__}: {str(error)[:200]}") from None
        except ImportError:  # httpx2 needs another package for SOCKS
            raise JwksUnusable("the environment sets a proxy that is not an HTTP proxy") from None


async def _read(response: httpx2.Response) -> bytes:
    if response.is_redirect:
        raise JwksUnusable(
            f"redirects are not followed (status {response.status_code}); "
            "set jwks_url to where the keys are"
        )
    if response.status_code != 200:
        raise JwksUnusable(f"the response has the status {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise JwksUnusable("the response has an unsupported content encoding")
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > MAX_BYTES:
            raise JwksUnusable(f"the response is longer than {MAX_BYTES} bytes")
    return bytes(body)

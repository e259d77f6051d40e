"""Validation of the HTTP client's environment variables."""

import ssl
from collections.abc import Mapping

import httpx2

from .failure import SettingsError

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def check_network(environ: Mapping[str, str]) -> None:
    """Refuse unreadable certificates and invalid proxies.

    The client reads these variables itself, and would fail at start with a traceback.
    """
    if path := environ.get("SSL_CERT_FILE"):
        try:
            ssl.create_default_context(cafile=path)
        except (OSError, ValueError):  # an SSLError is an OSError
            raise SettingsError(
                f"the environment variable SSL_CERT_FILE: {path!r} is not a file of certificates "
                "(PEM)"
            ) from None
    for name in PROXIES:
        for variable in (name, name.lower()):
            url = environ.get(variable, "").strip()
            try:
                if url:
                    httpx2.Proxy(url if "://" in url else f"http://{url}")
            except (ValueError, httpx2.InvalidURL):
                raise SettingsError(
                    f"the environment variable {variable}: not a proxy URL"
                ) from None

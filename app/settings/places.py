"""Where upstreams are: URLs and headers, checked."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from app.dialects.table import MODEL
from app.settings.failure import SettingsError


def check_url(url: str, source: str) -> str:
    """Give the URL as requests are built on it; `source` is where it was written."""
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
        httpx2.URL(url.replace(MODEL, "model"))
    except (ValueError, httpx2.InvalidURL) as error:
        raise SettingsError(f"{source}: it is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise SettingsError(f"{source}: it has to start with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise SettingsError(f"{source}: put the key into key_env, not into the URL")
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise SettingsError(
            f"{source}: it must have no query, fragment, spaces or special characters; "
            "what every request needs goes into query"
        )
    return url


def check_headers(headers: Mapping[str, str], source: str) -> Mapping[str, str]:
    """Refuse headers that cannot be sent."""
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise SettingsError(f"{source}: {name!r} is no name of a header")
        if not re.fullmatch(r"[ -~]*", value):
            raise SettingsError(f"{source}.{name}: a header has visible ASCII characters only")
    return headers

"""Validation of the base URLs, headers and query parameters of upstreams."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from ..dialects.upstream_format import MODEL
from ..upstreams.presets import PLACES, Preset
from .convert import SettingsError

KEY_HEADERS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
OWN_HEADERS = ("content-length", "transfer-encoding", "expect")
"""Framing headers: a fixed value would break every request, or let it hang."""
KEY_QUERIES = ("key", "api_key", "api-key", "apikey", "token", "access_token")


def complete_url(url: str, preset: Preset) -> str:
    """Complete the value of a variable, which may be a bare host for some presets."""
    url = url.rstrip("/")
    if preset.port is not None:
        url = _complete_host(url, preset.port)
    # A value that contains "/openai" includes the rest of "/openai/deployments/...".
    first = preset.base_url_suffix[1:].partition("/")[0]
    path = f"/{url.partition('://')[2].partition('/')[2]}/"
    return url if first and f"/{first}/" in path else url + preset.base_url_suffix


def _complete_host(host: str, port: int) -> str:
    """Return a URL for `HOST`, `HOST:PORT`, `:PORT` or a URL."""
    if "://" in host:
        return host
    if port == 443:
        return f"https://{host}"
    host, slash, path = host.partition("/")
    if host.startswith(":"):
        host = f"127.0.0.1{host}"
    if not re.search(r":\d+$", host):
        host = f"{host}:{port}"
    # A server that listens on all addresses is reachable at the loopback address.
    host = re.sub(r"^(0\.0\.0\.0|\[::\])(?=:)", "127.0.0.1", host)
    return f"http://{host}{slash}{path}"


def google_host(location: str) -> str:
    """Return the host of Vertex AI in a location."""
    match location:
        case "global":
            return "aiplatform.googleapis.com"
        case "us" | "eu":  # multi-regions
            return f"aiplatform.{location}.rep.googleapis.com"
        case _:
            return f"{location}-aiplatform.googleapis.com"


def check_url(url: str, source: str) -> str:
    """Return a base URL without a slash at the end.

    Raises:
        SettingsError: it is invalid.
    """
    url = url.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
        httpx2.URL(url.replace(MODEL, "model"))
    except (ValueError, httpx2.InvalidURL):
        # The error may quote the URL, including a password.
        raise SettingsError(f"{source}: not a URL") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise SettingsError(f"{source}: must start with http:// or https:// and have a host")
    if parts.username or parts.password:
        raise SettingsError(f"{source}: put the key into key_env, not into the URL")
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", url):
        raise SettingsError(
            f"{source}: must not contain a query, fragment, spaces or special characters; "
            "use the setting query instead"
        )
    if MODEL in parts.netloc:  # clients would choose where keys are sent
        raise SettingsError(f"{source}: {MODEL} is only allowed in the path")
    unknown = set(re.findall(r"{(.*?)}", url)) - {MODEL[1:-1]}
    if unknown or re.search(r"[{}]", url.replace(MODEL, "")):
        known = ", ".join(["{model}", *(f"{{{name}}}" for name in PLACES)])
        raise SettingsError(f"{source}: unknown placeholder; use one of {known}")
    return url


def check_headers(headers: Mapping[str, str], source: str) -> Mapping[str, str]:
    """Return the headers with lower-case names.

    Refuse invalid headers, and those for keys.
    """
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            raise SettingsError(f"{source}: {name!r} is not a header name")
        if name.lower() in KEY_HEADERS:
            raise SettingsError(f"{source}.{name}: put the key into key_env, and say how in auth")
        if name.lower() in OWN_HEADERS:
            raise SettingsError(f"{source}.{name}: the relay sets this header itself")
        if not re.fullmatch(r"[ -~]*", value):
            raise SettingsError(f"{source}.{name}: only visible ASCII characters are allowed")
        found[name.lower()] = value
    return found


def check_query(query: Mapping[str, str], source: str) -> Mapping[str, str]:
    """Refuse a key in the URL, which appears in logs."""
    for name in query:
        if name.lower() in KEY_QUERIES:
            raise SettingsError(f"{source}.{name}: put the key into key_env, not into the URL")
    return query

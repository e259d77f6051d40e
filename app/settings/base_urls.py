"""Base URLs, headers and query parameters of upstreams: substitution and validation."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from ..dialects.upstream_format import MODEL
from ..upstreams.presets import PLACES, Preset
from .failure import SettingsError
from .tables import UpstreamTable

KEY_HEADERS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
OWN_HEADERS = ("content-length", "transfer-encoding", "expect")
"""Framing headers: a fixed value would break every request, or let it hang."""
KEY_QUERIES = ("key", "api_key", "api-key", "apikey", "token", "access_token")


def find_base_url(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> str:
    """Return the complete base URL, from the table, the variable or the preset."""
    variable = environ.get(preset.base_url_env or "", "").strip()
    if table.base_url is not None:
        url, source = table.base_url, f"{place}.base_url"
    elif variable and preset.base_url_env is not None:
        url, source = _from_variable(variable, preset), preset.base_url_env
    elif preset.base_url is not None:
        url, source = preset.base_url, place
    else:
        hint = f", or set {preset.base_url_env}" if preset.base_url_env else ""
        raise SettingsError(f"{place}: base_url is missing; set the base URL of the API{hint}")
    return _check_url(_fill(url, table, preset, environ, place=place), source)


def find_base_url_source(
    table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> str:
    """Return the setting or variable with the base URL; "" if it is the preset's."""
    if table.base_url is not None:
        return f"{place}.base_url"
    return preset.base_url_env or "" if environ.get(preset.base_url_env or "", "").strip() else ""


def find_place(
    name: str, table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> str:
    """Return the value of one of `PLACES`, from the table, its variables or the preset."""
    variables = PLACES[name]
    candidates = [getattr(table, name), *(environ.get(variable) for variable in variables)]
    value = next((value.strip() for value in candidates if value), preset.defaults.get(name))
    if value is None:
        raise SettingsError(f"{place}: {name} is missing; give it, or set {' or '.join(variables)}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]*", value):
        raise SettingsError(
            f"{place}: {name} cannot be used: letters, digits and '-', '.', '_', ':' only"
        )
    return value


def _from_variable(url: str, preset: Preset) -> str:
    """Complete the variable's value, which may be a bare host for some presets."""
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


def _fill(
    url: str, table: UpstreamTable, preset: Preset, environ: Mapping[str, str], *, place: str
) -> str:
    if "{location_host}" in url:
        location = find_place("location", table, preset, environ, place=place)
        url = url.replace("{location_host}", _google_host(location))
    for name in PLACES:
        mark = "{" + name + "}"
        if mark in url:
            url = url.replace(mark, find_place(name, table, preset, environ, place=place))
    return url


def _google_host(location: str) -> str:
    match location:
        case "global":
            return "aiplatform.googleapis.com"
        case "us" | "eu":  # multi-regions
            return f"aiplatform.{location}.rep.googleapis.com"
        case _:
            return f"{location}-aiplatform.googleapis.com"


def _check_url(url: str, source: str) -> str:
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
        if name.lower() in found:
            raise SettingsError(f"{source}: {name!r} occurs twice")
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

"""Upstreams from the file's tables, the presets and the environment."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Meta

from ..cassettes.folder import Folder
from ..demo import MODELS
from ..dialects.upstream_format import MODEL, Quirks
from ..dialects.upstream_formats import UPSTREAM_FORMATS
from ..errors import UpstreamError, suggest
from ..policies.capacity import TargetLimits
from ..upstreams.aws import AwsCredentials
from ..upstreams.cassettes import CASSETTE
from ..upstreams.credentials import (
    Auth,
    CredentialsSource,
    Key,
    KeyFile,
    KeyUnusable,
    NoCredentials,
    Secret,
    UpstreamCredentials,
    check_key,
)
from ..upstreams.endpoints import Door, DoorRules, Upstream
from ..upstreams.google import GoogleCredentials
from ..upstreams.options import SAFE_WORD
from ..upstreams.presets import PLACES, PRESETS, UNKNOWN, Preset, PresetDoor
from .convert import SettingsError, convert, find_part, same_fields
from .transforms import build_transform
from .values import Scheme, Settings

KEY_HEADERS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
OWN_HEADERS = ("content-length", "transfer-encoding", "expect")
"""Framing headers: a fixed value would break every request, or let it hang."""
KEY_QUERIES = ("key", "api_key", "api-key", "apikey", "token", "access_token")

DEMO: Final = Upstream("demo", "http://demo/v1", models=(*MODELS,), prefixed=False)
"""The built-in models, which run in this process."""

OWN: Final = (DEMO.name, CASSETTE.name)
"""The names of upstreams within this process."""

REPLAYED_KEY: Final = "replayed"
REPLAYED_URL: Final = "http://127.0.0.1:9"
"""A port without a server: `discard` (RFC 863)."""

Text = Annotated[str, Meta(min_length=1)]
"""For values where an empty string would be mistaken for absence."""


class UpstreamTable(TargetLimits, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[upstream.NAME]`: a name of a preset, or `preset`, provides the defaults."""

    preset: str | None = None
    base_url: str | None = None
    dialect: Text | Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None
    """Several for a host with several APIs: the first is for all clients without their own."""
    key_env: Text | None = None
    key_file: Text | None = None
    auth: Auth | None = None
    region: str | None = None
    project: str | None = None
    location: str | None = None
    resource: str | None = None
    account: str | None = None
    profile: str | None = None
    """Of Amazon's shared files."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    models: tuple[Text, ...] = ()
    default_model: Text | None = None
    quirks: Mapping[str, Any] = {}
    """Of the dialect's own type."""
    options: tuple[Text, ...] | None = None
    url_schemes: tuple[Scheme, ...] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1, le=10**7)] | None = None
    trace_context: bool = False
    resume: bool = False
    keepalive: bool = True
    rename: Mapping[str, Text] = {}
    drop: tuple[Text, ...] = ()
    set: Mapping[str, Any] = {}


def build_upstreams(
    tables: Any, environ: Mapping[str, str], settings: Settings, where: str, *, restricted: bool
) -> tuple[Upstream, ...]:
    """Build the upstreams of the file, then those that variables add.

    `restricted`: whether clients are limited to a set of models, or have to authenticate.

    Raises:
        SettingsError: a table, a key or a value is invalid.
    """
    if settings.record_cassettes == "replay" and settings.cassettes:
        environ = {**environ, **_replace_keys(Path(settings.cassettes), environ)}
    if not isinstance(tables, dict):
        raise SettingsError(f"{where}upstream: write tables such as [upstream.openai]")
    builders = []
    for name, raw in tables.items():
        place = f"{where}upstream.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name) or name in OWN:
            raise SettingsError(
                f"{place}: an upstream's name is made of a-z, 0-9, '_', '.' and '-', "
                f"and is not {' or '.join(map(repr, OWN))}"
            )
        table = convert(raw, UpstreamTable, place)
        if table.preset is not None and table.preset not in PRESETS:
            raise SettingsError(
                f"{place}.preset: unknown preset {table.preset!r}"
                f"{suggest(table.preset, PRESETS)}; presets: {', '.join(PRESETS)}"
            )
        preset = PRESETS.get(table.preset or name, UNKNOWN)
        builders.append(_Builder(name, table, preset=preset, environ=environ, place=place))
    for name, preset in PRESETS.items():
        if name not in tables and _is_added(preset, environ):
            builders.append(
                _Builder(
                    name,
                    UpstreamTable(),
                    preset=preset,
                    environ=environ,
                    place=f"upstream {name!r}",
                )
            )
    safe = restricted or not settings.passthrough
    return tuple(
        one.build(options=(SAFE_WORD,) if safe else None, url_schemes=settings.url_schemes)
        for one in builders
    )


def how_to_add(name: str) -> str | None:
    """Return how to add a preset's upstream; None if there is no such preset."""
    preset = PRESETS.get(name)
    if preset is None:
        return None
    table = f"write [upstream.{name}]"
    if preset.added_by == "table":
        return table
    variables = preset.added_by.replace("key", " or ".join(preset.key_env))
    return f"set {variables.replace('URL', preset.base_url_env or '')}, or {table}"


def _is_added(preset: Preset, environ: Mapping[str, str]) -> bool:
    """Return whether the environment alone is sufficient to use a provider."""
    key = any(variable in environ for variable in preset.key_env)
    url = preset.base_url_env in environ
    added = {"key": key, "URL": url, "key or URL": key or url, "key and URL": key and url}
    return added.get(preset.added_by, False)


def _replace_keys(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that add the providers of recorded cassettes, for replay without keys.

    Requests have to select the same targets as when they were recorded.
    """
    found: dict[str, str] = {}
    for name in Folder(folder).upstreams():
        preset = PRESETS.get(name)
        if preset is None or any(variable in environ for variable in preset.key_env):
            continue
        if preset.key_env:
            found[preset.key_env[0]] = REPLAYED_KEY
        if preset.base_url_env is not None and preset.base_url_env not in environ:
            found[preset.base_url_env] = REPLAYED_URL
    return found


class _Builder(NamedTuple):
    """Builds one upstream from its table, its preset and variables that are not empty."""

    name: str
    table: UpstreamTable
    preset: Preset
    environ: Mapping[str, str]
    place: str

    def build(self, *, options: tuple[str, ...] | None, url_schemes: tuple[str, ...]) -> Upstream:
        """Build it; `options` and `url_schemes` are the defaults."""
        table, preset, place = self.table, self.preset, self.place
        base_url, base_url_source = self._find_base_url()
        dialect, *others = (
            (preset.dialect, *self._find_doors(base_url))
            if table.dialect is None
            else (table.dialect,)
            if isinstance(table.dialect, str)
            else table.dialect
        )
        upstream_format = find_part(UPSTREAM_FORMATS, dialect, f"{place}.dialect")
        if table.resume and upstream_format.resume is None:
            known = ", ".join(sorted(name for name, one in UPSTREAM_FORMATS.items() if one.resume))
            raise SettingsError(
                f"{place}.resume: {dialect!r} cannot read an answer on; dialects that can: {known}"
            )
        # A host other than the provider's own may need no key.
        own_host = table.base_url is None and preset.base_url_env not in self.environ
        needed = own_host and (preset.base_url or "").startswith("https:")
        credentials, credentials_source = self._find_credentials(needed=needed)
        fields = {
            **same_fields(table, Upstream),
            "name": self.name,
            "base_url": base_url,
            "dialect": dialect,
            "credentials": credentials,
            "query": check_query({**preset.query, **table.query}, f"{place}.query"),
            "headers": {**preset.headers, **check_headers(table.headers, f"{place}.headers")},
            "quirks": self._convert_quirks(dialect, own_host=own_host),
            "default_model": table.default_model
            or (None if table.models else preset.default_model),
            "lists_models": preset.lists_models,
            "options": options if table.options is None else table.options,
            "url_schemes": url_schemes if table.url_schemes is None else table.url_schemes,
            "credentials_source": credentials_source,
            "base_url_source": base_url_source,
            "target_limits": TargetLimits(**same_fields(table, TargetLimits)),
            "transform": build_transform(table.rename, table.drop, table.set, place),
        }
        upstream = Upstream(**fields)
        doors = tuple([self._build_door(upstream, other) for other in others])
        return msgspec.structs.replace(upstream, doors=doors) if doors else upstream

    def _find_doors(self, base_url: str) -> tuple[str, ...]:
        """Return the dialects of the provider's other APIs, which other hosts may lack."""
        own, url = urlsplit(self.preset.base_url or ""), urlsplit(base_url)
        usual = re.sub(r"^{\w+}", "", own.netloc)
        return tuple(
            dialect
            for dialect, door in self.preset.doors.items()
            for host in (usual, *door.hosts)
            if url.path == own.path and f".{url.netloc}".endswith(f".{host.lstrip('.')}")
        )

    def _build_door(self, upstream: Upstream, dialect: str) -> Door:
        upstream_format = find_part(UPSTREAM_FORMATS, dialect, f"{self.place}.dialect")
        preset = self.preset.doors.get(dialect, PresetDoor())
        quirks = convert(preset.quirks, upstream_format.quirks, f"{self.place}.quirks")
        other = msgspec.structs.replace(upstream, dialect=dialect, quirks=quirks, resume=False)
        return Door(upstream=other, **same_fields(preset, DoorRules))

    def _find_base_url(self) -> tuple[str, str]:
        """Return the base URL, and its setting or variable; "" for the preset's."""
        table, preset, variable = self.table, self.preset, self.preset.base_url_env
        if table.base_url is not None:
            url, source = table.base_url, f"{self.place}.base_url"
        elif variable is not None and variable in self.environ:
            url, source = complete_url(self.environ[variable].strip(), preset), variable
        elif preset.base_url is not None:
            url, source = preset.base_url, ""
        else:
            hint = f", or set {variable}" if variable else ""
            raise SettingsError(
                f"{self.place}: base_url is missing; set the base URL of the API{hint}"
            )
        if "{location_host}" in url:
            url = url.replace("{location_host}", google_host(self._find_place("location")))
        for name in PLACES:
            if f"{{{name}}}" in url:
                url = url.replace(f"{{{name}}}", self._find_place(name))
        return check_url(url, source or self.place), source

    def _find_place(self, name: str) -> str:
        """Return the value of one of `PLACES`, from the table, its variables or the preset."""
        candidates = [getattr(self.table, name), *map(self.environ.get, PLACES[name])]
        default = self.preset.defaults.get(name)
        value = next((value.strip() for value in candidates if value), default)
        if value is None:
            raise SettingsError(
                f"{self.place}: {name} is missing; give it, or set {' or '.join(PLACES[name])}"
            )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:-]*", value):
            raise SettingsError(
                f"{self.place}: {name} cannot be used: letters, digits and '-', '.', '_', ':' only"
            )
        return value

    def _find_credentials(self, *, needed: bool) -> tuple[UpstreamCredentials, CredentialsSource]:
        """Return the credentials and their source; `needed`: whether a key is required."""
        table, preset, place = self.table, self.preset, self.place
        if table.key_env and table.key_file:
            raise SettingsError(f"{place}: key_env and key_file are both set; remove one")
        if table.auth in ("none", "aws", "google"):
            if table.key_env or table.key_file:
                raise SettingsError(
                    f"{place}: auth = {table.auth!r} takes no key; leave out the key"
                )
            return self._without_key(table.auth)
        auth = table.auth or preset.auth
        if table.key_file:
            return self._read_key_file(table.key_file, auth)
        for variable in (table.key_env,) if table.key_env else preset.key_env:
            if variable in self.environ:
                try:
                    key = check_key(self.environ[variable])
                except KeyUnusable as error:
                    raise SettingsError(f"the environment variable {variable}: {error}") from None
                setting = f"{place}.key_env" if table.key_env else None
                source = CredentialsSource("environment", variable, setting)
                return Key(Secret(key), auth), source
        if table.key_env:
            # Other values may be a key, set by mistake.
            is_name = re.fullmatch(r"[A-Z][A-Z0-9_]*", table.key_env)
            subject = f"the environment variable {table.key_env}" if is_name else "the variable"
            raise SettingsError(f"{place}.key_env: {subject} is not set")
        if table.auth is not None:
            raise SettingsError(f"{place}.auth: no key; set key_env or key_file")
        if needed and preset.without_key == "none":
            raise SettingsError(
                f"{place}: no key; set {' or '.join(preset.key_env)}, key_env or key_file"
            )
        return self._without_key(preset.without_key)

    def _read_key_file(
        self, path: str, auth: Auth
    ) -> tuple[UpstreamCredentials, CredentialsSource]:
        place = f"{self.place}.key_file"
        try:
            return Key(KeyFile(path), auth), CredentialsSource("file", path, place)
        except KeyUnusable as error:
            raise SettingsError(f"{place}: {error}") from None

    def _without_key(self, auth: Auth) -> tuple[UpstreamCredentials, CredentialsSource]:
        profile = self.table.profile
        try:
            match auth:
                case "aws":
                    source = CredentialsSource("aws", profile and f"profile {profile!r}")
                    return AwsCredentials(self._find_place("region"), profile), source
                case "google":
                    return GoogleCredentials(), CredentialsSource("google")
                case _:
                    return NoCredentials(), CredentialsSource()
        except UpstreamError as error:  # a package is not installed
            raise SettingsError(f"{self.place}: {error}") from None

    def _convert_quirks(self, dialect: str, *, own_host: bool) -> Quirks | None:
        """Convert the quirks to the dialect's type; the preset's are the defaults."""
        preset, quirks = self.preset, self.table.quirks
        if preset.dialect == dialect:
            quirks = {**preset.quirks, **(preset.host_quirks if own_host else {}), **quirks}
        if not quirks:
            return None
        found: Quirks = convert(quirks, UPSTREAM_FORMATS[dialect].quirks, f"{self.place}.quirks")
        return found


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

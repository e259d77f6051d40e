"""Access to a relay without configured credentials, and the API key for one run.

The network is no credential: a proxy on the same machine looks like a local client. So only a
relay that listens on a loopback address and whose upstreams are free is open, and only for
chats. Everything else requires a key, which the run generates itself, as notebooks do.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
import structlog

from .. import __version__
from ..addresses import is_loopback, parse_address, write_url
from ..identity.config import AuthConfig, KeyConfig
from ..identity.keys import check_keys, digest, make_key
from ..identity.keys_file import KeysUnusable
from ..upstreams.credentials import NoCredentials
from ..upstreams.endpoints import Upstream
from ..upstreams.options import SAFE_WORD
from .failure import SettingsError
from .values import Settings

Access = Literal[
    "open", "none", "keys", "issuers", "keys and issuers", "a key for this run"
]  # fmt: skip
"""The authentication of chats: none (locally, or by a proxy), or the configured credentials."""

THIS_RUN = "this-run"
"""The name of the key for this run."""

log = structlog.get_logger("seseragi.settings")

PRIVATE_NAMES = (".local", ".internal", ".home.arpa")
"""Suffixes of private names (RFC 6762, ICANN, RFC 8375), also in Kubernetes."""


def decide_access(settings: Settings) -> Access:
    """Return the access for chats.

    Raises:
        SettingsError: no client could have access, or each replica would generate its own key.
    """
    identity = settings.identity
    if identity.trusted:
        return "none"
    if identity.configured:
        return _configured(settings)
    reasons = _why_closed(settings)
    if not reasons:
        return "open"
    if settings.log.startswith("redis"):
        raise SettingsError(
            f"auth: {reasons}, but no credentials are configured, and over Redis each relay would "
            "make a key of its own: make one for all with seseragi key new NAME and set [auth] "
            "keys_file (SESERAGI_KEYS_FILE); or, if something in front authenticates clients, "
            "SESERAGI_AUTH=none"
        )
    return "a key for this run"


def _why_closed(settings: Settings) -> str:
    """Return why clients need a credential, as a clause; "" if they do not."""
    reasons = []
    if not is_loopback(settings.host.lower()):
        reasons.append("other machines can reach this relay")
    if (costly := next(costly_upstreams(settings), None)) is not None:
        reasons.append(f"{costly.name!r} may cost money")
    return " and ".join(reasons)


def _configured(settings: Settings) -> Access:
    identity = settings.identity
    keys = bool(identity.keys) or identity.auth.keys_file is not None
    if keys and identity.issuers:
        return "keys and issuers"
    if identity.issuers:
        return "issuers"
    if not keys:
        raise SettingsError(
            "auth: authentication is on, but no credentials are configured; set keys_file, "
            "a [[key]] or an [[issuer]]; or, if a proxy authenticates clients, auth = 'none'"
        )
    return "keys"


def costly_upstreams(settings: Settings) -> Iterator[Upstream]:
    """Yield the upstreams that may cost money.

    Those without a key at a private address, such as Ollama and vLLM, do not.
    """
    for upstream in settings.upstreams:
        keyless = isinstance(upstream.credentials, NoCredentials) and not upstream.headers
        if not (keyless and _is_private(upstream.base_url)):
            yield upstream


def _is_private(url: str) -> bool:
    try:
        name = (urlsplit(url).hostname or "").removesuffix(".")
    except ValueError:
        return False
    address = parse_address(name)
    if address is not None:
        return not address.is_global
    if not name or "{" in name:
        return False
    return "." not in name or is_loopback(name) or name.endswith(PRIVATE_NAMES)


class Start(NamedTuple):
    """The settings of a run, and its key if it generated one."""

    settings: Settings
    access: Access
    key: str | None
    """The key for this run; the settings have its digest. None if others are configured."""

    @property
    def for_people(self) -> bool:
        """Whether stderr is for a person, rather than a program that parses JSON lines."""
        form = self.settings.log_format
        return form == "console" or (form == "auto" and sys.stderr.isatty())

    def announce(self, port: int, models: str = "", operator_url: str = "") -> None:
        """Print the relay's URLs, with the key for this run, to stderr.

        For programs this is one JSON line with the key, if there is one. `models` describes the
        models, in the listening process; without it only the key is printed.
        """
        if self.access == "none" and (reasons := _why_closed(self.settings)):
            log.warning(f"exposed: auth = 'none' serves every client that connects, and {reasons}")
        url = _url_of(self.settings.host, port)
        page = f"{url}/#key={self.key}" if self.access == "a key for this run" else f"{url}/"
        admin = f"{url}/admin" + ("" if self.key is None else f"#key={self.key}")
        if self.for_people and (models or self.key is not None):
            text = self._describe(page, admin, models, operator_url)
        elif self.key is not None:
            line = {"level": "info", "logger": "seseragi.settings", "event": "key for this run"}
            why = _why_closed(self.settings) if self.access == "a key for this run" else ""
            needed = {"why": why, "page": page} if why else {}
            text = json.dumps({**line, **needed, "admin": admin})
        else:
            return
        print(text, file=sys.stderr, flush=True)

    def _describe(self, page: str, admin: str, models: str, operator_url: str) -> str:
        """Return the start message for a person.

        The key is in the fragment, which browsers do not send.
        """
        local = is_loopback(self.settings.host.lower())
        rows = {
            "Chat": page,
            "Admin": admin if self.settings.admin else "",
            "Operator": operator_url,
            "Models": models,
        }
        match self.access:
            case "open":
                rows["Access"] = "everybody on this machine; Admin needs its key"
            case "none":
                rows["Access"] = "everybody who can connect (auth = 'none')"
            case "a key for this run":
                rows["Access"] = f"the key above is needed: {_why_closed(self.settings)}"
            case _:
                rows["Access"] = f"clients need a credential: {self.access}"
        table = "".join(f"    {name:<9}{row}\n" for name, row in rows.items() if row)
        more = []
        if not local:
            more += ["From another machine, or in a container: replace the address and the port."]
        if self.access == "a key for this run":
            more += [
                "API clients send what follows #key= as their API key. The next run has another.",
                "Permanent keys: seseragi key new NAME. If something in front authenticates "
                "clients: SESERAGI_AUTH=none.",
            ]
        if models:
            more += ["Add a provider by its key: OPENAI_API_KEY=... seseragi. Stop with Ctrl-C."]
        return f"\nSeseragi {__version__}\n\n{table}\n" + "".join(f"{one}\n" for one in more)


def settle_identity(settings: Settings) -> Start:
    """Decide the access for chats and check the keys; generate the key for this run if needed.

    Without configured keys, operators need it for `/admin`, regardless of the access for chats.

    Raises:
        SettingsError: as `decide_access`, or a key or the keys file cannot be used.
    """
    access = decide_access(settings)
    identity = settings.identity
    keys_file = identity.auth.keys_file
    try:
        check_keys(identity.keys, None if keys_file is None else Path(keys_file))
    except KeysUnusable as error:
        raise SettingsError(f"auth: {error}") from None
    needed = access == "a key for this run"
    if not needed and (
        access not in ("open", "none")
        or not settings.admin
        or identity.keys
        or keys_file is not None
        or settings.log.startswith("redis")  # each relay would generate its own
    ):
        return Start(settings, access, None)
    key = make_key()
    config = KeyConfig(name=THIS_RUN, sha256=digest(key), roles=("client_secrets", "admin"))
    identity = msgspec.structs.replace(identity, keys=(config,), configured=needed)
    if needed:  # here, so that all workers share it
        auth = AuthConfig(signing_key=secrets.token_urlsafe(32))
        identity = msgspec.structs.replace(identity, auth=auth)
    return Start(msgspec.structs.replace(settings, identity=identity), access, key)


def settle_hook(settings: Settings) -> Settings:
    """Complete the settings of a relay whose host application identifies the callers.

    Raises:
        SettingsError: they say themselves who may ask, or let every page use the cookies of users.
    """
    identity = settings.identity
    if identity.trusted or identity.keys or identity.issuers or identity.auth.keys_file:
        raise SettingsError(
            "identify: the settings say who may ask too; leave out identify, or auth = 'none', "
            "keys_file, [[key]] and [[issuer]]"
        )
    if anybody := {"*", "null"}.intersection(settings.cors_origins):  # null: any sandboxed frame
        raise SettingsError(
            f"cors_origins: with identify {anybody.pop()!r} would let every page ask with the "
            "cookies of your users; name the origins of your pages"
        )
    upstreams = tuple(  # as for every relay that asks who it is
        msgspec.structs.replace(upstream, options=(SAFE_WORD,))
        if upstream.options is None
        else upstream
        for upstream in settings.upstreams
    )
    identity = msgspec.structs.replace(identity, configured=True)
    return msgspec.structs.replace(settings, identity=identity, upstreams=upstreams)


def _url_of(host: str, port: int) -> str:
    address = parse_address(host)
    name = "localhost" if not host or (address is not None and address.is_unspecified) else host
    return write_url(name, port)

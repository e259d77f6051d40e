"""Access to the relay: without configured credentials by a key for this run; the signing key.

The network is no credential: a proxy on the same machine looks like a local client. So only a
relay that listens on a loopback address and whose upstreams are free is open, and only for
chats. Everything else requires a key, which the run generates itself, as notebooks do.
"""

import json
import secrets
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec
import structlog

from .. import __version__
from ..addresses import is_loopback, parse_address, write_url
from ..identity.config import AuthConfig, KeyConfig
from ..identity.keys import check_keys, digest, make_key
from ..identity.keys_file import KeysUnusable, read_keys_file
from ..upstreams.credentials import NoCredentials
from ..upstreams.endpoints import Upstream
from ..upstreams.options import SAFE_WORD
from .convert import SettingsError
from .values import Settings

Access = Literal["open", "none", "credentials", "a key for this run"]
"""The authentication of chats: none (locally, or by a proxy), or the configured credentials."""

KEY_HINT: Final = """\
API clients send the part after #key= as their API key. The next run creates another.
Permanent keys: seseragi key new NAME. If a proxy authenticates clients: SESERAGI_AUTH=none.
From another machine, or in a container: replace the address and the port.
"""
HINT: Final = "Add a provider by its key: OPENAI_API_KEY=... seseragi. Stop with Ctrl-C.\n"

THIS_RUN = "this-run"
"""The name of the key for this run."""

MIN_SIGNING_KEY: Final = 32
"""Characters."""

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
        if not (identity.keys or identity.auth.keys_file is not None or identity.issuers):
            raise SettingsError(
                "auth: authentication is on, but no credentials are configured; set keys_file, "
                "a [[key]] or an [[issuer]]; or, if a proxy authenticates clients, auth = 'none'"
            )
        return "credentials"
    reasons = _why_closed(settings)
    if not reasons:
        return "open"
    if settings.log.startswith("redis"):
        raise SettingsError(
            f"auth: {reasons}, but no credentials are configured, and over Redis each relay would "
            "create its own key: create one for all with seseragi key new NAME and set [auth] "
            "keys_file (SESERAGI_KEYS_FILE); or, if a proxy authenticates clients, "
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

    def announce(self, port: int | None, models: str = "", operator_url: str = "") -> None:
        """Print the relay's URLs, with the key for this run, to stderr.

        For programs this is one JSON line with the key, if there is one. `models` describes the
        models, in the listening process; without it only the key is printed. `port` is None
        for a mounted relay, which does not know its host, port and prefix. The key is in the
        fragment, which browsers do not send.
        """
        reasons = _why_closed(self.settings)
        if self.access == "none" and reasons:
            log.warning(f"exposed: auth = 'none' serves every client that connects, and {reasons}")
        if self.key is None and not (models and self.for_people):
            return
        needed = self.access == "a key for this run"
        url = "..." if port is None else _url_of(self.settings.host, port)
        fragment = f"#key={self.key}"
        page = f"{url}/{fragment if needed else ''}"
        admin = f"{url}/admin{'' if self.key is None else fragment}"
        if self.for_people:
            access = {
                "open": "everybody on this machine; Admin needs its key",
                "none": "everybody who can connect (auth = 'none')",
                "credentials": "clients need a credential",
                "a key for this run": f"the key above is needed: {reasons}",
            }
            rows = {
                "Chat": page,
                "Admin": admin if self.settings.admin else "",
                "Operator": operator_url,
                "Models": models,
                "Access": access[self.access],
            }
            table = "".join(f"    {name:<9}{row}\n" for name, row in rows.items() if row)
            hints = (KEY_HINT if needed else "") + (HINT if models else "")
            text = f"\nSeseragi {__version__}\n\n{table}\n{hints}"
        else:
            line = {"level": "info", "logger": "seseragi.settings", "event": "key for this run"}
            line["timestamp"] = datetime.now(UTC).isoformat()
            why = {"why": reasons} if needed else {}
            text = json.dumps({**line, **why, "page": page, "admin": admin})
        print(text, file=sys.stderr, flush=True)


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
        SettingsError: they configure authentication too, or let every page use users' cookies.
    """
    identity = settings.identity
    if identity.trusted or identity.keys or identity.issuers or identity.auth.keys_file:
        raise SettingsError(
            "identify: the settings configure authentication too; remove identify, or remove "
            "auth = 'none', keys_file, [[key]] and [[issuer]]"
        )
    if anybody := {"*", "null"}.intersection(settings.cors_origins):  # null: any sandboxed frame
        raise SettingsError(
            f"cors_origins: with identify {anybody.pop()!r} would let every page send requests "
            "with your users' cookies; list the origins of your pages"
        )
    upstreams = tuple(  # as for every relay with credentials
        msgspec.structs.replace(upstream, options=(SAFE_WORD,))
        if upstream.options is None
        else upstream
        for upstream in settings.upstreams
    )
    identity = msgspec.structs.replace(identity, configured=True)
    return msgspec.structs.replace(settings, identity=identity, upstreams=upstreams)


def settle_signing_key(settings: Settings) -> Settings:
    """Set the key that signs client secrets and stream tokens, the same for all workers.

    It is that of the settings, else of the keys file, else a random one for this run. To be
    called once, after logging is configured and before workers are forked.

    Raises:
        SettingsError: it is too short, or each replica would generate its own.
    """
    identity, auth = settings.identity, settings.identity.auth
    if not identity.configured:
        return settings
    of_file = (
        None if auth.keys_file is None else read_keys_file(Path(auth.keys_file)).file.signing_key
    )
    for key in (auth.signing_key, *auth.signing_key_fallbacks):
        if key is not None and len(key) < MIN_SIGNING_KEY:
            name = "signing_key" if key == auth.signing_key else "signing_key_fallbacks"
            raise SettingsError(
                f"auth.{name}: has {len(key)} characters and could be guessed; give "
                f"{MIN_SIGNING_KEY} random ones or more, as of `openssl rand -base64 32`"
            )
    if auth.signing_key is not None:
        signing_key = auth.signing_key
    elif of_file is not None:
        signing_key = of_file
    elif settings.log.startswith("redis"):
        raise SettingsError(
            "auth.signing_key: relays that share a log in Redis must sign with the same key: set "
            "it, or SESERAGI_SIGNING_KEY, to the same 32 random characters or more for all, or "
            "give all the same keys file of `seseragi key new`"
        )
    else:
        signing_key = secrets.token_urlsafe(MIN_SIGNING_KEY)
        if settings.log != "memory":
            log.warning(
                "stream tokens end with this run, but the log does not",
                remedy="set SESERAGI_SIGNING_KEY, or use a keys file of `seseragi key new`",
            )
    auth = msgspec.structs.replace(auth, signing_key=signing_key)
    return msgspec.structs.replace(settings, identity=msgspec.structs.replace(identity, auth=auth))


def _url_of(host: str, port: int) -> str:
    address = parse_address(host)
    name = "localhost" if not host or (address is not None and address.is_unspecified) else host
    return write_url(name, port)

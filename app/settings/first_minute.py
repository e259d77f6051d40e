"""Who may ask before anybody has said so: everybody, or who has the key for this run.

Where only this machine reaches the relay, or nothing costs money, it is open. Elsewhere a run
makes a key of its own, as notebooks do.
"""

import secrets
import sys
from collections.abc import Iterator
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from ..addresses import is_loopback, parse_address
from ..identity.config import AuthConfig, KeyConfig
from ..identity.keys import digest, make_key
from ..upstreams.credentials import NoCredentials
from ..upstreams.endpoints import Upstream
from .failure import SettingsError
from .values import Settings

Access = Literal[
    "open", "none", "keys", "issuers", "keys and issuers", "a key for this run"
]  # fmt: skip
"""What says who may ask: nothing, something in front, or what is named."""

THIS_RUN = "this-run"
"""The name of the key for this run."""

PRIVATE_NAMES = (".local", ".internal", ".home.arpa")
"""Endings of names that nobody has in public (RFC 6762, ICANN, RFC 8375); Kubernetes' too."""


def decide_access(settings: Settings) -> Access:
    """Decide what says who may ask.

    Raises:
        SettingsError: nobody could ask, or each replica would ask for a key of its own.
    """
    identity = settings.identity
    if identity.trusted:
        return "none"
    if identity.configured:
        return _configured(settings)
    costly = next(costly_upstreams(settings), None)
    if is_loopback(settings.host.lower()) or costly is None:
        return "open"
    if settings.log.startswith("redis"):
        raise SettingsError(
            f"host: {settings.host!r} can be reached from other machines and {costly.name!r} "
            "may cost money, but nothing says who may ask, and over Redis each relay would make "
            "a key of its own: make one for all with seseragi key new NAME and name its file in "
            "[auth] keys_file (SESERAGI_KEYS_FILE); or, if something in front says who may ask, "
            "SESERAGI_AUTH=none"
        )
    return "a key for this run"


def _configured(settings: Settings) -> Access:
    identity = settings.identity
    keys = bool(identity.keys) or identity.auth.keys_file is not None
    if keys and identity.issuers:
        return "keys and issuers"
    if identity.issuers:
        return "issuers"
    if not keys:
        raise SettingsError(
            "auth: a key is asked for and there is none, so nobody could ask: give keys_file, "
            "a [[key]] or an [[issuer]]; or, if something in front says who may ask, auth = 'none'"
        )
    return "keys"


def costly_upstreams(settings: Settings) -> Iterator[Upstream]:
    """Yield the upstreams that may cost money.

    What is asked without a key at a private address, as Ollama and vLLM are, costs none.
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
    """With what a run starts."""

    settings: Settings
    access: Access
    key: str | None
    """The key for this run, if one was made; the settings know its digest."""

    def tell(self, port: int) -> None:
        """Tell the person who started it of the key for this run, and no log."""
        if self.key is None:
            return
        costly = next(costly_upstreams(self.settings))
        text = describe(self.key, self.settings.host, port, costly=costly.name)
        print(text, end="", file=sys.stderr, flush=True)


def settle_access(settings: Settings) -> Start:
    """Decide what says who may ask; make the key for this run if that is needed.

    Raises:
        SettingsError: as `decide_access`.
    """
    access = decide_access(settings)
    if access != "a key for this run":
        return Start(settings, access, None)
    key = make_key()
    config = KeyConfig(name=THIS_RUN, sha256=digest(key), roles=("client_secrets", "admin"))
    identity = msgspec.structs.replace(
        settings.identity,
        # Made here, so that all workers have the same.
        auth=AuthConfig(signing_key=secrets.token_urlsafe(32)),
        keys=(config,),
        configured=True,
    )
    return Start(msgspec.structs.replace(settings, identity=identity), access, key)


def describe(key: str, host: str, port: int, *, costly: str) -> str:
    """Return what is told of the key for this run."""
    address = parse_address(host)
    anywhere = not host or (address is not None and address.is_unspecified)
    name = "localhost" if anywhere else host
    url = f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
    where = f"""
From another machine put this one's address in place of localhost; in a container, the port that
you published in place of {port}."""
    return f"""
Other machines can reach this relay, and {costly!r} may cost money, so it asks for a key.
Nobody has given it one, so this run has its own. Open the page with it:

    {url}/#key={key}
{where if anywhere else ""}
API clients send what follows #key= as their API key. The next run has another one.
For keys that stay: seseragi key new NAME. If something in front says who may ask:
SESERAGI_AUTH=none.

"""

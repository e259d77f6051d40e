"""Reload of the settings on SIGHUP, in the `seseragi` command.

Upstreams, routes, prices, limits, keys and issuers change for later streams; any other setting
needs a restart.
"""

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import structlog

from .api.application import find_longest_s
from .cassettes.folder import Folder
from .composition import build_authenticator, build_price_book, build_upstreams
from .identity.config import Identity, KeyConfig
from .identity.keys_file import KeysUnusable, read_keys_file
from .ledger.config import LimitsConfig
from .relay import Reloaded
from .settings import Settings, SettingsError
from .settings.access import Start, settle_identity
from .settings.load import find_contradictions

RELOADABLE: Final = (
    "upstreams",
    "routes",
    "ledger",
    "default_model",
    "passthrough",
    "attempts",
    "url_schemes",
)
"""The settings that can change, besides the keys and issuers of `identity`."""

ACCOUNTS: Final = ("tenant", "key", "user")
"""The subtables of `[limits]`: defaults per account."""

log = structlog.get_logger("seseragi.settings")


class Configuration:
    """The settings of a running relay, which can be reloaded."""

    def __init__(
        self, load: Callable[[], Settings], *, loaded: Settings, start: Start, settings: Settings
    ) -> None:
        """Take the `loaded` settings, their `start`, and the `settings` in use."""
        self.settings = settings
        self._load = load
        self._loaded = loaded
        self._start = start
        self._had_terminal = _has_terminal()

    @property
    def lost_terminal(self) -> bool:
        """Whether the terminal of this process has closed, which sends SIGHUP too."""
        return self._had_terminal and not _has_terminal()

    def read(self, *, logs: bool = True) -> Reloaded | None:
        """Reload the settings and build the parts that can change. Any thread may call it.

        Return None if the settings cannot be used, which is logged and changes nothing. A reload
        is logged if `logs`.
        """
        try:
            loaded = self._load()
            settings = self._merge(loaded)
            folder = None if settings.cassettes is None else Folder(Path(settings.cassettes))
            reloaded = Reloaded(
                settings.ledger,
                build_price_book(settings),
                upstreams=build_upstreams(settings, folder),
                authenticator=build_authenticator(settings),
            )
        except SettingsError as error:
            log.error("settings are not reloaded, the relay keeps those it has", why=str(error))
            return None
        self.settings = settings
        if not logs:
            return reloaded
        warn_of_settings(settings)
        if ignored := self._list_ignored(loaded):
            log.warning("settings are reloaded, but some need a restart", settings=ignored)
        else:
            log.info("settings are reloaded")
        return reloaded

    def _merge(self, loaded: Settings) -> Settings:
        """Return the settings in use, with the loaded values of those that can change.

        Raises:
            SettingsError: access would change, or a key cannot be used.
        """
        reloadable = {name: getattr(loaded, name) for name in RELOADABLE}
        settings = msgspec.structs.replace(self.settings, **reloadable, identity=loaded.identity)
        start, before = settle_identity(settings), self._start
        if _access_kind(start) != _access_kind(before):
            raise SettingsError(
                f"auth: access is {before.access!r} and would be {start.access!r}; restart it"
            )
        identity = self.settings.identity
        if start.key is None:
            auth = msgspec.structs.replace(identity.auth, keys_file=loaded.identity.auth.keys_file)
            identity = msgspec.structs.replace(loaded.identity, auth=auth)
        return msgspec.structs.replace(settings, identity=identity)

    def _list_ignored(self, loaded: Settings) -> list[str]:
        """Return the names of changed settings that need a restart."""
        names = [
            name for name in Settings.__struct_fields__ if name not in (*RELOADABLE, "identity")
        ]
        ignored = [name for name in names if getattr(loaded, name) != getattr(self._loaded, name)]
        for name in ("signing_key", "signing_key_fallbacks", "client_secret_s"):
            if getattr(loaded.identity.auth, name) != getattr(self._loaded.identity.auth, name):
                ignored.append(f"auth.{name}")
        if find_longest_s(loaded) > find_longest_s(self._loaded):  # stream tokens would end before
            ignored.append("total_timeout_s of a target")
        return ignored


def warn_of_settings(settings: Settings) -> None:
    """Warn of contradictions, and of limits without effect."""
    for line in find_contradictions(settings):
        log.warning("settings contradict each other", why=line)
    identity = settings.identity
    keys: tuple[KeyConfig, ...] = ()
    if identity.auth.keys_file is not None:
        with contextlib.suppress(KeysUnusable):  # reported elsewhere
            keys = read_keys_file(Path(identity.auth.keys_file)).file.keys
    if idle := _list_idle(settings.ledger.limits, identity, keys):
        log.warning(
            "these limits have no effect: no key belongs to that tenant"
            if identity.configured
            else "these limits have no effect: authentication is off; set [auth]",
            tables=idle[:20],
        )


def _list_idle(limits: LimitsConfig, identity: Identity, keys: Iterable[KeyConfig]) -> list[str]:
    """List the tables of limits without effect, since no client belongs to them."""
    if not identity.configured:
        each = [f"[limits.{name}]" for name in ACCOUNTS if getattr(limits, name)]
        return each + [f"[tenant.{name}]" for name in limits.tenants]
    if identity.issuers:
        return []  # whose tokens name tenants
    known = {key.tenant for key in (*identity.keys, *keys)}
    return [f"[tenant.{name}]" for name in limits.tenants if name not in known]


def _access_kind(start: Start) -> object:
    """Return the kind of access, which needs a restart to change."""
    identity = start.settings.identity
    if identity.configured and start.key is None:
        return "credentials"
    has_keys = bool(identity.keys) or identity.auth.keys_file is not None
    return start.access, start.key is None, has_keys


def _has_terminal() -> bool:
    try:
        open("/dev/tty", "rb", buffering=0).close()
    except OSError:
        return False
    return True

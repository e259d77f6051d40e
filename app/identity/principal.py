"""Who asks, and whose streams are whose. Pure values."""

import re
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import quote

import msgspec

from ..ledger.limits import UNLIMITED, UsageLimits

Role = Literal["client_secrets", "metrics", "admin"]
"""What a key may do beside using models: make client secrets; read the metrics; read, stop and
delete the streams of everybody, by their ids, and read the metrics."""


_SEPARATORS = re.compile(r"[/\\]")


def leads_up(name: str) -> bool:
    """Return whether a name has a part `..`, so that no glob may stand for it.

    A gateway that decodes the path in which it stands would ask for another model.
    """
    return ".." in name and ".." in _SEPARATORS.split(name)


def is_visible(name: str) -> bool:
    """Return whether the name of a user or tenant can be seen, so that no two look the same."""
    return name.isprintable() and not name.isspace() and name != ""


def may_use(globs: tuple[str, ...] | None, model: str) -> bool:
    """Return whether globs of models, or None for all, include one."""
    if globs is None:
        return True
    if leads_up(model) and model not in globs:
        return False
    return any(fnmatchcase(model, glob) for glob in globs)


class Principal(msgspec.Struct, frozen=True):
    """Who makes a request: a user of a tenant, by a key of a name; "" where there is none."""

    tenant: str = ""
    user: str = ""
    key: str = ""
    key_id: str = ""
    """What tells the key from another one of its name."""
    models: tuple[str, ...] | None = None
    """Globs of the public names of models; None for all."""
    origins: tuple[str, ...] = ()
    """The origins of the pages that may ask; empty for all that may ask the relay."""
    roles: frozenset[Role] = frozenset()
    expires_at: float | None = None
    """In unix seconds."""
    stream: str | None = None
    """The one stream that a stream token is for; None for any other credential."""
    key_limits: UsageLimits = UNLIMITED
    """Those of its key, beside those of the settings."""
    user_limits: UsageLimits = UNLIMITED
    """Those of its user, likewise; of the client secret itself if that names no user."""
    secret: str = ""
    """What tells a client secret from others that names no user; "" for any other credential."""
    may: Literal["all", "read", "watch", "stop"] = "all"
    """What a stream token lets its holder do with its stream; "all" for any other credential.

    "watch" is to read it by a share link.
    """

    @property
    def owner(self) -> str:
        """Whose the streams are that it starts: its user's, else its key's; "" without identity.

        So a user's other keys, and a new one in place of an old, reach the same streams.
        """
        who = ("user", self.user) if self.user else ("key", self.key)
        if not (self.tenant or who[1]):
            return ""
        return ":".join(quote(part, safe="") for part in (self.tenant, *who))

    def may_use(self, model: str) -> bool:
        """Return whether it may use the model, or route, of a public name."""
        return may_use(self.models, model)


ANYONE = Principal()
"""Who asks where there is no identity."""

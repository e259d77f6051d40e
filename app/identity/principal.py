"""Principals and the ownership of streams. Pure values."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal
from urllib.parse import quote

import msgspec

from ..errors import RequestError
from ..ledger.config import UNLIMITED, UsageLimits
from ..policies.admission import BACKEND

Role = Literal["client_secrets", "metrics", "admin"]
"""Permissions of a key beyond using models: create client secrets; read the metrics; read, stop
and delete all streams by id, and read the metrics.
"""


_SEPARATORS = re.compile(r"[/\\]")


def leads_up(name: str) -> bool:
    """Return whether a name has a path segment `..`, so that no glob may match it.

    A gateway that normalizes the path would use another model.
    """
    return ".." in name and ".." in _SEPARATORS.split(name)


def is_visible(name: str) -> bool:
    """Return whether the name of a user or tenant is visible, so that no two look the same."""
    return name.isprintable() and not name.isspace() and name != ""


def may_use(globs: tuple[str, ...] | None, model: str) -> bool:
    """Return whether globs of models include a model; None stands for all."""
    if globs is None:
        return True
    if leads_up(model) and model not in globs:
        return False
    return any(fnmatchcase(model, glob) for glob in globs)


def covers(allowed: Sequence[str] | None, glob: str) -> bool:
    """Return whether all names that a glob matches are allowed; None allows all.

    True is always correct. False may be wrong for globs with brackets, or if only several globs
    together cover one.
    """
    return allowed is None or any(_covers(one, glob) for one in allowed)


def _covers(outer: str, glob: str) -> bool:
    if outer == glob:
        return True
    if leads_up(glob):
        return False
    if outer == "*":
        return True
    # As plain text the glob may match the outer one, whose `*` matches any text, including
    # wildcards. A `?` there matches one character, which must not be a `*`; and brackets do
    # not match their own characters.
    if "[" in glob or ("*" in glob and ("?" in outer or "[" in outer)):
        return False
    if "?" in glob and "[" in outer:
        return False
    return fnmatchcase(glob, outer)


class Principal(msgspec.Struct, frozen=True, dict=True):
    """The caller of a request: a user of a tenant, by a named key; "" if absent."""

    tenant: str = ""
    user: str = ""
    key: str = ""
    key_id: str = ""
    """Distinguishes the key from an earlier or later one of the same name."""
    models: tuple[str, ...] | None = None
    """Globs of public model names; None for all."""
    origins: tuple[str, ...] = ()
    """The allowed origins of pages; empty for all that may use the relay."""
    roles: frozenset[Role] = frozenset()
    expires_at: float | None = None
    """In unix seconds."""
    stream: str | None = None
    """The stream of a stream token; None for any other credential."""
    key_limits: UsageLimits = UNLIMITED
    """The limits of its key, in addition to those of the settings."""
    user_limits: UsageLimits = UNLIMITED
    """The limits of its user, likewise; or of the client secret, if that has no user."""
    secret: str = ""
    """The id of a client secret without a user; "" for any other credential."""
    may: Literal["all", "read", "watch", "stop"] = "all"
    """The permission of a stream token for its stream; "all" for any other credential.

    "watch" is to read it by a share link.
    """

    @cached_property
    def owner(self) -> str:
        """The owner of streams that it starts: its user, else its key; "" without identity.

        So a user's other keys, and a replaced key, have access to the same streams.
        """
        subject = ("user", self.user) if self.user else ("key", self.key)
        if not (self.tenant or subject[1]):
            return ""
        return ":".join(quote(part, safe="") for part in (self.tenant, *subject))

    @cached_property
    def share(self) -> str:
        """The name by which its open items are limited; "" if its client's address is that.

        A key without users is a backend, which asks for all of its own.
        """
        return self.owner if self.user or not self.owner else f"{BACKEND}{self.owner}"

    def may_use(self, model: str) -> bool:
        """Return whether it may use a model or route, by public name."""
        return may_use(self.models, model)


ANYONE = Principal()
"""The principal if authentication is off."""


def check_may(principal: Principal, what: Literal["read", "stop"] | None = None) -> None:
    """Refuse a call beyond the scope of a stream token.

    Raises:
        RequestError: `forbidden`.
    """
    may = "read" if principal.may == "watch" else principal.may
    if may not in ("all", what) or (what is None and principal.stream is not None):
        raise RequestError(
            "forbidden",
            f"the stream token may {may} its stream and nothing else; send a key or a "
            "client secret",
        )

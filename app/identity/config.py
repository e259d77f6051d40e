"""Settings of authentication, and the check of issuers' URLs; `app.settings` builds them."""

from datetime import datetime
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

import httpx2
import msgspec
from msgspec import Meta

from .. import addresses
from ..ledger.config import UNLIMITED, UsageLimits
from .principal import Role

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+\Z")]
Owner = Annotated[str, Meta(max_length=256)]
Glob = Annotated[str, Meta(min_length=1, max_length=200)]
Origin = Annotated[
    str,
    Meta(
        pattern=r"^([a-z][a-z0-9+.-]*://[^/\s]+|null)\Z",
        max_length=300,
        description="give origins as browsers send them, such as 'https://chat.example.com'",
    ),
]
Url = Annotated[str, Meta(min_length=1, max_length=2000)]
"""Validated by `urls.why_unusable`."""
# Without a pattern: msgspec 0.22 frees unowned memory for a union of such a str with a list.
Text = Annotated[str, Meta(min_length=1, max_length=300)]
Claim = Text | Annotated[tuple[Text, ...], Meta(min_length=1, max_length=8)]
"""A claim of a token: a string is its full name, which may contain dots, colons and slashes; a
list is a path into nested claims: `["app_metadata", "tenant"]`.
"""

ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
"""JWT algorithms: asymmetric only, since a verifier of others could also sign."""


class Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key that was rotated, and is valid for a while."""

    expires_at: Annotated[datetime, Meta(tz=True)]

    @property
    def ends_at(self) -> float:
        """Its end in unix seconds."""
        return self.expires_at.timestamp()


class PreviousKey(Ending, frozen=True):
    """An API key that was rotated."""

    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class KeyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """`[[key]]`, and a row of the keys file: all of a key except the key itself."""

    name: Name
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Of the whole key, in hexadecimal."""
    tenant: Owner = ""
    user: Owner = ""
    models: tuple[Glob, ...] | None = None
    origins: tuple[Origin, ...] = ()
    roles: tuple[Role, ...] = ()
    limits: UsageLimits = UNLIMITED
    """Usage limits; the lower of these and `[limits.key]` applies."""
    expires_at: str | None = None
    """An RFC 3339 time."""
    created_at: str | None = None
    id: Annotated[str, Meta(pattern=r"^([0-9a-f]{16})?\Z")] = ""
    """Set by a rotation to that of the first key of this name: its secrets stay valid."""
    previous: tuple[PreviousKey, ...] = ()


class IssuerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[issuer]]`: an identity provider whose JWTs are accepted."""

    issuer: Url
    """The exact value of `iss`; a URL, unless `jwks_url` is set."""
    audience: Text | Annotated[tuple[Text, ...], Meta(min_length=1)]
    """The value of `aud`, or one of its values."""
    audience_claim: Claim = "aud"
    """The claim with the audience, if not `aud`: `client_id` in access tokens of Cognito, `azp` in
    session tokens of Clerk. `aud` is then ignored.
    """
    jwks_url: Url | None = None
    """The URL of its keys; by default from `/.well-known/openid-configuration`."""
    algorithms: Annotated[tuple[str, ...], Meta(min_length=1)] = ("RS256", "ES256")
    """Of `ALGORITHMS`."""
    tenant: str = ""
    """The tenant of its users; by default the issuer's URL.

    So the same `sub` of two issuers is two users, unless both have the same tenant.
    """
    tenant_claim: Claim | None = None
    """The claim with a user's tenant; `tenant` applies to tokens without it.

    It can name tenants of any issuer or key, except one that belongs entirely to another
    issuer: set it only if users cannot choose its value.
    """
    user_claim: Claim = "sub"
    """The claim with the user, a string or an integer; a token without it is rejected."""
    models_claim: Claim | None = None
    """A claim with globs of models: a list, or a string with spaces between them.

    `models` applies to tokens without it; if that is not set, they may use no model.
    """
    models: tuple[Glob, ...] | None = None
    """The models of all its users, unless `models_claim` is present."""
    origins: tuple[Origin, ...] = ()
    limits: UsageLimits = UNLIMITED
    """Usage limits of each user; the lower of these and `[limits.user]` applies."""
    limits_claim: Claim | None = None
    """A claim with limits of its user, an object with the names of the settings; the lower of
    these and `limits` applies.
    """
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30
    """The tolerated clock difference in seconds; it extends a token's expiry."""

    @property
    def all_users(self) -> str:
        """The tenant of users whose tokens have none."""
        return self.tenant or self.issuer


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[auth]`."""

    keys_file: str | None = None
    """The file with the digests of keys (`seseragi key`); it is reread after changes."""
    signing_key: str | None = None
    """The key that signs client secrets and stream tokens: at least 32 characters.

    By default the keys file's own; else a random one, so that its tokens end with the process.
    Every replica needs the same.
    """
    signing_key_fallbacks: tuple[str, ...] = ()
    """Keys that verify tokens and sign none: the last one, or the next one."""
    client_secret_s: Annotated[float, Meta(gt=0, le=86_400)] = 600
    """The maximum lifetime of a client secret, in seconds."""

    def __repr__(self) -> str:
        """Return a description without the signing keys."""
        signing_key = None if self.signing_key is None else "..."
        return (
            f"AuthConfig(keys_file={self.keys_file!r}, signing_key={signing_key!r}, "
            f"client_secret_s={self.client_secret_s!r})"
        )


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of authentication."""

    auth: AuthConfig = AuthConfig()
    keys: tuple[KeyConfig, ...] = ()
    issuers: tuple[IssuerConfig, ...] = ()
    trusted: bool = False
    """`auth = "none"`: a proxy authenticates clients."""
    configured: bool = False
    """Whether there is an `[auth]`, `[[key]]` or `[[issuer]]`, which requires credentials."""


def parse_time(text: str) -> float:
    """Parse an RFC 3339 time with a time zone; return unix seconds.

    Raises:
        ValueError: the text has another format.
    """
    try:
        time: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise ValueError("give a time with its zone, such as '2027-01-31T00:00:00Z'") from None
    return time.timestamp()


def why_unusable(url: str) -> str | None:
    """Return why a URL cannot be fetched, for its owner; None if it can."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host.encode("idna")
        httpx2.URL(url)
    except (ValueError, httpx2.InvalidURL):
        return "not a URL"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return "must start with https:// and have a host"
    if parts.username or parts.password:
        return "must not contain a user name or password"
    if parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return "must not contain a fragment, spaces or special characters"
    if parts.scheme == "http" and not _is_loopback(parts):
        return "use https: over http the keys could be replaced in transit"
    return None


def is_loopback(url: str) -> bool:
    """Return whether a URL refers to this machine."""
    return _is_loopback(urlsplit(url))


def _is_loopback(parts: SplitResult) -> bool:
    return addresses.is_loopback((parts.hostname or "").rstrip("."))

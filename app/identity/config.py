"""What the settings say of identity. Pure values; `app.settings.identity` reads them."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from .principal import Role

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+\Z")]
Owner = Annotated[str, Meta(max_length=256)]
Glob = Annotated[str, Meta(min_length=1, max_length=200)]
Origin = Annotated[str, Meta(pattern=r"^https?://[^/\s]+\Z", max_length=300)]
Url = Annotated[str, Meta(pattern=r"^https?://[^\s]+$", max_length=2000)]


class KeyConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[key]]`, and a row of the keys file: everything of a key but the key itself."""

    name: Name
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    """Of the whole key, in hexadecimal."""
    tenant: Owner = ""
    user: Owner = ""
    models: tuple[Glob, ...] | None = None
    origins: tuple[Origin, ...] = ()
    roles: tuple[Role, ...] = ()
    expires_at: str | None = None
    """An RFC 3339 time."""
    created_at: str | None = None


class IssuerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[issuer]]`: an identity provider whose JWTs are taken."""

    issuer: Url
    """What `iss` has to be, exactly."""
    audience: Name | tuple[Name, ...]
    jwks_url: Url | None = None
    """Where its keys are; without it, where `/.well-known/openid-configuration` says."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    """Asymmetric ones only."""
    tenant: str = ""
    """The tenant of all its users, unless `tenant_claim` says."""
    tenant_claim: str | None = None
    user_claim: str = "sub"
    models_claim: str | None = None
    """A claim with globs of models: a list, or a text with spaces between them."""
    models: tuple[Glob, ...] | None = None
    """The models of all its users, unless `models_claim` says."""
    origins: tuple[Origin, ...] = ()
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[auth]`."""

    keys_file: str | None = None
    """Where `seseragi key` keeps the digests of keys; it is read again when it has changed."""
    signing_key: str | None = None
    """What client secrets and stream tokens are signed with: at least 32 characters.

    Without it, the keys file's own; else one for each run, so that what it has signed ends
    with it. Every replica has to have the same.
    """
    client_secret_s: Annotated[float, Meta(gt=0, le=86_400)] = 600
    """The longest that a client secret may be valid."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """All that the settings say of who may ask."""

    auth: AuthConfig = AuthConfig()
    keys: tuple[KeyConfig, ...] = ()
    issuers: tuple[IssuerConfig, ...] = ()
    trusted: bool = False
    """`auth = "none"`: something in front says who may ask."""
    configured: bool = False
    """Whether there is an `[auth]`, a `[[key]]` or an `[[issuer]]`: then a credential is needed."""


def parse_time(text: str) -> float:
    """Parse an RFC 3339 time with its zone; unix seconds.

    Raises:
        ValueError: it is none.
    """
    try:
        time: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise ValueError("give a time with its zone, such as '2027-01-31T00:00:00Z'") from None
    return time.timestamp()

"""What the settings say of identity. Pure values; `app.settings.identity` reads them."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from ..ledger.limits import UNLIMITED, UsageLimits
from .principal import Role

Name = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[!-~]+\Z")]
Owner = Annotated[str, Meta(max_length=256)]
Glob = Annotated[str, Meta(min_length=1, max_length=200)]
Origin = Annotated[str, Meta(pattern=r"^https?://[^/\s]+\Z", max_length=300)]
Url = Annotated[str, Meta(min_length=1, max_length=2000)]
"""`urls.why_unusable` says whether it is one."""
# Without a pattern: msgspec 0.22 frees what it does not own where a union has one beside a list.
Text = Annotated[str, Meta(min_length=1, max_length=300)]
Claim = Text | Annotated[tuple[Text, ...], Meta(min_length=1, max_length=8)]
"""A claim of a token: a text is its whole name, dots, colons and slashes among it; a list of
names leads into claims that hold others: `["app_metadata", "tenant"]`."""

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Of JWTs: asymmetric ones only, since whoever can check another signature can make it."""


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
    limits: UsageLimits = UNLIMITED
    """What it may use in a time; of these and those of `[limits.key]` the smaller count."""
    expires_at: str | None = None
    """An RFC 3339 time."""
    created_at: str | None = None


class IssuerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[issuer]]`: an identity provider whose JWTs are taken."""

    issuer: Url
    """What `iss` has to be, exactly; a URL, unless `jwks_url` says where its keys are."""
    audience: Text | Annotated[tuple[Text, ...], Meta(min_length=1)]
    """What `aud` has to be, or contain one of."""
    audience_claim: Claim = "aud"
    """The claim that says for whom a token is, where that is not `aud`: `client_id` in access
    tokens of Cognito, `azp` in session tokens of Clerk. `aud` is then not looked at."""
    jwks_url: Url | None = None
    """Where its keys are; without it, where `/.well-known/openid-configuration` says."""
    algorithms: Annotated[tuple[str, ...], Meta(min_length=1)] = ("RS256", "ES256")
    """Of `ALGORITHMS`."""
    tenant: str = ""
    """The tenant of its users; without it the issuer's URL.

    So the same `sub` of two issuers is two users, unless both are given one tenant.
    """
    tenant_claim: Claim | None = None
    """The claim that names a user's tenant; where a token has none, `tenant` says.

    It names tenants of all issuers and keys, and may not name one that is all of another
    issuer's: give it only where users cannot choose what stands in it.
    """
    user_claim: Claim = "sub"
    """The claim that names a user, a text or a whole number; a token without it is refused."""
    models_claim: Claim | None = None
    """A claim with globs of models: a list, or a text with spaces between them.

    Where a token has none, `models` says, and without them it may use no model.
    """
    models: tuple[Glob, ...] | None = None
    """The models of all its users, unless `models_claim` says."""
    origins: tuple[Origin, ...] = ()
    limits: UsageLimits = UNLIMITED
    """What each of its users may use in a time; of these and those of `[limits.user]` the smaller
    count."""
    limits_claim: Claim | None = None
    """A claim with limits of its user, an object with the names of the settings: of these and
    `limits` the smaller count."""
    leeway_s: Annotated[float, Meta(ge=0, le=300)] = 30
    """How far its clock may be from the relay's, in seconds; it is added to when a token ends."""

    @property
    def all_users(self) -> str:
        """Return the tenant of the users whose tokens name none."""
        return self.tenant or self.issuer


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
    """How long a client secret may be valid at most, in seconds."""

    def __repr__(self) -> str:
        """Leave out the signing key."""
        signing_key = None if self.signing_key is None else "..."
        return (
            f"AuthConfig(keys_file={self.keys_file!r}, signing_key={signing_key!r}, "
            f"client_secret_s={self.client_secret_s!r})"
        )


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

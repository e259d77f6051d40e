"""Tokens signed by the relay: client secrets, and tokens of one stream.

Both are JWTs (HS256), each signed with a key of its own: `token_crypto`. They depend on the API
key that created them and can only narrow it: they lose what it loses, and end with it.
"""

import re
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import msgspec

from ..errors import RequestError
from ..ledger.config import UNLIMITED, UsageLimits, smaller
from .principal import Principal, covers

if TYPE_CHECKING:
    from .keys import Keys
    from .token_crypto import TokenCrypto

PREFIX: Final = "ek_"
"""The prefix of a client secret, as at OpenAI."""

ISSUER: Final = "seseragi"

MAX_LENGTH: Final = 4096
"""Characters of the longest token: proxies limit header lines and URLs to 8 KiB."""

REMEMBERED: Final = 4096
"""The maximum number of cached tokens, of about 1 KiB each."""

Audience = Literal["client_secret", "stream"]

TokenOwner = tuple[str, str, str, tuple[str, ...] | None, str]
"""Tenant, user, key, origins and the key's id, as in the claims of a client secret."""

_owner_decoder: msgspec.json.Decoder[TokenOwner] = msgspec.json.Decoder(TokenOwner)

T = TypeVar("T", bound=msgspec.Struct)

_FORM = re.compile(r"[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")


class FindKey(Protocol):
    """Looks up the API key of a token."""

    def __call__(self, name: str, *, issued_at: float | None = None) -> Principal | None:
        """Return the current principal of a named key; None if it is gone or newer than
        `issued_at`.
        """


class _Claims(msgspec.Struct, frozen=True):
    """The claims of a token of either kind."""

    exp: float
    iat: float
    key: str
    """The name of the key that created it; "" for none."""
    tenant: str
    user: str
    models: tuple[str, ...] | None = None
    origins: tuple[str, ...] | None = None
    """None: those of the key."""
    key_id: str = ""
    limits: UsageLimits = UNLIMITED
    """Of its user, or its own."""
    secret: str = ""
    """Its id, if it has no user."""
    stream: str | None = None
    may: Literal["all", "read", "watch", "stop"] = "all"


class _StreamClaims(msgspec.Struct, frozen=True):
    exp: float
    iat: float
    stream: str
    may: Literal["read", "watch", "stop"]
    who: str
    """The stream's owner, encrypted: links to streams are shared with others."""


class _Issuer(msgspec.Struct):
    iss: str = ""


class _Verdict:
    """A token with a valid signature; the principal is rebuilt when its key changes."""

    __slots__ = ("claims", "key", "principal")

    def __init__(self, claims: _Claims) -> None:
        self.claims = claims
        self.key: Principal | None = None
        self.principal: Principal | None = None


class Tokens:
    """Creates and verifies tokens; see `Credentials`.

    Without `find_key`, tokens are not checked against the API key that created them. The keys of
    `file` replace `signing_key` if that is one of them; `fallbacks` sign no tokens.
    """

    def __init__(
        self,
        signing_key: str,
        *,
        fallbacks: Sequence[str] = (),
        file: "Keys | None" = None,
        find_key: FindKey | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._find_key = find_key
        self._clock = clock
        self._file = file if file is not None and signing_key in file.signing_keys() else None
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()
        self._cryptos: dict[bytes, TokenCrypto] = {}
        """By the digest of the key, the one that signs first."""
        self._use((signing_key, *fallbacks))

    def _use(self, keys: Sequence[str]) -> None:
        """Use these keys from now on, the first one for signatures."""
        from .token_crypto import TokenCrypto

        named = {sha256(key.encode()).digest(): key for key in keys}
        if not named or [*named] == [*self._cryptos]:
            return
        self._verdicts.clear()
        self._cryptos = {
            name: self._cryptos.get(name) or TokenCrypto(key, ISSUER) for name, key in named.items()
        }
        self._crypto = next(iter(self._cryptos.values()))

    def _update(self) -> None:
        """Use the keys that the file has now."""
        if self._file is not None:
            self._use(self._file.signing_keys())

    # Verifying

    async def verify(self, credential: str) -> Principal | None:
        """Return the principal of a token; None if the relay did not issue it.

        Raises:
            RequestError: `unauthenticated`, it has expired, its signature is invalid, or its
                key is gone.
        """
        if len(credential) > MAX_LENGTH or not credential.isascii():
            if credential.startswith(PREFIX):
                raise _forged(credential)
            return None
        if self._file is not None:
            await self._file.refresh()
            self._update()
        digest = sha256(credential.encode()).digest()
        verdict = self._verdicts.get(digest)
        if verdict is None:
            claims = self._read(credential)
            if claims is None:
                return None
            verdict = self._remember(digest, claims)
        else:
            self._verdicts.move_to_end(digest)
        return self._judge(verdict)

    def _read(self, credential: str) -> _Claims | None:
        """Return the claims of a token, if its signature is valid."""
        if credential.startswith(PREFIX):
            return self._decode(credential, "client_secret", _Claims)
        form = _FORM.fullmatch(credential)
        if form is None or _unverified_issuer(form[1]) != ISSUER:
            return None
        claims = self._decode(credential, "stream", _StreamClaims)
        tenant, user, key, origins, key_id = self._reveal(claims)
        return _Claims(
            claims.exp,
            claims.iat,
            key=key,
            tenant=tenant,
            user=user,
            models=(),
            origins=origins,
            key_id=key_id,
            stream=claims.stream,
            may=claims.may,
        )

    def _decode(self, credential: str, audience: Audience, form: type[T]) -> T:
        token = credential.removeprefix(PREFIX)
        found = (crypto.verify(token, audience) for crypto in self._cryptos.values())
        # PyJWT also accepts padding.
        payload = next(filter(None, found), None) if _FORM.fullmatch(token) else None
        try:
            return msgspec.convert(payload, form)
        except msgspec.ValidationError:
            raise _forged(credential) from None

    def _reveal(self, claims: _StreamClaims) -> TokenOwner:
        found = (crypto.decrypt(claims.who, claims.stream) for crypto in self._cryptos.values())
        try:
            return _owner_decoder.decode(next(filter(None, found), b""))
        except msgspec.MsgspecError:
            raise _forged("") from None

    def _remember(self, digest: bytes, claims: _Claims) -> _Verdict:
        verdict = self._verdicts[digest] = _Verdict(claims)
        if len(self._verdicts) > REMEMBERED:
            self._verdicts.popitem(last=False)
        return verdict

    def _judge(self, verdict: _Verdict) -> Principal:
        """Return the principal of a verified token, unless it has expired."""
        claims, now = verdict.claims, self._clock()
        secret = claims.stream is None
        if claims.exp <= now:
            raise _refused(
                "the client secret has expired; ask your backend for a new one"
                if secret
                else "the link to this stream has expired; ask for a new one"
            )
        key = self._key_of(claims)
        if verdict.principal is None or key != verdict.key:
            verdict.key, verdict.principal = key, _narrow(claims, key)
        ends_at = verdict.principal.expires_at
        if ends_at is not None and ends_at <= now:
            raise _key_gone(claims)
        return verdict.principal

    def _key_of(self, claims: _Claims) -> Principal | None:
        """Return the current principal of a token's key; None for a token without a key."""
        if not claims.key or self._find_key is None:
            return None
        key = self._find_key(claims.key, issued_at=claims.iat)
        # Another key may have the name now, even during a request with the old one.
        if key is None or (
            key.key_id,
            key.tenant or claims.tenant,
            key.user or claims.user,
        ) != (claims.key_id, claims.tenant, claims.user):
            raise _key_gone(claims)
        return key

    # Making

    def make_client_secret(
        self,
        principal: Principal,
        *,
        user: str,
        tenant: str | None = None,
        models: Sequence[str] | None = None,
        origins: Sequence[str] = (),
        limits: UsageLimits = UNLIMITED,
        secret: str = "",
        expires_at: float,
    ) -> str:
        """Return a client secret, which grants a user a part of the principal's permissions.

        It expires at `expires_at`, in unix seconds, or earlier with the principal or its key.
        `limits` are its user's; with a unique `secret`, its own.

        Raises:
            RequestError: `forbidden`, it would grant more; `invalid_request`, it would be
                too long.
        """
        if principal.stream is not None:
            raise RequestError("forbidden", "stream tokens cannot create client secrets")
        _check_same("tenant", tenant, principal.tenant)
        _check_same("user", user, principal.user)
        for glob in models or ():
            if not covers(principal.models, glob):
                allowed = ", ".join(map(repr, (principal.models or ())[:20]))
                raise RequestError(
                    "forbidden",
                    f"models: {glob[:200]!r} is not allowed for the key: {allowed[:1000]}",
                )
        for origin in origins:
            if principal.origins and origin not in principal.origins:
                allowed = ", ".join(map(repr, principal.origins[:20]))
                raise RequestError(
                    "forbidden",
                    f"origins: {origin[:200]!r} is not an origin of the key: {allowed[:1000]}",
                )
        if not self._inherits(principal):
            if models is None:
                models = ("*",) if principal.models is None else principal.models
            origins = origins or principal.origins
        limits = smaller(principal.user_limits, limits)
        payload = {
            "key": principal.key,
            "key_id": principal.key_id,
            "tenant": tenant or principal.tenant,
            "user": user,
            "models": models,
            "origins": origins or None,
            "limits": msgspec.to_builtins(limits) if limits else None,
            "secret": secret or None,
        }
        if principal.expires_at is not None:
            expires_at = min(expires_at, principal.expires_at)
        token = PREFIX + self._sign(
            {name: value for name, value in payload.items() if value is not None},
            "client_secret",
            expires_at=self.latest(principal, expires_at),
        )
        if len(token) > MAX_LENGTH:
            raise RequestError(
                "invalid_request",
                f"models, origins: the client secret would have {len(token)} characters, "
                f"the maximum is {MAX_LENGTH}; send fewer, such as one glob for many models",
            )
        return token

    def make_stream_token(
        self,
        principal: Principal,
        stream: str,
        *,
        may: Literal["read", "watch", "stop"],
        expires_at: float,
    ) -> str:
        """Return a token that grants anyone to read, or stop, one stream of the principal.

        `expires_at` is in unix seconds; see `latest`.
        """
        self._update()
        origins = None if self._inherits(principal) else principal.origins
        owner: TokenOwner = (
            principal.tenant,
            principal.user,
            principal.key,
            origins,
            principal.key_id,
        )
        who = self._crypto.encrypt(msgspec.json.encode(owner), stream)
        return self._sign(
            {"stream": stream, "may": may, "who": who},
            "stream",
            expires_at=self.latest(principal, expires_at),
        )

    def key_limits(self, name: str) -> UsageLimits:
        """Return the current limits of a named key."""
        key = self._look_up(name)
        return UNLIMITED if key is None else key.key_limits

    def latest(self, principal: Principal, expires_at: float) -> float:
        """Return the expiry of a token: `expires_at`, or earlier with its key.

        Both are unix seconds. The expiry of the principal's own client secret or JWT does
        not matter.
        """
        key = self._look_up(principal.key)
        if key is None or key.expires_at is None:
            return expires_at
        return min(expires_at, key.expires_at)

    def _look_up(self, name: str) -> Principal | None:
        return self._find_key(name) if name and self._find_key is not None else None

    def _inherits(self, principal: Principal) -> bool:
        """Return whether a principal's models and origins equal those of its key."""
        key = self._look_up(principal.key)
        return key is not None and (key.models, key.origins) == (
            principal.models,
            principal.origins,
        )

    def _sign(self, claims: dict[str, Any], audience: Audience, *, expires_at: float) -> str:
        self._update()
        return self._crypto.sign({"exp": expires_at, "iat": self._clock(), **claims}, audience)


def _unverified_issuer(payload: str) -> str:
    try:
        data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(data, type=_Issuer).iss
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return ""


def _narrow(claims: _Claims, key: Principal | None) -> Principal:
    """Return the principal of a token: its claims, limited to its key's current permissions."""
    models, origins, expires_at = claims.models, claims.origins, claims.exp
    if key is not None:
        if models is None:
            models = key.models
        elif key.models is not None:
            models = tuple(glob for glob in models if covers(key.models, glob))
        if not origins:
            origins = key.origins
        elif key.origins:
            origins = tuple(origin for origin in origins if origin in key.origins)
            if not origins:  # an empty list would allow any
                raise _refused("no page may use this token: its key no longer allows its origins")
        if key.expires_at is not None:
            expires_at = min(expires_at, key.expires_at)
    elif models is None:  # it was created with `find_key`
        raise _key_gone(claims)
    return Principal(
        tenant=claims.tenant,
        user=claims.user,
        key=claims.key,
        key_id=claims.key_id,
        models=models,
        origins=origins or (),
        expires_at=expires_at,
        stream=claims.stream,
        key_limits=UNLIMITED if key is None else key.key_limits,
        user_limits=claims.limits,
        secret=claims.secret,
        may=claims.may,
    )


def _check_same(name: str, wanted: str | None, own: str) -> None:
    if own and wanted and wanted != own:
        raise RequestError("forbidden", f"{name}: the key belongs to {own!r}; omit it")


def _refused(message: str) -> RequestError:
    return RequestError("unauthenticated", message)


def _forged(credential: str) -> RequestError:
    if credential.startswith(PREFIX):
        return _refused(
            "the client secret is not valid: it was changed on its way, or the relay signs with "
            "another key now, as after a restart; ask your backend for a new one"
        )
    return _refused(
        "the token of this link is not valid: it was changed on its way, or the relay signs with "
        "another key now, as after a restart; ask for a new link"
    )


def _key_gone(claims: _Claims) -> RequestError:
    kind = "client secret" if claims.stream is None else "link"
    return _refused(f"the key of this {kind} has expired or was revoked")

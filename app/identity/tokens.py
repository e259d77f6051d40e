"""Tokens that the relay signs itself: client secrets, and tokens of one stream.

Both are JWTs (HS256), each signed with a key of its own that HKDF makes of the one signing key.
They stand on the key that they were made by, and only ever narrow it: what that may not do any
more, or never might, they may not either, and they end with it.
"""

import re
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final, Literal, Protocol, TypeVar

import jwt
import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..errors import RequestError
from ..ledger.limits import UNLIMITED, UsageLimits, smaller
from .globs import covers
from .principal import Principal

PREFIX: Final = "ek_"
"""What a client secret begins with, as OpenAI's do."""

ISSUER: Final = "seseragi"
ALGORITHM: Final = "HS256"

MAX_LENGTH: Final = 4096
"""The longest token, in characters: proxies take lines of the head, and URLs, of 8 KiB."""

REMEMBERED: Final = 4096
"""How many verified tokens are remembered, of about 1 KiB each."""

NONCE_BYTES: Final = 12

Who = tuple[str, str, str, tuple[str, ...] | None, str]
"""Tenant, user, key, origins and the key's id, as in the claims of a client secret."""

_OPTIONS: Final[jwt.types.Options] = {
    "require": ["exp", "iat", "iss", "aud"],
    "strict_aud": True,
    # Its end is looked at each time, and not only now; clocks of replicas differ.
    "verify_exp": False,
    "verify_iat": False,
}

_who: msgspec.json.Decoder[Who] = msgspec.json.Decoder(Who)

T = TypeVar("T", bound=msgspec.Struct)

_FORM = re.compile(r"[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")


class FindKey(Protocol):
    """Looks a key up for what stands on it."""

    def __call__(self, name: str, *, issued_at: float | None = None) -> Principal | None:
        """Return what the key of a name may do now; None where there is none, or a newer one."""


class _Claims(msgspec.Struct, frozen=True):
    """What a token says, whatever its kind."""

    exp: float
    iat: float
    key: str
    """The name of the key that it stands on; "" for none."""
    tenant: str
    user: str
    models: tuple[str, ...] | None = None
    origins: tuple[str, ...] | None = None
    """Those of the key, where they are None."""
    key_id: str = ""
    limits: UsageLimits = UNLIMITED
    """Of its user, or of itself."""
    secret: str = ""
    """What tells it from others, if it names no user."""
    stream: str | None = None
    may: Literal["all", "read", "watch", "stop"] = "all"


class _StreamClaims(msgspec.Struct, frozen=True):
    exp: float
    iat: float
    stream: str
    may: Literal["read", "watch", "stop"]
    who: str
    """Who started the stream, encrypted: links to streams are given to others."""


class _Issuer(msgspec.Struct):
    iss: str = ""


class _Verdict:
    """A token that was signed here; the principal is made again when its key has changed."""

    __slots__ = ("claims", "key", "principal")

    def __init__(self, claims: _Claims) -> None:
        self.claims = claims
        self.key: Principal | None = None
        self.principal: Principal | None = None


class Tokens:
    """Makes and verifies them; see `Credentials`.

    Without `find_key` no token is compared with the key that it was made with.
    """

    def __init__(
        self,
        signing_key: str,
        *,
        find_key: FindKey | None = None,
        clock: Callable[[], float] = time.time,
        max_verdicts: int = REMEMBERED,
    ) -> None:
        self._find_key = find_key
        self._clock = clock
        self._max_verdicts = max_verdicts
        self._secret_key = _derive(signing_key, "client secret")
        self._stream_key = _derive(signing_key, "stream token")
        self._cipher = AESGCM(_derive(signing_key, "owner of a stream token"))
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()

    # Verifying

    async def verify(self, credential: str) -> Principal | None:
        """Return who shows a token; None for what is none of the relay's.

        Raises:
            RequestError: `unauthenticated`, it has expired, was not signed here, or its key
                is gone.
        """
        if len(credential) > MAX_LENGTH or not credential.isascii():
            if credential.startswith(PREFIX):
                raise _forged(credential)
            return None
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
        """Return what a token says that was signed here."""
        if credential.startswith(PREFIX):
            return self._decode(credential, self._secret_key, "client_secret", _Claims)
        form = _FORM.fullmatch(credential)
        if form is None or _unverified_issuer(form[1]) != ISSUER:
            return None
        claims = self._decode(credential, self._stream_key, "stream", _StreamClaims)
        tenant, user, key, origins, key_id = self._reveal(claims)
        return _Claims(
            claims.exp,
            claims.iat,
            key,
            tenant,
            user,
            models=(),
            origins=origins,
            key_id=key_id,
            stream=claims.stream,
            may=claims.may,
        )

    def _decode(self, credential: str, key: bytes, audience: str, form: type[T]) -> T:
        token = credential.removeprefix(PREFIX)
        if not _FORM.fullmatch(token):  # PyJWT takes padding too
            raise _forged(credential)
        try:
            said = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=audience,
                issuer=ISSUER,
                options=_OPTIONS,
            )
            return msgspec.convert(said, form)
        except (jwt.PyJWTError, msgspec.ValidationError):
            raise _forged(credential) from None

    def _reveal(self, claims: _StreamClaims) -> Who:
        try:
            hidden = urlsafe_b64decode(claims.who)
            nonce, data = hidden[:NONCE_BYTES], hidden[NONCE_BYTES:]
            told = self._cipher.decrypt(nonce, data, claims.stream.encode())
            return _who.decode(told)
        except (Base64Error, ValueError, InvalidTag, msgspec.MsgspecError):
            raise _forged("") from None

    def _remember(self, digest: bytes, claims: _Claims) -> _Verdict:
        verdict = self._verdicts[digest] = _Verdict(claims)
        if len(self._verdicts) > self._max_verdicts:
            self._verdicts.popitem(last=False)
        return verdict

    def _judge(self, verdict: _Verdict) -> Principal:
        """Return who shows a token that was signed here, if it still holds."""
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
        """Return what the key of a token may do now; None where it stands by itself."""
        if not claims.key or self._find_key is None:
            return None
        key = self._find_key(claims.key, issued_at=claims.iat)
        # Another key may have the name by now, also while a request by the old one went on.
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
        """Return a client secret, by which a user may do a part of what the principal may.

        It ends at `expires_at`, in unix seconds, or with the principal or its key before that.
        `limits` are its user's; with a `secret`, which no other has, its own.

        Raises:
            RequestError: `forbidden`, it would be more; `invalid_request`, it would be too long.
        """
        if principal.stream is not None:
            raise RequestError("forbidden", "a stream token makes no client secrets")
        _check_same("tenant", tenant, principal.tenant)
        _check_same("user", user, principal.user)
        for glob in models or ():
            if not covers(principal.models, glob):
                allowed = ", ".join(map(repr, (principal.models or ())[:20]))
                raise RequestError(
                    "forbidden",
                    f"models: {glob[:200]!r} is not within what the key may use: {allowed[:1000]}",
                )
        for origin in origins:
            if principal.origins and origin not in principal.origins:
                allowed = ", ".join(map(repr, principal.origins[:20]))
                raise RequestError(
                    "forbidden",
                    f"origins: {origin[:200]!r} is none of the key's: {allowed[:1000]}",
                )
        if not self._inherits(principal):
            if models is None:
                models = ("*",) if principal.models is None else principal.models
            origins = origins or principal.origins
        limits = smaller(principal.user_limits, limits)
        said = {
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
            {name: value for name, value in said.items() if value is not None},
            self._secret_key,
            audience="client_secret",
            expires_at=self.latest(principal, expires_at),
        )
        if len(token) > MAX_LENGTH:
            raise RequestError(
                "invalid_request",
                f"models, origins: with them the client secret would have {len(token)} characters, "
                f"and {MAX_LENGTH} is the most; send fewer, such as one glob for many models",
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
        """Return a token by which anybody may read, or stop, one stream of the principal.

        `expires_at` is in unix seconds; see `latest`.
        """
        origins = None if self._inherits(principal) else principal.origins
        who: Who = (
            *(principal.tenant, principal.user, principal.key, origins),
            principal.key_id,
        )
        nonce = secrets.token_bytes(NONCE_BYTES)
        hidden = self._cipher.encrypt(nonce, msgspec.json.encode(who), stream.encode())
        return self._sign(
            {"stream": stream, "may": may, "who": urlsafe_b64encode(nonce + hidden).decode()},
            self._stream_key,
            audience="stream",
            expires_at=self.latest(principal, expires_at),
        )

    def key_limits(self, name: str) -> UsageLimits:
        """Return the limits of the key of a name as it stands now."""
        key = self._look_up(name)
        return UNLIMITED if key is None else key.key_limits

    def latest(self, principal: Principal, expires_at: float) -> float:
        """Return when a token ends that is to end at `expires_at`: then, or with its key before.

        Both are unix seconds. When the client secret or the JWT ends that the principal has shown
        does not matter.
        """
        key = self._look_up(principal.key)
        if key is None or key.expires_at is None:
            return expires_at
        return min(expires_at, key.expires_at)

    def _look_up(self, name: str) -> Principal | None:
        return self._find_key(name) if name and self._find_key is not None else None

    def _inherits(self, principal: Principal) -> bool:
        """Return whether the models and origins of a principal are looked up with its key."""
        key = self._look_up(principal.key)
        return key is not None and (key.models, key.origins) == (
            principal.models,
            principal.origins,
        )

    def _sign(self, claims: dict[str, Any], key: bytes, *, audience: str, expires_at: float) -> str:
        now = self._clock()
        said = {"iss": ISSUER, "aud": audience, "exp": expires_at, "iat": now, **claims}
        return jwt.encode(said, key, algorithm=ALGORITHM)


def _derive(signing_key: str, purpose: str) -> bytes:
    """Return a key for one purpose (RFC 5869)."""
    info = f"seseragi {purpose}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(signing_key.encode())


def _unverified_issuer(payload: str) -> str:
    try:
        data = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        return msgspec.json.decode(data, type=_Issuer).iss
    except (Base64Error, ValueError, msgspec.MsgspecError, RecursionError):
        return ""


def _narrow(claims: _Claims, key: Principal | None) -> Principal:
    """Return who shows a token: what it says, as far as its key may do that now."""
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
            if not origins:  # which would mean any
                raise _refused("no page may use this any more: its key has lost its origins")
        if key.expires_at is not None:
            expires_at = min(expires_at, key.expires_at)
    elif models is None:  # it was made where keys are looked up
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
        raise RequestError("forbidden", f"{name}: the key is of {own!r} alone; leave it out")


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
    what = "client secret" if claims.stream is None else "link"
    return _refused(f"the key that this {what} stands on has ended or was revoked")

"""Verification of identity providers' JWTs (RFC 7519).

Only the issuer that a token names determines its keys and algorithms. Anything that is not
exactly one signed object, of a few types, is rejected before.
"""

import re
import ssl
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import jwt
import msgspec

from .claims import quoted, read_claims, refusal
from .config import ALGORITHMS, IssuerConfig
from .issuer_keys import IssuerKeys, Keys
from .jwks import Fetcher
from .principal import Principal

MAX_TOKEN = 16_384
MAX_HEADER = 4096
"""Characters of a token's first part; some contain certificates."""

MAX_VERDICTS = 4096
"""The maximum number of tokens with cached verification: about 700 bytes each."""

MAX_TRIES = 4
"""The maximum number of keys tried for a token without a `kid`, or with an ambiguous one."""

_PARTS = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")
_ENCRYPTED = re.compile(r"eyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*){4}")
_FORBIDDEN = ("crit", "b64", "zip", "enc", "cty", "jwk", "jku", "x5u")
"""The forbidden header fields: they change what is signed, or which key is trusted."""


class _Token(NamedTuple):
    """An unverified JWT."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


class _Issuer(NamedTuple):
    config: IssuerConfig
    keys: IssuerKeys
    reserved: frozenset[str]
    """Tenants of the other issuers."""


class _Verdict(NamedTuple):
    """The cached verification of a token, valid while its issuer's keys do not change."""

    principal: Principal
    until: float
    issuer: _Issuer
    keys: Keys


class Issuers:
    """The `Credentials` of all identity providers.

    Created anywhere, used in one event loop. It recognizes every JWT and rejects unknown ones:
    call it after the schemes with tokens of their own.
    """

    def __init__(
        self,
        configs: Sequence[IssuerConfig],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        trust: Callable[[], ssl.SSLContext] | None = None,
        fetcher: Fetcher | None = None,
    ) -> None:
        """Use these settings; fetch nothing until a token requires it.

        `trust` creates the TLS context at the first fetch; it is unused with a `fetcher`.
        """
        fetcher = fetcher or Fetcher(trust)
        self._clock = clock
        self._issuers = {
            config.issuer: _Issuer(
                config,
                IssuerKeys(config, fetcher, clock=monotonic),
                frozenset(other.all_users for other in configs) - {config.all_users},
            )
            for config in configs
        }
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()
        """By the SHA-256 of the token, so that no token is stored; in order of last use."""

    async def verify(self, credential: str) -> Principal | None:
        """Return the principal of a JWT; None for other credentials.

        Raises:
            RequestError: `unauthenticated`, with the reason.
            ServiceError: `overloaded`, the issuer's keys cannot be fetched.
        """
        if "." not in credential or not credential.isascii() or not self._issuers:
            return None
        # A cached check takes 4 us; an uncached one, with RS256, 75 us.
        digest = sha256(credential.encode()).digest()
        verdict = self._verdicts.get(digest)
        if verdict is not None:
            keys = await verdict.issuer.keys.get()
            if keys is verdict.keys and self._clock() < verdict.until:
                self._verdicts.move_to_end(digest)
                return verdict.principal
            self._verdicts.pop(digest, None)
        token = _parse(credential)
        if token is None:
            return None
        verdict = await self._check(token)
        self._verdicts[digest] = verdict
        if len(self._verdicts) > MAX_VERDICTS:
            self._verdicts.popitem(last=False)
        return verdict.principal

    async def aclose(self) -> None:
        """Cancel background tasks."""
        for issuer in self._issuers.values():
            await issuer.keys.aclose()

    async def _check(self, token: _Token) -> _Verdict:
        named = token.claims.get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise refusal(f"issuer {quoted(named)} ('iss') is not configured")
        _check_header(token.header, issuer.config)
        keys = await issuer.keys.get()
        fitting = _find_keys(keys, token.header)
        if not _is_signed(token, fitting):
            if fitting and "kid" in token.header:
                raise refusal("its signature is not valid")
            tried, keys = keys, await issuer.keys.get_other(keys)
            fitting = _find_keys(keys, token.header)
            if not fitting:
                raise refusal(
                    f"{quoted(named)} has no key for its signature "
                    f"(kid {quoted(token.header.get('kid'))}, alg {quoted(token.header['alg'])})"
                )
            if keys is tried or not _is_signed(token, fitting):
                raise refusal("its signature is not valid")
        principal = read_claims(
            token.claims, issuer.config, now=self._clock(), reserved=issuer.reserved
        )
        return _Verdict(principal, principal.expires_at or 0, issuer=issuer, keys=keys)


def _parse(text: str) -> _Token | None:
    """Parse a token; return None if it is not a JWT."""
    if len(text) > MAX_TOKEN or text.find(".") > MAX_HEADER:
        if text.startswith("eyJ"):
            raise refusal(
                f"it is longer than {MAX_TOKEN} characters, or its header than {MAX_HEADER}"
            )
        return None
    parts = _PARTS.fullmatch(text)
    if parts is None:
        if _ENCRYPTED.fullmatch(text):
            raise refusal("it is encrypted (JWE); use a token that is only signed")
        return None
    header = _parse_object(parts[1])
    if header is None or not isinstance(header.get("alg"), str):
        return None
    claims, signature = _parse_object(parts[2]), _decode(parts[3])
    if claims is None or signature is None:
        raise refusal("its claims are not a JSON object, or its signature is malformed")
    return _Token(header, claims, signed=text[: parts.end(2)].encode(), signature=signature)


def _parse_object(part: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(_decode(part) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decode(part: str) -> bytes | None:
    """Decode canonical base64url: otherwise different texts would be the same token."""
    if len(part) % 4 == 1:
        return None
    decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
    return decoded if urlsafe_b64encode(decoded).rstrip(b"=") == part.encode() else None


def _check_header(header: dict[str, Any], config: IssuerConfig) -> None:
    algorithm = header["alg"]
    if algorithm not in config.algorithms or algorithm not in ALGORITHMS:
        taken = ", ".join(name for name in config.algorithms if name in ALGORITHMS)
        raise refusal(f"it is signed with {quoted(algorithm)}; accepted of its issuer: {taken}")
    for name in _FORBIDDEN:
        if name in header:
            raise refusal(f"its header must not have {name!r}")
    kind = header.get("typ", "JWT")
    # "at+jwt" (RFC 9068) or "application/okta-internal-at+jwt"; "logout+jwt" grants no
    # access.
    if not isinstance(kind, str) or ("+" in kind and not kind.lower().endswith("at+jwt")):
        raise refusal(f"its type {quoted(kind)} ('typ') grants no access; send an access token")
    kid = header.get("kid", "")
    if not isinstance(kid, str):
        raise refusal("its 'kid' must be a string")


def _find_keys(keys: Keys, header: dict[str, Any]) -> Keys:
    """Return the keys that may have signed a token.

    Without a `kid`, or with an ambiguous one, only a few are allowed, since each costs a check.
    """
    named = [key for key in keys if key.kid == header["kid"]] if "kid" in header else keys
    fitting = tuple(key for key in named if header["alg"] in key.algorithms)
    if len(fitting) > MAX_TRIES:
        raise refusal("it has no unique 'kid', and the issuer has too many keys to try")
    return fitting


def _is_signed(token: _Token, keys: Keys) -> bool:
    algorithm = jwt.get_algorithm_by_name(token.header["alg"])
    return any(algorithm.verify(token.signed, key.public, token.signature) for key in keys)

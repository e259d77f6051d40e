"""JSON Web Key Sets (RFC 7517): their fetcher, and their parser to public signing keys.

Documents are fetched with limited size and without redirects. Unusable keys are skipped and
counted, so that one bad key does not affect others.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx2
import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from .config import ALGORITHMS, is_loopback

MAX_KEYS = 100
"""The maximum number of parsed keys; large providers publish fewer than ten."""

MAX_KEY_ID = 256
MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192
"""A check takes time quadratic in the size: 250 us at this one."""

MAX_EXPONENT = 2**32
"""For the same reason; nearly all are 65537."""

CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA = frozenset(name for name in ALGORITHMS if name.startswith(("RS", "PS")))

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


class JwksUnusable(Exception):
    """No usable keys; the message has the reason and quotes no input."""


class SigningKey(NamedTuple):
    """A public key, its id, and the algorithms whose signatures it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    public: PublicKey


class KeySet(NamedTuple):
    """The usable keys of a set."""

    keys: tuple[SigningKey, ...]
    skipped: int
    """The number of unusable keys."""


def parse_jwks(body: bytes) -> KeySet:
    """Parse a key set.

    Raises:
        JwksUnusable: it is not a key set, or none of its keys is usable.
    """
    rows = parse_object(body).get("keys")
    if not isinstance(rows, list):
        raise JwksUnusable("not a key set: the list 'keys' is missing")
    keys = tuple(key for row in rows[:MAX_KEYS] if (key := _parse_key(row)) is not None)
    if not keys:
        raise JwksUnusable(f"none of its {len(rows)} keys can check a signature")
    return KeySet(keys, len(rows) - len(keys))


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        JwksUnusable: the body is something else.
    """
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        raise JwksUnusable("not JSON") from None
    if not isinstance(value, dict):
        raise JwksUnusable("not a JSON object")
    return value


def _parse_key(row: Any) -> SigningKey | None:
    if not isinstance(row, dict) or not _is_for_signatures(row):
        return None
    kid, algorithm = row.get("kid"), row.get("alg")
    if not (kid is None or (isinstance(kid, str) and len(kid) <= MAX_KEY_ID)):
        return None
    found = _parse_material(row)
    if found is None:
        return None
    algorithms, public = found
    if algorithm is not None:
        algorithms = frozenset(name for name in algorithms if name == algorithm)
    return SigningKey(kid, algorithms, public) if algorithms else None


def _is_for_signatures(row: dict[str, Any]) -> bool:
    """Return whether a key is public and may verify signatures.

    With a private key that was published by mistake anyone can sign.
    """
    operations = row.get("key_ops")
    checks = operations is None or (isinstance(operations, list) and "verify" in operations)
    return "d" not in row and "k" not in row and row.get("use") in (None, "sig") and checks


def _parse_material(row: dict[str, Any]) -> tuple[frozenset[str], PublicKey] | None:
    """Return a key, and the algorithms of its type."""
    kind, curve = row.get("kty"), row.get("crv")
    fields: tuple[str, ...]
    if kind == "RSA":
        algorithms, fields = RSA, ("n", "e")
    elif kind == "EC" and isinstance(curve, str) and curve in CURVES:
        algorithms, fields = frozenset({CURVES[curve]}), ("x", "y")
    elif kind == "OKP" and curve == "Ed25519":
        algorithms, fields = frozenset({"EdDSA"}), ("x",)
    else:
        return None
    # They become integers: longer ones belong to no accepted key.
    if not all(isinstance(row.get(field), str) and len(row[field]) <= 1500 for field in fields):
        return None
    reader: Any = jwt.get_algorithm_by_name(min(algorithms))
    material = {name: row[name] for name in ("kty", "crv", *fields) if name in row}
    try:
        public = reader.from_jwk(material)
    except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if isinstance(public, RSAPublicKey):
        exponent = public.public_numbers().e
        if not MIN_RSA_BITS <= public.key_size <= MAX_RSA_BITS or exponent > MAX_EXPONENT:
            return None
    return algorithms, public


MAX_BYTES = 512 * 1024
"""A set of ten keys with their certificates takes 30 KiB."""

HEADERS = {
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "seseragi",
}


class Fetcher:
    """Fetches documents, each with a new client: an issuer's is fetched every ten minutes."""

    def __init__(self, trust: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._make_trust = trust or httpx2.create_ssl_context
        self._trust: ssl.SSLContext | None = None

    async def fetch(self, url: str) -> bytes:
        """Return the body at a URL, which the caller has validated.

        The caller limits the time with `asyncio.timeout`.

        Raises:
            JwksUnusable: it is unreachable, the status is not 200, or the body is encoded or
                longer than `MAX_BYTES`.
        """
        if self._trust is None:
            # Loading the system's certificates takes some 20 ms.
            self._trust = await asyncio.to_thread(self._make_trust)
        try:
            async with (
                httpx2.AsyncClient(
                    verify=self._trust,
                    # This machine is not behind a proxy.
                    trust_env=not is_loopback(url),
                    follow_redirects=False,
                    timeout=None,  # the caller's timeout covers the whole fetch
                ) as client,
                client.stream("GET", url, headers=HEADERS) as response,
            ):
                return await _read(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise JwksUnusable(f"{type(error).__name__}: {str(error)[:200]}") from None
        except ImportError:  # httpx2 needs another package for SOCKS
            raise JwksUnusable("the environment sets a proxy that is not an HTTP proxy") from None


async def _read(response: httpx2.Response) -> bytes:
    if response.is_redirect:
        raise JwksUnusable(
            f"redirects are not followed (status {response.status_code}); "
            "set jwks_url to where the keys are"
        )
    if response.status_code != 200:
        raise JwksUnusable(f"the response has the status {response.status_code}")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise JwksUnusable("the response has an unsupported content encoding")
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > MAX_BYTES:
            raise JwksUnusable(f"the response is longer than {MAX_BYTES} bytes")
    return bytes(body)

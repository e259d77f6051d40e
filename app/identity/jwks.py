"""Parser of JSON Web Key Sets (RFC 7517) to public signing keys.

Unusable keys are skipped and counted, so that one bad key does not affect others. No I/O.
"""

from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from .config import ALGORITHMS

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

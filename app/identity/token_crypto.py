"""Signatures of tokens, and encryption of their owners.

Only `Tokens` imports it, when it is created: PyJWT and cryptography take 8 MB, which a relay
without authentication saves.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final

import jwt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

ALGORITHM: Final = "HS256"
NONCE_BYTES: Final = 12

_OPTIONS: Final[jwt.types.Options] = {
    "require": ["exp", "iat", "iss", "aud"],
    "strict_aud": True,
    # The expiry is checked at each use, not only at decoding; clocks of replicas differ.
    "verify_exp": False,
    "verify_iat": False,
}


class TokenCrypto:
    """Signs and encrypts with keys that HKDF derives from the signing key (RFC 5869)."""

    def __init__(self, signing_key: str, issuer: str) -> None:
        self._issuer = issuer
        self._keys = {
            "client_secret": _derive(signing_key, "client secret"),
            "stream": _derive(signing_key, "stream token"),
        }
        self._cipher = AESGCM(_derive(signing_key, "owner of a stream token"))

    def sign(self, claims: Mapping[str, Any], audience: str) -> str:
        """Return a JWT for an audience, which has a key of its own."""
        payload = {"iss": self._issuer, "aud": audience, **claims}
        return jwt.encode(payload, self._keys[audience], algorithm=ALGORITHM)

    def verify(self, token: str, audience: str) -> dict[str, Any] | None:
        """Return the claims of a JWT; None if its signature or its audience is not valid."""
        key = self._keys[audience]
        try:
            return jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=audience,
                issuer=self._issuer,
                options=_OPTIONS,
            )
        except jwt.PyJWTError:
            return None

    def encrypt(self, plain: bytes, stream: str) -> str:
        """Encrypt the owner of a stream, bound to the stream."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return urlsafe_b64encode(
            nonce + self._cipher.encrypt(nonce, plain, stream.encode())
        ).decode()

    def decrypt(self, text: str, stream: str) -> bytes | None:
        """Decrypt the owner of a stream; None if it was not encrypted for it."""
        try:
            data = urlsafe_b64decode(text)
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], stream.encode())
        except (ValueError, InvalidTag):
            return None


def _derive(signing_key: str, purpose: str) -> bytes:
    info = f"seseragi {purpose}".encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(signing_key.encode())

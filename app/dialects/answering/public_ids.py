"""Ids for clients in place of the stream's id, which grants reading, stopping and deleting it.

They are an HMAC-SHA-256 with the stream's id, 128 random bits, as the key. So every replica
makes the same ones, also after a restart and without a shared secret, and they do not reveal
the stream's id.
"""

import base64
import hmac


def public_token(stream: str, purpose: str) -> str:
    """Return 22 letters, digits, "-" and "_" that differ for each purpose."""
    digest = hmac.digest(stream.encode(), purpose.encode(), "sha256")
    return base64.urlsafe_b64encode(digest[:16])[:22].decode()

"""Ids that clients are shown in place of the stream's own, which reads, stops and deletes it.

They are made of it by HMAC-SHA-256, with the stream's id as the key: 128 random bits that
only those know who may know it. So they are the same on every replica and after a restart,
without a key that replicas would have to share, and lead back to nothing.
"""

import base64
import hmac


def public_token(stream: str, purpose: str) -> str:
    """Return 22 letters, digits, "-" and "_" that differ for each purpose."""
    digest = hmac.digest(stream.encode(), purpose.encode(), "sha256")
    return base64.urlsafe_b64encode(digest[:16])[:22].decode()

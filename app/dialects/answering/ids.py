"""Ids for clients: public ids of a stream, and ids of tool calls.

The id of a stream grants reading, stopping and deleting it. So other ids are a keyed BLAKE2b
(RFC 7693) with the stream's id, 128 random bits, as the key, in a third of an HMAC's time. Every
replica makes the same ones, also after a restart and without a shared secret, and they do not
reveal the stream's id.

A provider's id goes to clients and back to the provider unchanged. For a call without an id the
event builder generates one, by the number of its block, in a form that no provider uses. Each
answer counts from 0 again, and many clients look calls up by id in the whole conversation: so
clients get such an id with a token of the stream in it.

Anthropic's clients accept letters, digits, "_" and "-" only. Other ids are base64 for them,
and decoded on the way back: no table is needed.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

_GENERATED: Final = re.compile(r"seseragi_\d+", re.ASCII)
_GENERATED_OR_SHOWN: Final = re.compile(r"seseragi_(?:[\w-]{22}_)?\d+", re.ASCII)
_PLAIN: Final = re.compile(r"[a-zA-Z0-9_-]+")
_PACKED: Final = "seseragi-"


def public_token(stream: str, purpose: str) -> str:
    """Return 22 letters, digits, "-" and "_" that differ for each purpose."""
    digest = hashlib.blake2b(purpose.encode(), key=stream.encode(), digest_size=16).digest()
    return base64.urlsafe_b64encode(digest)[:22].decode()


def make_call_id(block: int) -> str:
    """Generate the id of a call that has none, by the number of its block."""
    return f"seseragi_{block}"


def is_generated(id: str) -> bool:
    """Return whether the relay generated an id, in its own form or in that for clients."""
    return _GENERATED_OR_SHOWN.fullmatch(id) is not None


def show_call(stream: str, id: str) -> str:
    """Return the id of a call in its form for clients."""
    if not _GENERATED.fullmatch(id):
        return id
    return id.replace("_", f"_{public_token(stream, 'call')}_")


def pack_id(id: str) -> str:
    """Encode an id in letters, digits, "_" and "-"; one that has no others is unchanged."""
    if _PLAIN.fullmatch(id) and not id.startswith(_PACKED):
        return id
    return _PACKED + base64.urlsafe_b64encode(id.encode()).decode().rstrip("=")


def unpack_id(id: str) -> str:
    """Undo `pack_id`; any other id is returned unchanged."""
    if not id.startswith(_PACKED):
        return id
    text = id.removeprefix(_PACKED)
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return data.decode()
    except (binascii.Error, UnicodeError, ValueError):
        return id

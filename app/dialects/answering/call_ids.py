"""Ids of tool calls: those that the relay makes, and those that a dialect cannot say.

A provider's id goes to clients and back to the provider as it is. Some providers give none:
the event builder then numbers the calls, in a form that no provider uses. The next answer is
numbered from 0 again, so clients, many of which look calls up by their id in the whole
conversation, are shown such an id with letters in it that are the stream's own.

Anthropic's clients know ids of letters, digits, "_" and "-" only. Any other id is shown to
them in base64, and read back from it: nothing has to be remembered.
"""

import base64
import binascii
import re
from typing import Final

from .public_ids import public_token

_MADE: Final = re.compile(r"seseragi_\d+", re.ASCII)
_MADE_OR_SHOWN: Final = re.compile(r"seseragi_(?:[\w-]{22}_)?\d+", re.ASCII)
_PLAIN: Final = re.compile(r"[a-zA-Z0-9_-]+")
_PACKED: Final = "seseragi-"


def make_call_id(block: int) -> str:
    """Return the id of a call that came without one, by the number of its block."""
    return f"seseragi_{block}"


def is_made_up(id: str) -> bool:
    """Return whether an id is the relay's own, as it is or as clients are shown it."""
    return _MADE_OR_SHOWN.fullmatch(id) is not None


def show_call(stream: str, id: str) -> str:
    """Return the id that a client is shown for the id of a call."""
    if not _MADE.fullmatch(id):
        return id
    return id.replace("_", f"_{public_token(stream, 'call')}_")


def pack_id(id: str) -> str:
    """Return an id in letters, digits, "_" and "-"; unchanged if it has no others."""
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

"""Ids of tool calls for clients that keep a whole conversation under them.

Some providers give none, and `Shape` then counts: `call_0`. The next answer counts from 0
again, so clients that look calls up by their id are shown it with letters in it that are the
stream's own. On the way back such an id is counted anew, over the whole conversation.
"""

import re

from app.dialects.public_ids import public_token

_MADE_UP = re.compile(r"call_\d+", re.ASCII)
_SHOWN = re.compile(r"call_[\w-]{20,}_\d+", re.ASCII)


def show_call(stream: str, id: str) -> str:
    """Give the id that a client is shown for the id of a call."""
    if not _MADE_UP.fullmatch(id):
        return id
    return f"call_{public_token(stream, 'call')}_{id.removeprefix('call_')}"


class CallIds:
    """The ids that a provider is told, for those that a client says, in their order."""

    def __init__(self) -> None:
        self._made_up: dict[str, str] = {}

    def tell(self, shown: str) -> str:
        if not _SHOWN.fullmatch(shown):
            return shown
        return self._made_up.setdefault(shown, f"call_{len(self._made_up)}")

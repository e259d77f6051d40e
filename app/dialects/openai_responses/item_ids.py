"""Ids of output items for clients: `<prefix>_<token of the stream>_<number>`.

By its token a reference to an item finds the stream that stores it. The prefix is a few letters,
or for an item of a provider's own tool `<the provider's id>_<tag of the upstream>`: only this
upstream receives it back, with its own id.
"""

import hashlib
import re
from typing import Any, Final, NamedTuple

_ID: Final = re.compile(r"([\w.:-]{1,255})_([\w-]{22})_[ic]?\d{1,7}", re.ASCII)
_VALID: Final = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_TAGGED: Final = re.compile(r"(.+)_([0-9a-f]{6})")
_UNNAMED: Final = "item"
"""Stands for the id of an item without one."""


class ProviderItem(NamedTuple):
    """An item with the ids of the provider that made it, and the tag of its upstream."""

    item: dict[str, Any]
    tag: str


def tag_of(upstream: str) -> str:
    """Return six characters for an upstream's name."""
    return hashlib.sha256(upstream.encode()).hexdigest()[:6]


def make_prefix(id: object, *, tag: str) -> str:
    """Return the prefix for the id of a provider's item."""
    return f"{id if isinstance(id, str) and _VALID.fullmatch(id) else _UNNAMED}_{tag}"


def make_id(prefix: str, token: str, number: int) -> str:
    """Return the id of an item."""
    return f"{prefix}_{token}_{number}"


def token_of(id: str) -> str | None:
    """Return the token of an item id; None if the relay did not issue the id."""
    match = _ID.fullmatch(id)
    return match[2] if match else None


def restore_ids(item: dict[str, Any]) -> ProviderItem | None:
    """Return a provider's item as the provider knows it; None for any other item.

    A decision of the client names the request by `approval_request_id`.
    """
    for name in ("id", "approval_request_id"):
        value = item.get(name)
        match = _ID.fullmatch(value) if isinstance(value, str) else None
        if match and (tagged := _TAGGED.fullmatch(match[1])):
            restored = {} if tagged[1] == _UNNAMED else {name: tagged[1]}
            return ProviderItem({k: v for k, v in item.items() if k != name} | restored, tagged[2])
    return None

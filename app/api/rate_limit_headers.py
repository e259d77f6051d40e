"""Rate limit headers, as the official SDKs read them."""

import time
from datetime import UTC, datetime
from typing import Final

from ..dialects.client_format import ClientFormat
from ..dialects.client_formats import CLIENT_FORMATS
from ..ledger.accounts import RateLimitState

_KINDS: Final = ("requests", "tokens")
_FIELDS: Final = ("limit", "remaining", "reset")
RATE_LIMIT_HEADERS: Final = tuple(
    dict.fromkeys(
        one.rate_limit_header.format(kind=kind, field=field)
        for one in CLIENT_FORMATS.values()
        for kind in _KINDS
        for field in _FIELDS
    )
)
"""The names of all of them."""


def rate_limit_headers(
    client_format: ClientFormat, requests: RateLimitState | None, tokens: RateLimitState | None
) -> dict[str, str]:
    """Return the headers for a dialect."""
    headers = {}
    for kind, state in zip(_KINDS, (requests, tokens), strict=True):
        if state is None:
            continue
        if client_format.resets_are_times:
            reset = datetime.fromtimestamp(time.time() + state.reset_s, UTC)
            reset_at = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        else:
            reset_at = _duration(state.reset_s)
        for field, value in zip(_FIELDS, (state.limit, state.remaining, reset_at), strict=True):
            headers[client_format.rate_limit_header.format(kind=kind, field=field)] = str(value)
    return headers


def _duration(seconds: float) -> str:
    """Format a duration as OpenAI does: `8.64s`, `1m4.5s`."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"

"""Rate limit headers, as the official SDKs read them."""

import time
from datetime import UTC, datetime
from typing import Final

from ..ledger.accounts import RateLimitState

_KINDS: Final = ("requests", "tokens")
RATE_LIMIT_HEADERS: Final = (
    *(
        f"x-ratelimit-{field}-{kind}"
        for kind in _KINDS
        for field in ("limit", "remaining", "reset")
    ),
    *(
        f"anthropic-ratelimit-{kind}-{field}"
        for kind in _KINDS
        for field in ("limit", "remaining", "reset")
    ),
)
"""The names of all of them."""


def rate_limit_headers(
    client_format: str, requests: RateLimitState | None, tokens: RateLimitState | None
) -> dict[str, str]:
    """Return the headers for a dialect: Anthropic's own, or OpenAI's for all others."""
    headers = {}
    for kind, state in zip(_KINDS, (requests, tokens), strict=True):
        if state is None:
            continue
        if client_format == "anthropic":
            begin, end = f"anthropic-ratelimit-{kind}-", ""
            reset = datetime.fromtimestamp(time.time() + state.reset_s, UTC)
            reset_at = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        else:
            begin, end = "x-ratelimit-", f"-{kind}"
            reset_at = _duration(state.reset_s)
        headers[f"{begin}limit{end}"] = str(state.limit)
        headers[f"{begin}remaining{end}"] = str(state.remaining)
        headers[f"{begin}reset{end}"] = reset_at
    return headers


def _duration(seconds: float) -> str:
    """Format a duration as OpenAI does: `8.64s`, `1m4.5s`."""
    minutes, rest = divmod(round(seconds, 3), 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"

"""Waits and remaining limits in the headers of replies."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from ...policies.capacity import Remaining

MAX_WAIT_S: Final = 3600.0

_MAX_NUMBER: Final = 100
"""Characters of a time or a date."""

_LITELLM: Final = "llm_provider-"

_REMAINING: Final = (
    ("requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("requests", "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("tokens", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    (
        "tokens",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ),
)
"""What is counted, and the headers with the number that remains and the time of its reset."""


def read_remaining(headers: Mapping[str, str], *, now: float) -> list[Remaining]:
    """Parse what remains of rate limits, by lower-case names of headers; `now` is Unix time."""
    found = []
    for counts, header, reset in _REMAINING:
        remaining = headers.get(header)
        if remaining is not None and re.fullmatch("[0-9]{1,12}", remaining):
            value = headers.get(reset, "")
            reset_s = read_duration(value) or _read_until(value, now=now)
            found.append(Remaining(counts, int(remaining), bound_wait(reset_s) or 0.0))
    return found


def read_wait(headers: Mapping[str, str], *, limited: bool, now: float) -> float | None:
    """Parse the wait that a reply's headers request, in seconds."""
    headers = {name.lower(): value for name, value in headers.items()}
    # LiteLLM forwards the headers of the provider behind it under other names.
    behind = {n: v for n, v in headers.items() if n.startswith(_LITELLM)}
    headers = {n.removeprefix(_LITELLM): v for n, v in behind.items()} | headers
    date = _read_date(headers.get("date", ""))
    return _wait(headers, limited=limited, now=now if date is None else date)


def _wait(headers: Mapping[str, str], *, limited: bool, now: float) -> float | None:
    """Parse the wait that an error reply requests, in seconds."""
    seconds = _read_number(headers.get("retry-after-ms", "")) / 1000
    if seconds <= 0:  # Azure sends "retry-after-ms: 0" with "retry-after: 1"
        after = headers.get("retry-after", "")
        seconds = _read_number(after) or _read_until(after, now=now)
    if seconds <= 0 and limited:
        seconds = max(
            (read_duration(v) or _read_until(v, now=now) for v in _resets(headers)), default=0
        )
    return bound_wait(seconds)


def _resets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the reset times of the exhausted limits."""
    for name, value in headers.items():
        # Anthropic: "anthropic-ratelimit-input-tokens-reset", a time of RFC 3339.
        anthropic = name.startswith("anthropic-ratelimit-") and name.endswith("-reset")
        if anthropic or name.startswith("x-ratelimit-reset-"):
            remaining = headers.get("remaining".join(name.rsplit("reset", 1)), "")
            if _read_number(remaining) <= 0:
                yield value


def bound_wait(seconds: float) -> float | None:
    return min(seconds, MAX_WAIT_S) if seconds > 0 else None


def _read_number(text: str) -> float:
    text = text[:_MAX_NUMBER]
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text.strip()) else 0


def read_duration(text: str) -> float:
    """Parse "17ms", "1m2s", "48.9s" or plain seconds; 0 for anything else."""
    text = text[:_MAX_NUMBER]
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    parts = re.findall(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|h|m|s)", text)
    if "".join(number + unit for number, unit in parts) != text:
        return _read_number(text)
    return sum(float(number) * units[unit] for number, unit in parts)


def _read_until(text: str, *, now: float) -> float:
    """Parse a date as seconds from `now`; 0 if it is invalid or past."""
    date = _read_date(text)
    return 0 if date is None else max(0.0, date - now)


def _read_date(text: str) -> float | None:
    """Parse a date of HTTP or RFC 3339 as unix seconds."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            date = read(text[:_MAX_NUMBER])
        except (TypeError, ValueError):
            continue
        if date.tzinfo is not None:
            return date.timestamp()
    return None

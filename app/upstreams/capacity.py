"""The capacity of targets: their limits, from the settings and as their providers report them.

No I/O: the time is passed in. The state is of this process.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from ..dialects.reading.rate_limits import Remaining

MINUTE_S: Final = 60.0
SPAN_S: Final = 2.0
"""The resolution of the last minute, in seconds."""

UNKNOWN_RESET_S: Final = 10.0
"""The assumed time until a limit is reset, if the provider does not say."""

MAX_RESET_S: Final = 300.0


class TargetLimits(msgspec.Struct, frozen=True):
    """The limits of one target in the settings; None: no limit."""

    max_streams: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class _Reported:
    """What remains of one rate limit, as reported in the last reply."""

    __slots__ = ("left", "until")

    def __init__(self) -> None:
        self.left, self.until = math.inf, 0.0


class Capacity:
    """The running streams of one target, its last minute, and what its provider has reported."""

    def __init__(self) -> None:
        self.running = 0
        self._spans: deque[list[float]] = deque()
        """Begin, requests and tokens of each span of the last minute."""
        self._requests = self._tokens = 0.0
        self._reported = {"requests": _Reported(), "tokens": _Reported()}

    def has_room(self, limits: TargetLimits | None, *, tokens: int, now: float) -> bool:
        """Return whether the target is expected to accept a request with so many tokens."""
        for counts, need in (("requests", 1), ("tokens", tokens)):
            reported = self._reported[counts]
            if now < reported.until and reported.left < need:
                return False
        if limits is None:
            return True
        self._forget(now)
        used = (
            (self.running, 1, limits.max_streams),
            (self._requests, 1, limits.requests_per_minute),
            (self._tokens, tokens, limits.tokens_per_minute),
        )
        return all(most is None or count + need <= most for count, need, most in used)

    def begin(self, tokens: int, *, now: float) -> None:
        """Count a request with so many tokens."""
        self.running += 1
        self._add(1, tokens, now)
        self._reported["requests"].left -= 1
        self._reported["tokens"].left -= tokens

    def end(self) -> None:
        """Count the end of a request."""
        self.running -= 1

    def cancel(self, tokens: int, *, now: float) -> None:
        """Stop counting the tokens of a request that its provider has not answered.

        Otherwise a client could fill a target by huge requests that are refused.
        """
        self._add(0, -tokens, now)
        self._reported["tokens"].left += tokens

    def count_tokens(self, tokens: int, *, now: float) -> None:
        """Count further tokens of a request, as its provider reports them; or fewer."""
        self._add(0, tokens, now)

    def report(self, remaining: Sequence[Remaining], *, now: float) -> None:
        """Apply what a provider reports in a reply: of equal limits, the scarcest counts."""
        for counts in ("requests", "tokens"):
            same = [one for one in remaining if one.counts == counts]
            if same:
                scarcest = min(same)
                reported = self._reported[counts]
                reported.left = scarcest.left
                reset_s = scarcest.reset_s or UNKNOWN_RESET_S
                reported.until = now + min(reset_s, MAX_RESET_S)

    def _add(self, requests: int, tokens: int, now: float) -> None:
        self._forget(now)
        if not self._spans or now >= self._spans[-1][0] + SPAN_S:
            self._spans.append([now, 0, 0])
        span = self._spans[-1]
        span[1] += requests
        span[2] += tokens
        self._requests += requests
        self._tokens += tokens

    def _forget(self, now: float) -> None:
        spans = self._spans
        while spans and spans[0][0] <= now - MINUTE_S - SPAN_S:
            _, requests, tokens = spans.popleft()
            self._requests -= requests
            self._tokens -= tokens

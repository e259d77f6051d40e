"""The capacity of targets: their limits, from the settings and as their providers report them.

No I/O: the time is passed in. The state is of this process.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

MINUTE_S: Final = 60.0
SPAN_S: Final = 2.0
"""The resolution of the last minute, in seconds."""

UNKNOWN_RESET_S: Final = 10.0
"""The assumed time until a limit is reset, if the provider does not say."""

MAX_RESET_S: Final = 300.0


Count = Annotated[int, Meta(ge=1)]


class TargetLimits(msgspec.Struct, frozen=True):
    """The limits of one target in the settings; None: no limit."""

    max_streams: Count | None = None
    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None


class Remaining(NamedTuple):
    """What remains of a rate limit, as a reply reports it."""

    counts: str
    """"requests" or "tokens"."""
    amount: int
    reset_s: float
    """Seconds until the limit is reset; 0 if unknown."""


class _Reported:
    """What remains of one rate limit, as reported in the reply to the newest request."""

    __slots__ = ("begun", "remaining", "until")

    def __init__(self) -> None:
        self.remaining, self.until = math.inf, 0.0
        self.begun = 0
        """What had begun with that request: later requests are not in the report."""


class Capacity:
    """The running streams of one target, its last minute, and what its provider has reported."""

    def __init__(self) -> None:
        self.running = 0
        self.begun = {"requests": 0, "tokens": 0}
        """All that have begun here."""
        self._spans: deque[list[float]] = deque()
        """Begin, requests and tokens of each span of the last minute."""
        self._requests = self._tokens = 0.0
        self._newest = 0
        """The request of the last report."""
        self._reported = {"requests": _Reported(), "tokens": _Reported()}

    def has_room(self, limits: TargetLimits | None, *, tokens: int, now: float) -> bool:
        """Return whether the target is expected to accept a request with so many tokens."""
        for counts, need in (("requests", 1), ("tokens", tokens)):
            reported = self._reported[counts]
            later = self.begun[counts] - reported.begun
            if now < reported.until and reported.remaining - later < need:
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

    def begin(self, tokens: int, *, now: float) -> "CountedRequest":
        """Count a request with so many tokens."""
        self.running += 1
        self.add(1, tokens, now=now)
        self.begun["requests"] += 1
        self.begun["tokens"] += tokens
        return CountedRequest(self, tokens)

    def report(self, remaining: Sequence[Remaining], begun: Mapping[str, int], now: float) -> None:
        """Apply the report in the reply to a request, with which so much had `begun`.

        Of equal limits the scarcest counts. Replies to slow requests may come late.
        """
        if not remaining or begun["requests"] < self._newest:
            return
        self._newest = begun["requests"]
        for counts, reported in self._reported.items():
            same = [one for one in remaining if one.counts == counts]
            if same:
                scarcest = min(same)
                reported.remaining, reported.begun = scarcest.amount, begun[counts]
                reset_s = scarcest.reset_s or UNKNOWN_RESET_S
                reported.until = now + min(reset_s, MAX_RESET_S)

    def add(self, requests: int, tokens: int, *, now: float) -> None:
        """Add to the last minute."""
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


class CountedRequest:
    """What one request takes of the capacity of its target."""

    __slots__ = ("_begun", "_capacity", "_reported", "_tokens", "has_answered")

    def __init__(self, capacity: Capacity, tokens: int) -> None:
        self._capacity = capacity
        self._begun = dict(capacity.begun)
        self._tokens = tokens
        self.has_answered = self._reported = False

    def report(self, remaining: Sequence[Remaining], *, now: float) -> None:
        """Apply what the provider reports in the head of its reply; the first call counts."""
        if not self._reported:
            self._reported = True
            self._capacity.report(remaining, self._begun, now)

    def answered(self) -> None:
        """Note that an answer has begun: its provider counts the tokens."""
        self.has_answered = True

    def failed(self, *, now: float) -> None:
        """Stop counting the tokens of a request without an answer.

        Otherwise a client could fill a target by huge requests that are refused.
        """
        if not self.has_answered:
            self._capacity.begun["tokens"] -= self._tokens
            self.count_tokens(0, now=now)

    def count_tokens(self, tokens: int, *, now: float) -> None:
        """Replace the tokens of the request by another count."""
        self._capacity.add(0, tokens - self._tokens, now=now)
        self._tokens = tokens

    def end(self) -> None:
        """End a request."""
        self._capacity.running -= 1

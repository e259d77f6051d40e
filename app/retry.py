"""Which target is tried, when, and again or not. Pure: time and chance are passed in.

Until an answer has begun a failure can be made good by another attempt:

- at the same target, if the failure may pass, after a pause that doubles and is never less
  than the provider asked for;
- at the next target, once the attempts or the time at this one are used up, or it asks for a
  long wait, or its failure will not pass (a key that it refuses);
- nowhere, if the failure is the request's own doing: a content filter's verdict is not to
  be got round.

A target that keeps failing is passed over for a while, which its `Breaker` decides: it is
tried only after all others, until one request has found it well again.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from app.errors import RelayError

FINAL: Final = frozenset(("content_filtered", "cancelled", "internal", "overloaded"))
"""Failures after which no target is tried any more."""

FAULTS: Final = frozenset(
    (
        *("upstream_auth", "upstream_billing", "upstream_not_found", "upstream_rate_limited"),
        *("upstream_unavailable", "upstream_overloaded", "upstream_timeout"),
        *("upstream_invalid_response", "upstream_truncated"),
    )
)
"""Failures that speak against the target, and not against the request."""

PATIENCE_S: Final = 3.0
"""The longest wait that a provider may ask for: beyond it the next target is tried, or the
client is told while that can still be an HTTP status."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 8.0

FAILURES: Final = 3
"""Failures in a row after which a target is passed over."""

COOLDOWN_S: Final = 15.0
"""How long for; each time it fails again, twice as long, up to the longest."""

LONGEST_COOLDOWN_S: Final = 300.0


def pause(failures: int, *, chance: float) -> float:
    """Give the pause after so many failures at one target, in seconds.

    `chance` is 0 to 1: half of the pause is left to it, so that clients that failed together
    do not come back together.
    """
    return float(min(FIRST_PAUSE_S * 2 ** (failures - 1), LONGEST_PAUSE_S) * (1 + chance) / 2)


class Choice(msgspec.Struct, frozen=True):
    """How a target takes part in its route."""

    order: int = 1
    """Lower ones come first; equal ones share the requests by their weights."""
    weight: float = 1
    attempts: int = 2
    """How often it is tried for one request, at most."""


State = Literal["closed", "open", "half-open"]


class Breaker:
    """Remembers how one target fares.

    `closed`: it is tried in its turn. `open`: it failed too often and is passed over.
    `half-open`: that time is over, and one request is trying it.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._cooldown_s = COOLDOWN_S
        self._open_until: float | None = None
        self._trial: object | None = None

    @property
    def is_new(self) -> bool:
        """Whether it is as good as one that was never tried."""
        return not self._failures and self._open_until is None and self._trial is None

    def state(self, now: float) -> State:
        if self._open_until is None:
            return "closed"
        trying = self._trial is not None
        return "half-open" if trying or now >= self._open_until else "open"

    def open_for(self, now: float) -> float:
        """Give the seconds for which it is passed over yet."""
        return max(0.0, (self._open_until or now) - now)

    def passes(self, now: float) -> bool:
        """Whether it may be tried in its turn."""
        return self._open_until is None or (now >= self._open_until and self._trial is None)

    def begin(self, now: float) -> object:
        """Note an attempt; give what `end` has to be given once it is over."""
        attempt = object()
        if self._trial is None and self.state(now) == "half-open":
            self._trial = attempt
        return attempt

    def answered(self) -> None:
        """Note that an answer has begun: it is back, on probation."""
        if self._open_until is not None:
            self._failures = FAILURES - 1
        self._open_until = None
        self._trial = None

    def completed(self) -> None:
        """Note that an answer is complete: all is forgiven."""
        self._failures = 0
        self._cooldown_s = COOLDOWN_S

    def end(self, attempt: object) -> None:
        """Note that an attempt is over: if it was the trial, another may be."""
        if self._trial is attempt:
            self._trial = None

    def failed(self, error: RelayError, now: float) -> None:
        """Note a failure, before the answer or in it; what asks for a wait is given it."""
        if error.code not in FAULTS:
            return
        state, self._trial = self.state(now), None
        self._failures += 1
        wait_s = error.retry_after_s or 0.0
        # Requests that were under way when it opened say nothing new.
        if state == "half-open" or (state == "closed" and self._failures >= FAILURES):
            wait_s = max(wait_s, self._cooldown_s)
            self._cooldown_s = min(2 * self._cooldown_s, LONGEST_COOLDOWN_S)
        elif wait_s <= PATIENCE_S:
            return
        self._open_until = max(now + wait_s, self._open_until or 0.0)


def arrange(
    choices: Sequence[Choice],
    breakers: Sequence[Breaker],
    *,
    now: float,
    chance: Callable[[], float],
) -> list[int]:
    """Give the order in which to try the targets of a route, as their indices.

    Within an order the weights draw; those that are to be passed over come last, the one
    whose time is over first leading.
    """

    def key(index: int) -> tuple[bool, float, int, float]:
        choice, breaker = choices[index], breakers[index]
        passed_over = not breaker.passes(now)
        # The largest of u ** (1 / weight) comes first: each with its weight's share
        # (Efraimidis and Spirakis, weighted random sampling).
        draw = (1 - chance()) ** (1 / choice.weight) if choice.weight > 0 else -1.0
        wait_s = breaker.open_for(now) if passed_over else 0.0
        return passed_over, wait_s, choice.order, -draw

    return sorted(range(len(choices)), key=key)


class Step(NamedTuple):
    """The next attempt: at which target, after what wait in seconds."""

    target: int
    wait_s: float
    attempt: int
    """Counted from 1, over all targets."""


class Plan:
    """The attempts of one request.

    `order` are the targets' indices as `arrange` gives them. No attempt begins after
    `deadline`, and no other one at the same target later than `each_s` after its first: one
    that said nothing for so long leaves the rest to the next.
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        order: Sequence[int],
        *,
        now: float,
        deadline: float,
        each_s: float,
        chance: Callable[[], float],
    ) -> None:
        self._choices = choices
        self._left = list(order)
        self._deadline = deadline
        self._each_s = each_s
        self._here_since = now
        self._chance = chance
        self._tries = 0
        self._attempt = 1
        self._errors: list[RelayError] = []

    def first(self) -> Step:
        """Give the first attempt."""
        self._tries = 1
        return Step(self._left[0], 0.0, 1)

    def next(self, error: RelayError, now: float) -> Step | None:
        """Give the attempt that follows the failure of the last one, if any does."""
        self._errors.append(error)
        if error.code in FINAL:
            return None
        wait_s = self._wait_here(error)
        until = min(self._deadline, self._here_since + self._each_s)
        if wait_s is None or now + wait_s >= until:
            self._left.pop(0)
            self._here_since, self._tries, wait_s = now, 0, 0.0
        if not self._left or now >= self._deadline:
            return None
        self._tries += 1
        self._attempt += 1
        return Step(self._left[0], wait_s, self._attempt)

    def verdict(self, model: str, last: RelayError) -> RelayError:
        """Give the one error that tells of all failures, `last` being that of the last one.

        It is the last one's, or that of an earlier one which may pass if the last will not:
        then to try again is good advice.
        """
        if len(self._errors) < 2 or last.code in FINAL:
            return last
        passing = [error for error in self._errors if error.retryable]
        told = last if last.retryable or not passing else passing[-1]
        messages = list(dict.fromkeys(error.message for error in self._errors))
        if len(messages) == 1:
            text = f"{last.message} ({len(self._errors)} attempts)"
        else:
            text = f"no target of {model!r} could answer: {'; '.join(messages)}"
        return type(told)(told.code, text, retry_after_s=told.retry_after_s)

    def _wait_here(self, error: RelayError) -> float | None:
        """Give the wait before this target is tried again, None if it is not."""
        if not error.retryable or self._tries >= self._choices[self._left[0]].attempts:
            return None
        asked_s = error.retry_after_s or 0.0
        if asked_s > PATIENCE_S:
            return None
        return max(pause(self._tries, chance=self._chance()), asked_s)

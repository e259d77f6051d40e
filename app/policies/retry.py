"""Retry policy: waits and circuit breakers. Pure: time and chance are passed in.

Until an answer has begun, another attempt can follow a failure:

- at the same target, if the failure is temporary, after a pause that doubles and is at least the
  provider's `Retry-After`;
- at the next target, once the attempts or half of the time at this one are used up, or it was
  silent, or requests a long wait, or its failure is permanent (a key that it refuses);
- by the client, if no target is left and it retries by itself: its attempts and the relay's would
  multiply;
- nowhere, if the request is the cause: a content filter's verdict must not be circumvented.

The `Breaker` of a target that keeps failing opens for a while: the target is tried only after all
others, until one request succeeds there. Failures that a request may cause do not count against a
target, and each stream counts once.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from ..errors import RelayError

FINAL: Final = frozenset(("content_filtered", "cancelled", "internal", "overloaded"))
"""Failures after which no other target is tried."""

FAULTS: Final = frozenset(
    (
        "upstream_auth",
        "upstream_forbidden",
        "upstream_billing",
        "upstream_rate_limited",
        "upstream_unavailable",
        "upstream_overloaded",
        "upstream_timeout",
        "upstream_invalid_response",
        "upstream_truncated",
    )
)
"""Failures that count against the target, not against the request. A 404 may be for a file in the
request."""

PATIENCE_S: Final = 3.0
"""The longest accepted `Retry-After` of a provider: beyond it the next target is tried, or the
client receives an HTTP status."""

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 8.0

FAILURES: Final = 3
"""The number of failed streams, a majority of the recent ones, that opens a breaker."""

OUTCOMES: Final = 100
"""The number of recent streams that a breaker counts."""

LEAST_S: Final = 0.001
"""The minimum timeout of silence: some attempts begin late because their log was slow."""

CLAIM_S: Final = 1.0
"""Seconds for which a request that was assigned a trial keeps others from the target."""


class Rules(msgspec.Struct, frozen=True):
    """The rules of breakers, in seconds."""

    window_s: float = 60
    """The time for which the outcome of a stream counts."""
    pause_s: float = 15
    """The time for which a breaker is open; it doubles with each failed trial."""
    max_pause_s: float = 15


def pause(failures: int, *, chance: float) -> float:
    """Return the pause after so many failures at one target, in seconds.

    `chance` is 0 to 1 and determines half of the pause, so that clients that failed together do not
    retry together.
    """
    return float(min(FIRST_PAUSE_S * 2 ** (failures - 1), MAX_PAUSE_S) * (1 + chance) / 2)


class TargetPolicy(msgspec.Struct, frozen=True):
    """The role of a target in its route."""

    order: int = 1
    """Lower ones come first; equal ones share the conversations by their weights."""
    weight: float = 1
    attempts: int = 2
    """The maximum number of attempts for one request."""


State = Literal["closed", "open", "half-open"]
"""The state of a target's breaker."""


class Breaker:
    """The circuit breaker of one target.

    `closed`: it is tried in its turn. `open`: too many streams failed, and it is skipped.
    `half-open`: that time is over, and one request tries it; without one within `window_s` it
    closes, since the failures are too old to count.
    """

    def __init__(self, rules: Rules = Rules()) -> None:  # noqa: B008  (it is frozen)
        self._rules = rules
        self._pause_s = rules.pause_s
        self._outcomes: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        """The time of the last outcome of each recent stream, and whether it failed."""
        self._retry_after_until = 0.0
        """The wait that the provider requested."""
        self._open_until: float | None = None
        self._trial: str | None = None
        """The stream of the trial, and the stream whose answer decides."""
        self._trying = False
        self._tried_at = 0.0
        """The begin of the last trial."""
        self._claimed_until = 0.0

    def is_well(self, now: float) -> bool:
        """Whether no failure counts against it."""
        self._forget(now)
        failed = any(failed for _, failed in self._outcomes.values())
        return not failed and self.state(now) == "closed"

    def state(self, now: float) -> State:
        until = self._open_until
        if until is not None and not self._trying and now >= until + self._rules.window_s:
            self._open_until, self._pause_s, self._trial = None, self._rules.pause_s, None
        if self._open_until is None:
            return "closed"
        return "half-open" if self._trying or now >= self._open_until else "open"

    def failures(self, now: float) -> int:
        """Return the number of recently failed streams."""
        self._forget(now)
        return sum(failed for _, failed in self._outcomes.values())

    def open_for(self, now: float) -> float:
        """Return the seconds for which it is still skipped."""
        return max(0.0, (self._open_until or now) - now)

    def passes(self, now: float) -> bool:
        """Whether it may be tried in its turn."""
        if self.state(now) == "closed":
            return True
        return not (self.open_for(now) or self._is_tried(now) or now < self._claimed_until)

    def claim(self, now: float) -> None:
        """Assign the trial to a request, before it begins, if the target may be tried."""
        if self._open_until is not None and self.passes(now):
            self._claimed_until = now + CLAIM_S

    def begin(self, stream: str, now: float) -> bool:
        """Record an attempt; return whether it is the trial. A stream may make several."""
        trial = self.state(now) == "half-open" and not self._is_tried(now)
        if trial:
            self._trial, self._trying, self._tried_at = stream, True, now
            self._claimed_until = 0.0
        return trial

    def _is_tried(self, now: float) -> bool:
        """Whether a trial keeps others away: a silent one does so only for a while.

        Otherwise a healthy target would have to wait for one broken connection.
        """
        return self._trying and now < self._tried_at + self._rules.max_pause_s

    def end(self, stream: str) -> None:
        """Record the end of an attempt: after a trial, another trial is possible."""
        if self._trial == stream:
            self._trying = False
            self._claimed_until = 0.0

    def answered(self, stream: str, now: float) -> None:
        """Record that an answer has begun: the breaker closes, after a trial on probation."""
        if self._open_until is not None:
            self._outcomes.clear()
        self._open_until, self._retry_after_until = None, 0.0
        self._trying = False
        self._record_outcome(stream, now, failed=False)

    def completed(self, stream: str, now: float) -> None:
        """Record that an answer is complete."""
        self._record_outcome(stream, now, failed=False)
        if self._trial == stream:
            self._trial = None
        if self._open_until is None:
            self._pause_s = self._rules.pause_s

    def failed(self, stream: str, error: RelayError, now: float) -> None:
        """Record a failure, before or within the answer, and the wait that it requests."""
        if error.code not in FAULTS:
            return
        self._record_outcome(stream, now, failed=True)
        self._retry_after_until = max(self._retry_after_until, now + (error.retry_after_s or 0.0))
        failures = sum(failed for _, failed in self._outcomes.values())
        if self._trial == stream:
            # A trial's result is as old as its start.
            since = now if self._open_until is None else self._tried_at
            self._trial, self._trying = None, False
            self._open(since)
        # Ignore streams that were running when the breaker opened.
        elif self._open_until is None and FAILURES <= failures > len(self._outcomes) / 2:
            self._open(now)

    def _open(self, since: float) -> None:
        self._open_until = max(since + self._pause_s, self._retry_after_until)
        self._pause_s = min(2 * self._pause_s, self._rules.max_pause_s)

    def _record_outcome(self, stream: str, now: float, *, failed: bool) -> None:
        """Record the outcome of a stream, replacing its earlier one."""
        self._outcomes.pop(stream, None)
        self._outcomes[stream] = (now, failed)
        if len(self._outcomes) > OUTCOMES:
            self._outcomes.popitem(last=False)
        self._forget(now)

    def _forget(self, now: float) -> None:
        outcomes = self._outcomes
        while outcomes and next(iter(outcomes.values()))[0] <= now - self._rules.window_s:
            outcomes.popitem(last=False)


class Step(msgspec.Struct, frozen=True):
    """The next attempt: its target, and the wait before it in seconds."""

    target: int
    wait_s: float
    attempt: int
    """Counted from 1, over all targets."""


class Plan:
    """The attempts of one request.

    `order` are the targets' indices from `arrange`, `each_s` is the maximum silence of each target.
    No attempt begins after `deadline`. A target that another one follows has `each_s` for all its
    attempts, is not retried in the second half of it, and never after a silence, which may have
    been billed. The last one is not retried later than `each_s` after its first attempt.
    """

    def __init__(
        self,
        choices: Sequence[TargetPolicy],
        order: Sequence[int],
        *,
        now: float,
        deadline: float,
        each_s: Sequence[float],
        chance: Callable[[], float],
    ) -> None:
        self._choices = choices
        self._targets = list(order)
        """The current target, and those that follow it."""
        self._deadline = deadline
        self._each_s = each_s
        self._here_since = now
        self._chance = chance
        self._tries = 0
        self._attempt = 1
        self._errors: list[RelayError] = []

    def first(self) -> Step:
        """Return the first attempt."""
        self._tries = 1
        return Step(self._targets[0], 0.0, 1)

    @property
    def is_last(self) -> bool:
        """Whether no attempt can follow the last one returned."""
        return len(self._targets) == 1 and self._tries >= self._choices[self._targets[0]].attempts

    def next(
        self, error: RelayError, now: float, *, again: bool = True, client_retries: bool = False
    ) -> Step | None:
        """Return the attempt that follows the failure of the last one, if any does.

        `again`: whether it may be at the same target, if there is another. `client_retries`:
        whether the client retries by itself, so that the last target is not retried here.
        """
        self._errors.append(error)
        if error.code in FINAL:
            return None
        last = len(self._targets) == 1
        again = not client_retries if last else again and error.code != "upstream_timeout"
        wait_s = self._wait_here(error) if again else None
        each_s = self._each_s[self._targets[0]]
        until = min(self._deadline, self._here_since + (each_s if last else each_s / 2))
        if wait_s is None or now + wait_s >= until:
            self._targets.pop(0)
            self._here_since, self._tries, wait_s = now, 0, 0.0
        if not self._targets or now >= self._deadline:
            return None
        self._tries += 1
        self._attempt += 1
        return Step(self._targets[0], wait_s, self._attempt)

    @property
    def next_target(self) -> int | None:
        """The target after the current one, if any."""
        return self._targets[1] if len(self._targets) > 1 else None

    def add_second(self) -> int:
        """Return the number of an attempt beside the current one, at the next target."""
        self._attempt += 1
        return self._attempt

    def swap(self, now: float) -> None:
        """Make the target of the second attempt the current one, and the other the next."""
        self._targets[:2] = reversed(self._targets[:2])
        self._here_since, self._tries = now, 1

    def leave(self, error: RelayError, now: float) -> None:
        """Leave the current target after a failure, for the one of the second attempt."""
        self._errors.append(error)
        self._targets.pop(0)
        self._here_since, self._tries = now, 1

    def extend(self, now: float, deadline: float) -> None:
        """Begin again at the current target, with another deadline."""
        self._here_since, self._deadline = now, deadline

    def silence_s(self, now: float, *, trial: bool) -> float:
        """Return the maximum silence of an attempt that begins now, in seconds.

        A `trial` leaves half of the time to the targets that follow.
        """
        each_s = self._each_s[self._targets[0]]
        if len(self._targets) == 1:
            return each_s
        if self._tries > 1:
            each_s -= now - self._here_since
        if trial:
            each_s = min(each_s, (self._deadline - now) / 2)
        return max(LEAST_S, round(each_s, 3))

    def verdict(self, model: str, last: RelayError) -> RelayError:
        """Return one error for all failures, of which `last` is the last.

        It is the last error, or an earlier retryable one if the last is not: then a retry makes
        sense.
        """
        if len(self._errors) < 2 or last.code in FINAL:
            return last
        passing = [error for error in self._errors if error.retryable]
        final = last if last.retryable or not passing else passing[-1]
        messages = list(dict.fromkeys(error.message for error in self._errors))
        if len(messages) == 1:
            text = f"{last.message} ({len(self._errors)} attempts)"
        else:
            text = f"no target of {model!r} could answer: {'; '.join(messages)}"
        return type(final)(final.code, text, retry_after_s=final.retry_after_s)

    def _wait_here(self, error: RelayError) -> float | None:
        """Return the wait before this target is tried again, None if it is not."""
        if not error.retryable or self._tries >= self._choices[self._targets[0]].attempts:
            return None
        retry_after_s = error.retry_after_s or 0.0
        if retry_after_s > PATIENCE_S:
            return None
        return max(pause(self._tries, chance=self._chance()), retry_after_s)

"""Retry policy: the order of targets, waits, and breakers. Pure: time and chance are passed in.

Until an answer has begun a failure can be made good by another attempt:

- at the same target, if the failure may pass, after a pause that doubles and is never less
  than the provider asked for;
- at the next target, once the attempts or half of the time at this one are used up, or it
  was silent, or asks for a long wait, or its failure will not pass (a key that it refuses);
- by the client, if no target is left and it asks again by itself: its attempts and ours would
  multiply;
- nowhere, if the failure is the request's own doing: a content filter's verdict is not to
  be got round.

A target that keeps failing is passed over for a while, which its `Breaker` decides: it is
tried only after all others, until one request has found it well again. What a client's own
request may cause says nothing against a target, and no client alone has more than one voice
a stream.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from ..errors import RelayError

FINAL: Final = frozenset(("content_filtered", "cancelled", "internal", "overloaded"))
"""Failures after which no target is tried any more."""

FAULTS: Final = frozenset(
    (
        "upstream_auth",
        "upstream_billing",
        "upstream_rate_limited",
        "upstream_unavailable",
        "upstream_overloaded",
        "upstream_timeout",
        "upstream_invalid_response",
        "upstream_truncated",
    )
)
"""Failures that speak against the target, and not against the request. A 404 may be for a file
that the request names."""

PATIENCE_S: Final = 3.0
"""The longest wait that a provider may ask for: beyond it the next target is tried, or the
client is told while that can still be an HTTP status."""

FIRST_PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 8.0

FAILURES: Final = 3
"""How many streams have to fail at a target, and be most of those lately, to pass it over."""

OUTCOMES: Final = 100
"""How many of the last streams are remembered of a target."""

LEAST_S: Final = 0.001
"""The least time to be silent: some begin late because their log was slow."""

CLAIM_S: Final = 1.0
"""How long after a request was told to try a target no other is told to."""


class Rules(msgspec.Struct, frozen=True):
    """When a target is passed over, and how long; in seconds."""

    window_s: float = 60
    """How long the outcome of a stream counts."""
    pause_s: float = 15
    """How long it is passed over; each time that it fails again, twice as long."""
    max_pause_s: float = 15


def pause(failures: int, *, chance: float) -> float:
    """Return the pause after so many failures at one target, in seconds.

    `chance` is 0 to 1: half of the pause is left to it, so that clients that failed together
    do not come back together.
    """
    return float(min(FIRST_PAUSE_S * 2 ** (failures - 1), MAX_PAUSE_S) * (1 + chance) / 2)


class TargetPolicy(msgspec.Struct, frozen=True):
    """How a target takes part in its route."""

    order: int = 1
    """Lower ones come first; equal ones share the requests by their weights."""
    weight: float = 1
    attempts: int = 2
    """How often it is tried for one request, at most."""


State = Literal["closed", "open", "half-open", "resting"]
"""Of a target: the first three are its breaker's, and `resting` is one that was told to."""


class Breaker:
    """The health of one target.

    `closed`: it is tried in its turn. `open`: too many streams failed and it is passed over.
    `half-open`: that time is over, and one request tries it; if none comes within `window_s`,
    it closes, since the failures are then too long ago to count.
    """

    def __init__(self, rules: Rules = Rules()) -> None:  # noqa: B008  (it is frozen)
        self._rules = rules
        self._pause_s = rules.pause_s
        self._outcomes: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        """When each of the last streams was heard of, and whether it failed."""
        self._retry_after_until = 0.0
        """For how long the provider asked to be left alone."""
        self._open_until: float | None = None
        self._trial: str | None = None
        """The stream that tries it, and then the one whose answer has to show that it is well."""
        self._trying = False
        self._tried_at = 0.0
        """When the last trial began."""
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
        """Return how many streams have failed at it lately."""
        self._forget(now)
        return sum(failed for _, failed in self._outcomes.values())

    def try_now(self, now: float) -> None:
        """Let the next request through, as if the time of being passed over had come."""
        if self._open_until is not None:
            self._open_until = min(self._open_until, now)
            self._trying = False
            self._claimed_until = 0.0

    def open_for(self, now: float) -> float:
        """Return the seconds for which it is still skipped."""
        return max(0.0, (self._open_until or now) - now)

    def passes(self, now: float) -> bool:
        """Whether it may be tried in its turn."""
        if self.state(now) == "closed":
            return True
        return not (self.open_for(now) or self._is_tried(now) or now < self._claimed_until)

    def claim(self, now: float) -> None:
        """Note that a request was told to try it, before it does, if it may be tried."""
        if self._open_until is not None and self.passes(now):
            self._claimed_until = now + CLAIM_S

    def begin(self, stream: str, now: float) -> bool:
        """Note an attempt, and tell whether it is the trial; a stream may make several."""
        trial = self.state(now) == "half-open" and not self._is_tried(now)
        if trial:
            self._trial, self._trying, self._tried_at = stream, True, now
            self._claimed_until = 0.0
        return trial

    def _is_tried(self, now: float) -> bool:
        """Whether a trial keeps others from it: one that is silent does so for a while only.

        Else a target that is well again would wait for a connection that is not.
        """
        return self._trying and now < self._tried_at + self._rules.max_pause_s

    def end(self, stream: str) -> None:
        """Note that an attempt is over: if it was the trial, another may be."""
        if self._trial == stream:
            self._trying = False
            self._claimed_until = 0.0

    def answered(self, stream: str, now: float) -> None:
        """Note that an answer has begun: it is back, and that of a trial on probation."""
        if self._open_until is not None:
            self._outcomes.clear()
        self._open_until, self._retry_after_until = None, 0.0
        self._trying = False
        self._record_outcome(stream, now, failed=False)

    def completed(self, stream: str, now: float) -> None:
        """Note that an answer is complete."""
        self._record_outcome(stream, now, failed=False)
        if self._trial == stream:
            self._trial = None
        if self._open_until is None:
            self._pause_s = self._rules.pause_s

    def failed(self, stream: str, error: RelayError, now: float) -> None:
        """Note a failure, before the answer or in it; what asks for a wait is given it."""
        if error.code not in FAULTS:
            return
        self._record_outcome(stream, now, failed=True)
        self._retry_after_until = max(self._retry_after_until, now + (error.retry_after_s or 0.0))
        failures = sum(failed for _, failed in self._outcomes.values())
        if self._trial == stream:
            # The longer the trial took, the less is known of how the target fares now.
            since = now if self._open_until is None else self._tried_at
            self._trial, self._trying = None, False
            self._open(since)
        # Streams that were under way when it opened say nothing new.
        elif self._open_until is None and FAILURES <= failures > len(self._outcomes) / 2:
            self._open(now)

    def _open(self, since: float) -> None:
        self._open_until = max(since + self._pause_s, self._retry_after_until)
        self._pause_s = min(2 * self._pause_s, self._rules.max_pause_s)

    def _record_outcome(self, stream: str, now: float, *, failed: bool) -> None:
        """Take the last word of a stream for its only one."""
        self._outcomes.pop(stream, None)
        self._outcomes[stream] = (now, failed)
        if len(self._outcomes) > OUTCOMES:
            self._outcomes.popitem(last=False)
        self._forget(now)

    def _forget(self, now: float) -> None:
        outcomes = self._outcomes
        while outcomes and next(iter(outcomes.values()))[0] <= now - self._rules.window_s:
            outcomes.popitem(last=False)


def arrange(
    choices: Sequence[TargetPolicy],
    breakers: Sequence[Breaker],
    *,
    now: float,
    chance: Callable[[], float],
) -> list[int]:
    """Return the order in which to try the targets of a route, as their indices.

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

    return [0] if len(choices) == 1 else sorted(range(len(choices)), key=key)


class Step(NamedTuple):
    """The next attempt: at which target, after what wait in seconds."""

    target: int
    wait_s: float
    attempt: int
    """Counted from 1, over all targets."""


class Plan:
    """The attempts of one request.

    `order` are the targets' indices as `arrange` gives them, `each_s` how long each target may
    be silent. No attempt begins after `deadline`. A target that another one follows has
    `each_s` for all its attempts, is not asked again in the second half of it, and never
    after a silence, which may have been billed. The last one is not asked again later than
    `each_s` after its first attempt. One that `rests` says is resting by now is left out.
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
        rests: Callable[[int, float], bool] = lambda target, now: False,
    ) -> None:
        self._choices = choices
        self._rests = rests
        self._left = list(order)
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
        return Step(self._left[0], 0.0, 1)

    @property
    def is_last(self) -> bool:
        """Whether no attempt can follow the one that was given last."""
        return len(self._left) == 1 and self._tries >= self._choices[self._left[0]].attempts

    def next(
        self, error: RelayError, now: float, *, again: bool = True, client_retries: bool = False
    ) -> Step | None:
        """Return the attempt that follows the failure of the last one, if any does.

        `again`: whether it may be at the same target, if there is another. `client_retries`:
        whether the client retries by itself, so that the last target is not asked again here.
        """
        self._errors.append(error)
        if error.code in FINAL:
            return None
        last = len(self._left) == 1
        again = not client_retries if last else again and error.code != "upstream_timeout"
        again = again and not self._rests(self._left[0], now)
        wait_s = self._wait_here(error) if again else None
        each_s = self._each_s[self._left[0]]
        until = min(self._deadline, self._here_since + (each_s if last else each_s / 2))
        if wait_s is None or now + wait_s >= until:
            self._left.pop(0)
            self._left = [target for target in self._left if not self._rests(target, now)]
            self._here_since, self._tries, wait_s = now, 0, 0.0
        if not self._left or now >= self._deadline:
            return None
        self._tries += 1
        self._attempt += 1
        return Step(self._left[0], wait_s, self._attempt)

    def silence_s(self, now: float, *, trial: bool) -> float:
        """Return how long the attempt that begins now may be silent.

        A `trial` leaves half of the time to the targets that follow.
        """
        each_s = self._each_s[self._left[0]]
        if len(self._left) == 1:
            return each_s
        if self._tries > 1:
            each_s -= now - self._here_since
        if trial:
            each_s = min(each_s, (self._deadline - now) / 2)
        return max(LEAST_S, round(each_s, 3))

    def verdict(self, model: str, last: RelayError) -> RelayError:
        """Return the one error that tells of all failures, `last` being that of the last one.

        It is the last one's, or that of an earlier one which may pass if the last will not:
        then to try again is good advice.
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
        if not error.retryable or self._tries >= self._choices[self._left[0]].attempts:
            return None
        retry_after_s = error.retry_after_s or 0.0
        if retry_after_s > PATIENCE_S:
            return None
        return max(pause(self._tries, chance=self._chance()), retry_after_s)

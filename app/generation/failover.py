"""Failover: tries the targets of a route in turn, for a stream or a call without one.

It has the plan of attempts, its deadline and the breaker of the current target.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeVar

from ..dialects.reading.rate_limits import read_remaining
from ..errors import RelayError
from ..policies.capacity import CountedRequest
from ..policies.deadlines import Limits
from ..policies.retry import Breaker, Plan, Step
from ..requests import ChatRequest
from ..upstreams.routes import Route, Upstreams
from ..upstreams.targets import Target

T = TypeVar("T")


class _Try(NamedTuple):
    """An attempt that has begun."""

    target: Target
    number: int
    breaker: Breaker
    since: float
    request: CountedRequest | None
    """What it takes of the capacity of its target, if that is counted."""


class Failover:
    """The attempts of one stream or call, with `name` as its id for the breakers."""

    target: Target
    """The target of the last step."""
    number: int
    """The number of that attempt, from 1 and over all targets."""
    _plan: Plan
    _due: Step | None
    """The step to run: None while an attempt runs, and if no other follows."""
    _current: _Try
    _second: _Try | None = None
    """The attempt beside the current one."""
    _again: Callable[..., Plan] | None = None
    """Plans again at the time of the first attempt, if the route has several targets."""

    def __init__(
        self,
        upstreams: Upstreams,
        route: Route,
        *,
        name: str,
        limits: Limits,
        clock: Callable[[], float],
        chat: ChatRequest | None = None,
        metadata: Mapping[str, str] | None = None,
        owner: str = "",
        tokens: int = 0,
    ) -> None:
        """Prepare the first attempt, of an owner's conversation's target if there is a `chat`.

        `metadata` may name the conversation; `tokens` estimates its input; `clock` is that of the
        event loop.
        """
        if chat is not None and route.has_doors:
            route = route.for_request(chat)
        self._name = name
        self._route = route
        self._upstreams = upstreams
        self._tokens = tokens
        self._clock = clock
        self._breakers = upstreams.breakers
        now = clock()
        self._latest = now + limits.total_timeout_s
        self._deadline = now + (route.budget_s or limits.total_timeout_s)
        if len(route.targets) == 1:
            self._plan = upstreams.plan(route, now=now, deadline=self._deadline, limits=limits)
        else:
            self._again = partial(
                upstreams.plan,
                route,
                deadline=self._deadline,
                limits=limits,
                chat=chat,
                metadata=metadata,
                owner=owner,
                tokens=tokens,
            )
            self._plan = self._again(now=now)
        self._follow(self._plan.first())

    def _follow(self, step: Step) -> None:
        self._due = step
        self.target = self._route.targets[step.target]
        self.number = step.attempt

    def choose_again(self) -> bool:
        """Choose the first target again if others have filled it; return whether it is another."""
        plan, self._again = self._again, None
        if plan is None:
            return False
        now, before = self._clock(), self.target
        breaker = self._breakers.of(before)
        if breaker.state(now) == "closed" and (
            self._route.balance.by_load
            or self._upstreams.is_full(before, tokens=self._tokens, now=now)
        ):
            self._plan = plan(now=now)
            self._follow(self._plan.first())
        return self.target is not before

    @property
    def is_last(self) -> bool:
        """Whether no attempt can follow the last step."""
        return self._plan.is_last

    @property
    def left_s(self) -> float:
        """The seconds until the deadline, after which no attempt begins."""
        return max(0.0, self._deadline - self._clock())

    async def run(self, attempt: Callable[[float], Awaitable[T]]) -> T:
        """Run attempts until none is due; return the result of the last one.

        `attempt` receives the maximum seconds of silence of its `target`. It calls `answered` and
        `completed`, or `failed`; and `next`, if another attempt may follow.
        """
        while True:
            if self._due is not None and self._due.wait_s:
                await asyncio.sleep(self._due.wait_s)
            self._due = None
            breaker, now = self._breakers.of(self.target), self._clock()
            silence_s = self._plan.silence_s(now, trial=breaker.begin(self._name, now))
            request = self._count(self.target, now) if self._route.counted else None
            self._current = _Try(self.target, self.number, breaker, now, request)
            try:
                result = await attempt(silence_s)
            finally:
                self._current.breaker.end(self._name)
                if self._current.request is not None:
                    self._current.request.end()
            if self._due is None:
                return result

    def _count(self, target: Target, now: float) -> CountedRequest:
        return self._upstreams.capacity_of(target).begin(self._tokens, now=now)

    def note_head(self, headers: Mapping[str, str]) -> None:
        """Apply the rate limits in the head of a reply."""
        if (request := self._current.request) is not None:
            request.report(read_remaining(headers, now=time.time()), now=self._clock())

    def count_tokens(self, tokens: int) -> None:
        """Correct the estimated tokens of an attempt by its provider's count."""
        if (request := self._current.request) is not None:
            request.count_tokens(tokens, now=self._clock())

    def answered(self) -> None:
        """Record that an answer has begun."""
        now, current = self._clock(), self._current
        current.breaker.answered(self._name, now)
        if current.request is not None:
            current.request.answered()
            if self._route.is_timed:
                self._upstreams.stats.note(self.target.name, now - current.since, now=now)
        if not self._route.rescue:
            del self._plan  # no other attempt follows

    def completed(self) -> None:
        """Record that an answer is complete."""
        self._current.breaker.completed(self._name, self._clock())

    def failed(self, error: RelayError, *, fair: bool = True) -> None:
        """Count a failure against the target, but not a timeout that was not `fair`."""
        now, current, late = self._clock(), self._current, error.code == "upstream_timeout"
        if current.request is not None:
            current.request.failed(now=now)
            if late and fair and self._route.is_timed and not current.request.has_answered:
                self._upstreams.stats.note(self.target.name, now - current.since, now=now)
        if fair or not late:
            current.breaker.failed(self._name, error, now)

    def next(self, error: RelayError, *, client_retries: bool) -> float | None:
        """Prepare the attempt that follows a failed one; return the seconds until it begins.

        None if no other attempt follows; see `Plan.next`.
        """
        now = self._clock()
        again = self._current.breaker.passes(now)
        step = self._plan.next(error, now, again=again, client_retries=client_retries)
        if step is None:
            return None
        self._follow(step)
        return step.wait_s

    def hedge_delay_s(self) -> float | None:
        """Return the seconds after which the first attempt is late; None if it cannot be hedged."""
        hedge = self._route.hedge
        if hedge is None or self.number > 1:
            return None
        self._upstreams.stats.note_request(self._route.name, hedge.share)
        return self._upstreams.stats.percentile(self.target.name, hedge.percentile)

    def hedge(self) -> bool:
        """Prepare a second attempt, as the current one; return whether there may be one."""
        now, index = self._clock(), self._plan.next_target
        if index is None:
            return False
        target = self._route.targets[index]
        breaker = self._breakers.of(target)
        full = self._upstreams.is_full(target, tokens=self._tokens, now=now)
        if full or not breaker.passes(now):
            return False
        if not self._upstreams.stats.take_hedge(self._route.name):
            return False
        breaker.begin(self._name, now)
        number = self._plan.add_second()
        self._second = _Try(target, number, breaker, now, self._count(target, now))
        self.swap()
        return True

    def swap(self) -> None:
        """Exchange the current attempt and the one beside it."""
        current = self._current
        self._continue_second()
        self._second = current
        self._plan.swap(self._clock())

    def leave(self, error: RelayError) -> None:
        """Leave the current target after a failure for the one beside it."""
        self._end(self._current)
        self._continue_second()
        self._plan.leave(error, self._clock())

    def _continue_second(self) -> None:
        assert self._second is not None  # noqa: S101  (see `hedge`)
        self._current, self._second = self._second, None
        self.target, self.number = self._current.target, self._current.number

    def drop_second(self) -> None:
        """Forget the attempt beside the current one, which is cancelled."""
        second, self._second = self._second, None
        if second is not None:
            self._end(second)
            now = self._clock()
            self._upstreams.stats.note(second.target.name, now - second.since, now=now)

    def _end(self, ended: _Try) -> None:
        ended.breaker.end(self._name)
        if ended.request is not None:
            ended.request.end()

    def next_part(self, error: RelayError) -> float | None:
        """Prepare an attempt that continues the answer, at another target if one is left.

        Return the seconds until it begins; None if no other attempt follows.
        """
        now = self._clock()
        self._plan.extend(now, self._latest)
        step = self._plan.next(error, now, again=False)
        if step is None:
            return None
        self._follow(step)
        return step.wait_s

    def verdict(self, error: RelayError) -> RelayError:
        """Return one error for all failures, of which `error` is the last."""
        return self._plan.verdict(self._route.name, error)

"""Failover: tries the targets of a route in turn, for a stream or a call without one.

It has the plan of attempts, its deadline and the breaker of the current target.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

from ..errors import RelayError
from ..requests import ChatRequest
from ..upstreams.routes import Route, Upstreams
from ..upstreams.targets import Target
from .deadlines import Limits
from .retry import Breaker, Plan, Step

T = TypeVar("T")


class _Try(NamedTuple):
    """An attempt that runs beside the current one."""

    target: Target
    number: int
    breaker: Breaker
    since: float


class Failover:
    """The attempts of one stream or call, with `name` as its id for the breakers."""

    target: Target
    """The target of the last step."""
    number: int
    """The number of that attempt, from 1 and over all targets."""
    _plan: Plan
    _due: Step | None
    """The step to run: None while an attempt runs, and if no other follows."""
    _breaker: Breaker

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
    ) -> None:
        """Prepare the first attempt, of a conversation's target if there is a `chat`.

        `metadata` may name the conversation; `clock` is that of the event loop.
        """
        self._name = name
        self._route = route
        self._stats = upstreams.stats
        self._second: _Try | None = None
        self._clock = clock
        self._breakers = upstreams.breakers
        now = clock()
        self._latest = now + limits.total_timeout_s
        self._deadline = now + (route.budget_s or limits.total_timeout_s)
        self._plan = upstreams.plan(
            route, now=now, deadline=self._deadline, limits=limits, chat=chat, metadata=metadata
        )
        self._follow(self._plan.first())

    def _follow(self, step: Step) -> None:
        self._due = step
        self.target = self._route.targets[step.target]
        self.number = step.attempt

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
            self._breaker = breaker = self._breakers.of(self.target)
            now = self._since = self._clock()
            silence_s = self._plan.silence_s(now, trial=breaker.begin(self._name, now))
            try:
                result = await attempt(silence_s)
            finally:
                self._breaker.end(self._name)
            if self._due is None:
                return result

    def answered(self) -> None:
        """Record that an answer has begun."""
        now = self._clock()
        self._breaker.answered(self._name, now)
        if self._route.hedge is not None:
            self._stats.note(self.target.name, now - self._since)
        if not self._route.rescue:
            del self._plan  # no other attempt follows

    def completed(self) -> None:
        """Record that an answer is complete."""
        self._breaker.completed(self._name, self._clock())

    def failed(self, error: RelayError, *, fair: bool = True) -> None:
        """Count a failure against the target, but not a timeout that was not `fair`."""
        if fair or error.code != "upstream_timeout":
            self._breaker.failed(self._name, error, self._clock())

    def next(self, error: RelayError, *, client_retries: bool) -> float | None:
        """Prepare the attempt that follows a failed one; return the seconds until it begins.

        None if no other attempt follows; see `Plan.next`.
        """
        now = self._clock()
        again = self._breaker.passes(now)
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
        self._stats.note_request(self._route.name, hedge.share)
        return self._stats.percentile(self.target.name, hedge.percentile)

    def hedge(self) -> bool:
        """Prepare a second attempt, as the current one; return whether there may be one."""
        now = self._clock()
        step = self._plan.add_second()
        target = None if step is None else self._route.targets[step.target]
        breaker = None if target is None else self._breakers.of(target)
        if step is None or target is None or breaker is None or not breaker.passes(now):
            return False
        if not self._stats.take_hedge(self._route.name):
            return False
        breaker.begin(self._name, now)
        self._second = _Try(target, step.attempt, breaker, now)
        self.swap()
        return True

    def swap(self) -> None:
        """Exchange the current attempt and the one beside it."""
        second = self._second
        assert second is not None  # noqa: S101  (see `hedge`)
        self._second = _Try(self.target, self.number, self._breaker, self._since)
        self.target, self.number, self._breaker, self._since = second
        self._plan.swap(self._clock())

    def leave(self, error: RelayError) -> None:
        """Leave the current target after a failure for the one beside it."""
        second, self._second = self._second, None
        assert second is not None  # noqa: S101  (see `hedge`)
        self._breaker.end(self._name)
        self.target, self.number, self._breaker, self._since = second
        self._plan.leave(error, self._clock())

    def drop_second(self) -> None:
        """Forget the attempt beside the current one, which is cancelled."""
        second, self._second = self._second, None
        if second is not None:
            second.breaker.end(self._name)
            self._stats.note(second.target.name, self._clock() - second.since)

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

"""Failover: tries the targets of a route in turn, for a stream or a call without one.

Keeps the plan of attempts, its deadline and the breaker of the target in turn. Pure: times are
passed in, and the caller waits and calls the target. For each attempt: wait `step.wait_s`,
`begin`, then `answered` and `completed` or `failed`, and `end`; after a failure `next`.
"""

from ..errors import RelayError
from ..upstreams.routes import Route, Upstreams
from ..upstreams.targets import Target
from .deadlines import Limits
from .retry import Breaker, Step


class Failover:
    """The attempts of one stream or call, known to the breakers as `name`."""

    step: Step | None
    """The attempt that is to begin: None while one runs, and once no other follows."""
    target: Target
    """The target of the last step."""
    _breaker: Breaker

    def __init__(
        self, upstreams: Upstreams, route: Route, *, name: str, limits: Limits, now: float
    ) -> None:
        self._name = name
        self._route = route
        self._breakers = upstreams.breakers
        self.deadline = now + (route.budget_s or limits.total_timeout_s)
        """No attempt begins later."""
        self._plan = upstreams.plan(route, now=now, deadline=self.deadline, limits=limits)

    def first(self) -> Step:
        """Return the first step."""
        return self._follow(self._plan.first())

    def _follow(self, step: Step) -> Step:
        self.step = step
        self.target = self._route.targets[step.target]
        return step

    @property
    def is_last(self) -> bool:
        """Whether no attempt can follow the last step."""
        return self._plan.is_last

    def begin(self, now: float) -> float:
        """Begin the attempt; return how many seconds its target may be silent."""
        self.step = None
        self._breaker = breaker = self._breakers.of(self.target)
        return self._plan.silence_s(now, trial=breaker.begin(self._name, now))

    def answered(self, now: float) -> None:
        """Note that an answer has begun."""
        self._breaker.answered(self._name, now)

    def completed(self, now: float) -> None:
        """Note that an answer is complete."""
        self._breaker.completed(self._name, now)

    def failed(self, error: RelayError, now: float, *, fair: bool = True) -> None:
        """Count a failure against the target, but not a timeout that was not `fair`."""
        if fair or error.code != "upstream_timeout":
            self._breaker.failed(self._name, error, now)

    def next(self, error: RelayError, now: float, *, client_retries: bool) -> Step | None:
        """Return the step that follows a failed attempt, if any; see `Plan.next`."""
        again = self._breaker.passes(now)
        step = self._plan.next(error, now, again=again, client_retries=client_retries)
        return step if step is None else self._follow(step)

    def end(self) -> None:
        """Note that the attempt that began last is over."""
        self._breaker.end(self._name)

    def verdict(self, error: RelayError) -> RelayError:
        """Return the one error that stands for all failures, `error` being the last one."""
        return self._plan.verdict(self._route.name, error)

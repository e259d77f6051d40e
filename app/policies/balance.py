"""The choice among the targets of a route that have the same order.

Pure: what is known of the targets, and a number by chance, is in each `Candidate`. Their recent
times until the first event are of this process, and only of routes that need them.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ..plugins import Registry
from .retry import Breaker, TargetPolicy

MAX_SAMPLES: Final = 200
MIN_SAMPLES: Final = 20
"""Below, a percentile is unknown."""

RECENT_S: Final = 30.0
"""For how long a mean is known after the last sample; then one request tries the target again."""

MAX_SAVED: Final = 5.0
"""Second attempts that may follow at once after a time without any."""


class TargetStats:
    """The statistics of configured targets and routes, by name."""

    def __init__(self) -> None:
        self._times: dict[str, deque[float]] = {}
        self._means: dict[str, tuple[float, float]] = {}
        """The moving mean, and the time of the last sample."""
        self._tried: dict[str, float] = {}
        """When a target of unknown speed was last tried."""
        self._saved: dict[str, float] = {}

    def note(self, target: str, seconds: float, *, now: float) -> None:
        """Record the time until a first event, or the time after which nobody waited for it."""
        mean, at = self._means.get(target, (seconds, now))
        known = now < at + RECENT_S
        self._means[target] = (0.8 * mean + 0.2 * seconds if known else seconds), now
        times = self._times.get(target)
        if times is None:
            times = self._times[target] = deque(maxlen=MAX_SAMPLES)
        times.append(seconds)

    def expect(self, target: str, *, now: float) -> float:
        """Return the mean of the recent times in seconds.

        An unknown one is 0 until a request tries the target, then infinite: without that, all
        requests would wait for a slow target together.
        """
        mean, at = self._means.get(target, (0.0, -math.inf))
        if now < at + RECENT_S:
            return mean
        return math.inf if now < self._tried.get(target, -math.inf) + RECENT_S else 0.0

    def tried(self, target: str, *, now: float) -> None:
        """Record that a request tries a target, unless its speed is known."""
        if self.expect(target, now=now) == 0:
            self._tried[target] = now

    def percentile(self, target: str, percent: float) -> float | None:
        """Return a percentile of the recent times in seconds; None if there are too few."""
        times = self._times.get(target, ())
        if len(times) < MIN_SAMPLES:
            return None
        rank = math.ceil(len(times) * percent / 100)
        return sorted(times)[max(rank, 1) - 1]

    def note_request(self, route: str, share: float) -> None:
        """Record a request, which allows for a share of a second attempt."""
        self._saved[route] = min(MAX_SAVED, self._saved.get(route, 0.0) + share)

    def take_hedge(self, route: str) -> bool:
        """Return whether a second attempt is within the share, and count it."""
        saved = self._saved.get(route, 0.0)
        if saved < 1:
            return False
        self._saved[route] = saved - 1
        return True


class Candidate(NamedTuple):
    """One of several targets between which only the balance decides."""

    position: int
    """Among the targets of the route."""
    name: str
    weight: float
    draw: float
    """Uniform in [0, 1): the target's for this conversation, if that decides, else by chance."""
    running: int = 0
    """Its running requests."""
    expected_s: float = 0.0
    """The mean of its recent times until the first event, if they are measured; see
    `TargetStats.expect` for an unknown one."""


@runtime_checkable
class Balance(Protocol):
    """A rule that orders candidates."""

    by_conversation: bool = False
    """Whether the numbers drawn are the same for all turns of a conversation."""
    by_load: bool = False
    """Whether running requests decide. Then a request that had to wait chooses again."""
    by_time: bool = False
    """Whether the times until the first event are measured."""

    def order(self, candidates: Sequence[Candidate]) -> Iterable[Candidate]:
        """Return the candidates, at least two, in the order in which to try them.

        Those left out follow. It is called once or twice for a request, and must not wait.
        """


class Random(Balance):
    """By chance, each with the share of its weight."""

    def order(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        # The smallest of -ln(u) / weight comes first (Efraimidis and Spirakis, weighted random
        # sampling).
        return _rank(candidates, lambda one: -math.log(1 - one.draw))


class Affinity(Random):
    """A conversation keeps its target."""

    by_conversation = True


class LeastBusy(Balance):
    """The fewest running requests of a weight; chance decides between equal ones."""

    by_load = True

    def order(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        return _rank(candidates, lambda one: one.running + 1 + one.draw / 100)


class Latency(Random):
    """Of two by chance the faster one: with the fastest of all, all requests would go there."""

    by_time = True

    def order(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        first, second, *others = super().order(candidates)
        if second.weight > 0 and second.expected_s < first.expected_s:
            first, second = second, first
        return [first, second, *others]


BALANCES: Final[Registry[Balance]] = Registry(
    "balance",
    {
        "affinity": Affinity(),
        "random": Random(),
        "least_busy": LeastBusy(),
        "latency": Latency(),
    },
    group="seseragi.balances",
    make=lambda loaded: loaded(),
    is_part=lambda part: isinstance(part, Balance),
    wants="a Balance: make it a subclass of seseragi.policies.balance.Balance",
)
"""The built-in ones, the default first."""


def arrange(
    policies: Sequence[TargetPolicy],
    breakers: Sequence[Breaker],
    *,
    now: float,
    order: Callable[[list[int]], list[int]],
    is_full: Callable[[int], bool] = lambda index: False,
) -> list[int]:
    """Return the order in which to try the targets of a route, as their indices.

    `order` decides between equal ones. Full targets come after all others, and skipped ones last,
    the one that is open for the shortest time first.
    """
    equal: defaultdict[tuple[bool, float, bool, int], list[int]] = defaultdict(list)
    for index, (policy, breaker) in enumerate(zip(policies, breakers, strict=True)):
        passed_over = not breaker.passes(now)
        wait_s = breaker.open_for(now) if passed_over else 0.0
        key = passed_over, wait_s, is_full(index), policy.order
        equal[key].append(index)
    groups = [equal[key] for key in sorted(equal)]
    return [index for group in groups for index in (order(group) if len(group) > 1 else group)]


def _rank(candidates: Sequence[Candidate], number: Callable[[Candidate], float]) -> list[Candidate]:
    """Sort by a number of each weight; those without a weight are last."""
    return sorted(
        candidates, key=lambda one: number(one) / one.weight if one.weight > 0 else math.inf
    )

"""The recent times of targets until the first event, and how many requests were hedged. No I/O.

They are of this process, and only of targets of routes that need them.
"""

import math
from collections import deque
from typing import Final

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

"""Estimates the rate and the cost of running streams by sampling them.

Nothing is counted while tokens arrive: each event is weighed once, at the first sample after it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

from ..dialects.writing.token_estimate import tokens_of, weigh_event
from ..generation.accounting import Accounting
from ..generation.token_usage import SAMPLED
from ..telemetry.activity import Progress
from .process_snapshot import Live, cut

SPAN_S = 1.0
"""The minimum time between the two samples of a rate."""

SLICE_S = 0.002
"""The longest time before yielding to the event loop."""

WEIGHED_AT_ONCE = 2000
"""Events weighed before yielding: about a millisecond."""


class _Sample:
    """The last two samples of a stream."""

    __slots__ = ("at", "before", "events", "events_before", "weighed", "weight")

    def __init__(self) -> None:
        self.before: float | None = None
        self.at: float | None = None
        self.events = self.events_before = 0
        self.weighed = self.weight = 0
        """The number of weighed events, and their weight."""

    def rate(self, now: float, events: int) -> float | None:
        """Return the recent events per second; None without an earlier sample."""
        if self.at is not None and now - self.at >= SPAN_S:
            self.before, self.events_before = self.at, self.events
            self.at, self.events = now, events
        elif self.at is None:
            self.at, self.events = now, events
        if self.before is None:
            return None
        return (events - self.events_before) / (now - self.before)


class Sampler:
    """Samples streams, in short slices, and stores the previous sample of each."""

    def __init__(
        self, accounting: Accounting, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._accounting = accounting
        self._clock = clock
        self._samples: dict[str, _Sample] = {}

    async def look(self, streams: Iterator[Progress]) -> list[Live]:
        """Return the live view of streams."""
        found: list[Live] = []
        samples: dict[str, _Sample] = {}
        pause_at = time.perf_counter() + SLICE_S
        for progress in streams:
            stream = progress.info.id
            sample = samples[stream] = self._samples.get(stream) or _Sample()
            for _ in self._weigh(sample, progress):
                await asyncio.sleep(0)
            found.append(self._show(progress, sample))
            if time.perf_counter() >= pause_at:
                await asyncio.sleep(0)
                pause_at = time.perf_counter() + SLICE_S
        self._samples = samples
        return found

    def _weigh(self, sample: _Sample, progress: Progress) -> Iterator[None]:
        """Weigh new events; yield where the caller should yield to the event loop.

        Only the beginning of a very long answer is weighed.
        """
        if sample.weighed >= min(progress.events, SAMPLED):
            return
        written = progress.written()[sample.weighed : SAMPLED]
        for start in range(0, len(written), WEIGHED_AT_ONCE):
            if start:
                yield
            some = written[start : start + WEIGHED_AT_ONCE]
            sample.weighed += len(some)
            sample.weight += sum(map(weigh_event, some))

    def _show(self, progress: Progress, sample: _Sample) -> Live:
        info, now = progress.info, self._clock()
        events, output_tokens, nano = progress.events, None, None
        rate = sample.rate(now, events)
        if progress.first_event_s is not None:
            writing_s = progress.age_s - progress.first_event_s
            if rate is None:
                rate = events / max(writing_s, SPAN_S)
            weight = sample.weight
            if sample.weighed and events > sample.weighed:
                weight = weight * events // sample.weighed
            charge = self._accounting.estimate(
                progress.target,
                progress.usage,
                request=info.reserve,
                output_tokens=tokens_of(weight),
            )
            output_tokens = charge.counts.output_tokens if charge.counts else None
            if charge.nano_usd is not None and progress.spent_nano_usd is not None:
                nano = charge.nano_usd + progress.spent_nano_usd
        gap_s = progress.silent_s
        longest = progress.longest_gap_s
        return Live(
            id=info.id,
            request_id=cut(info.request_id),
            route=cut(info.route),
            target=cut(progress.target),
            attempt=progress.attempt,
            started_at=round(info.created_at, 3),
            first_event_s=_rounded(progress.first_event_s),
            events=events,
            events_per_s=round(rate or 0.0, 1),
            gap_s=round(gap_s, 3),
            longest_gap_s=_rounded(None if longest is None else max(longest, gap_s)),
            output_tokens=output_tokens,
            nano_usd=nano,
            owner=cut(info.owner),
            tenant=cut(info.tenant),
            user=cut(info.user),
            key=cut(info.key_name),
        )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

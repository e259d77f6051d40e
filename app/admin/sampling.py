"""Estimates the rate and the cost of running streams by sampling them.

Nothing is counted while tokens arrive: each event is weighed once, at the first sample after it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator

from ..dialects.writing.token_estimate import tokens_of, weigh_event
from ..generation.settlement import Settlements
from ..ledger.money import to_usd
from ..telemetry.activity import Progress
from .snapshot import LiveStream, cut, describe_stream

SPAN_S = 1.0
"""The minimum time between the two samples of a rate."""

SLICE_S = 0.002
"""The longest time before yielding to the event loop, beside the weighing of one stream."""

WEIGHED = 4000
"""The number of a stream's first events that are weighed: about two milliseconds."""


class _Sample:
    """The last samples of a stream."""

    __slots__ = ("at", "events", "rate", "weighed", "weight")

    def __init__(self, at: float, events: int) -> None:
        self.at = at
        self.events = events
        self.rate: float | None = None
        """Events per second between the last two samples."""
        self.weighed = self.weight = 0
        """The number of weighed events, and their weight."""

    def update(self, now: float, events: int) -> None:
        if now - self.at >= SPAN_S:
            self.rate = (events - self.events) / (now - self.at)
            self.at, self.events = now, events


class Sampler:
    """Samples streams, in short slices, and stores the previous sample of each."""

    def __init__(
        self,
        settlements: Settlements,
        *,
        process: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settlements = settlements
        self._process = process
        self._clock = clock
        self._samples: dict[str, _Sample] = {}

    async def look(self, streams: Iterator[Progress]) -> list[LiveStream]:
        """Return the live view of streams."""
        found: list[LiveStream] = []
        samples: dict[str, _Sample] = {}
        pause_at = time.perf_counter() + SLICE_S
        for progress in streams:
            stream, now = progress.info.id, self._clock()
            sample = self._samples.get(stream) or _Sample(now, progress.events)
            samples[stream] = sample
            sample.update(now, progress.events)
            found.append(self._show(progress, sample))
            if time.perf_counter() >= pause_at:
                await asyncio.sleep(0)
                pause_at = time.perf_counter() + SLICE_S
        self._samples = samples
        return found

    def _show(self, progress: Progress, sample: _Sample) -> LiveStream:
        rate, gap_s, longest = sample.rate, progress.silent_s, progress.longest_gap_s
        output_tokens = cost = None
        if progress.first_event_s is not None:
            if rate is None:
                writing_s = progress.age_s - progress.first_event_s
                rate = progress.events / max(writing_s, SPAN_S)
            output_tokens, cost = self._estimate(progress, sample)
        return LiveStream(
            **describe_stream(progress.info),
            process=self._process,
            target=cut(progress.target) or None,
            attempt=progress.attempt,
            started_at=round(progress.info.created_at, 3),
            first_event_s=_rounded(progress.first_event_s),
            events=progress.events,
            events_per_s=round(rate or 0.0, 1),
            gap_s=round(gap_s, 3),
            longest_gap_s=_rounded(None if longest is None else max(longest, gap_s)),
            output_tokens=output_tokens,
            cost=cost,
        )

    def _estimate(self, progress: Progress, sample: _Sample) -> tuple[int | None, str | None]:
        """Return the output tokens so far, and the cost with that of earlier attempts."""
        if sample.weighed < min(progress.events, WEIGHED):
            events = progress.written()[sample.weighed : WEIGHED]
            sample.weighed += len(events)
            sample.weight += sum(map(weigh_event, events))
        weight, weighed = sample.weight, sample.weighed
        if 0 < weighed < progress.events:
            weight = weight * progress.events // weighed
        charge = self._settlements.estimate(
            progress.target,
            progress.usage,
            request=progress.info.reserve,
            output_tokens=tokens_of(weight),
        )
        output_tokens = charge.counts.output_tokens if charge.counts else None
        if charge.nano_usd is None or progress.spent_nano_usd is None:
            return output_tokens, None
        return output_tokens, to_usd(charge.nano_usd + progress.spent_nano_usd)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)

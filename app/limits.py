"""How long the relay waits for an upstream. Pure: the time is passed in.

Three clocks run over one generation, next to the connect timeout of the HTTP client:

- until the first event, and between any two events, at most `first_event_timeout_s`:
  comments and pings do not count, a provider that only says "still here" is stuck, nor do
  events without a piece of the answer, such as a verdict on the prompt;
- after the first event, at most `idle_timeout_s` without a single byte;
- `total_timeout_s` over everything.

Once every choice has its finish reason only usage and an end marker can follow, and many
hosts send none: then `FINISHED_WAIT_S` are enough, whatever else comes.
"""

import msgspec

FINISHED_WAIT_S = 5.0


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds."""

    connect_timeout_s: float = 10
    first_event_timeout_s: float = 300
    idle_timeout_s: float = 60
    total_timeout_s: float = 1800


class Limits(Timeouts, frozen=True):
    """Timeouts in seconds and the sizes, in bytes, of what one upstream may send."""

    max_line: int = 16 * 2**20
    max_event: int = 16 * 2**20


class Deadlines:
    """When the wait for one generation is over, and what it was waiting for."""

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        now: float,
        started_at: float | None = None,
        begin_by: float | None = None,
    ) -> None:
        """Start the clocks of one attempt.

        `started_at` is when the first attempt began, `begin_by` when the first event has to
        be there whatever `first_event_timeout_s` allows.
        """
        self._timeouts = timeouts
        self._total = (now if started_at is None else started_at) + timeouts.total_timeout_s
        self._begin_by = begin_by
        self._bytes_at = now
        self._event_at = now
        self._seen_event = False
        self._finished_at: float | None = None

    def on_bytes(self, now: float, *, events: bool, finished: bool) -> bool:
        """Note that bytes came; tell whether the time to wait may have become shorter.

        `events`: a piece of the answer was in them; `finished`: all that can still come is
        the end marker.
        """
        ends_now = finished and self._finished_at is None
        shorter = ends_now or (events and not self._seen_event)
        self._bytes_at = now
        if ends_now:
            self._finished_at = now
        elif not finished:
            self._finished_at = None
        if events:
            self._event_at = now
            self._seen_event = True
        return shorter

    def next(self) -> tuple[float, str]:
        """Give the time at which to give up, and why, should nothing come until then."""
        limits = self._timeouts
        candidates = [
            (self._total, f"did not finish within {limits.total_timeout_s:g} s"),
            (
                self._event_at + limits.first_event_timeout_s,
                f"sent no {'further ' if self._seen_event else ''}event "
                f"for {limits.first_event_timeout_s:g} s",
            ),
        ]
        if self._begin_by is not None and not self._seen_event:
            candidates.append((self._begin_by, "did not begin to answer in the time that was left"))
        if self._seen_event:
            idle_s = limits.idle_timeout_s
            candidates.append((self._bytes_at + idle_s, f"sent nothing for {idle_s:g} s"))
        if self._finished_at is not None:
            when = self._finished_at + FINISHED_WAIT_S
            candidates.append((when, f"did not end within {FINISHED_WAIT_S:g} s of its finish"))
        return min(candidates)

"""Deadlines of the wait for an upstream. Pure: the time is passed in.

Three clocks run over one generation, next to the connect timeout of the HTTP client:

- until the first event at most `first_event_timeout_s`, and between any two later ones at
  most `event_gap_timeout_s`: comments and pings do not count, a provider that only says
  "still here" is stuck, nor do events without a piece of the answer, such as a verdict on
  the prompt;
- after the first event, at most `idle_timeout_s` without a single byte;
- `total_timeout_s` over everything.

Once every choice has its finish reason only usage and an end marker can follow, and many
hosts send none: then `FINISHED_WAIT_S` are enough, whatever else comes.
"""

from typing import NamedTuple

import msgspec

FINISHED_WAIT_S = 5.0

QUIET_S = 1.0
"""A pause of an answer that is shorter is the network's, or the time to read the prompt."""


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds."""

    connect_timeout_s: float = 10
    first_event_timeout_s: float = 300
    fallback_after_s: float = 60
    """Until the first event of a target that another one follows."""
    event_gap_timeout_s: float = 300
    idle_timeout_s: float = 300
    total_timeout_s: float = 1800


class Limits(Timeouts, frozen=True):
    """Timeouts in seconds and the sizes, in bytes, of what one upstream may send."""

    max_line: int = 8 * 2**20
    max_event: int = 8 * 2**20


class Silence(NamedTuple):
    """The time in which an upstream that had taken the request sent nothing to show."""

    seconds: float
    """Of all pauses of `QUIET_S` and longer, the one before the first piece among them."""
    elapsed_s: float
    """Since the call."""


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
        start = now if started_at is None else started_at
        self._total = start + timeouts.total_timeout_s
        self._begin_by = begin_by
        end = self._total if begin_by is None else begin_by
        self._whole = 2 * (end - now) >= end - start
        """Whether at least half of the time is left, which attempts before this one shared."""
        self._bytes_at = now
        self._event_at = now
        self._seen_event = False
        self.longest_gap_s = 0.0
        """Between two pieces of the answer."""
        self._called_at = now
        self.taken = False
        """Whether the upstream has taken the request: the head of its answer has come."""
        self._first_event_at = now
        self._notable_s = 0.0
        """The gaps that are longer are noted: the smaller of `longest_gap_s` and `QUIET_S`."""
        self._silence_s = 0.0
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
            if not self._seen_event:
                self._seen_event = True
                self._first_event_at = now
            elif (gap := now - self._event_at) > self._notable_s:
                self.longest_gap_s = max(gap, self.longest_gap_s)
                self._notable_s = min(self.longest_gap_s, QUIET_S)
                if gap > QUIET_S:
                    self._silence_s += gap
            self._event_at = now
        return shorter

    def silence(self, now: float) -> Silence:
        """Return how long nothing came that could be shown, such as while a model thinks hidden.

        From the call on: a host may send the head of an answer with its first token.
        """
        since = self._called_at
        pauses = [(self._first_event_at if self._seen_event else now) - since]
        if self._seen_event and self._finished_at is None:
            pauses.append(now - self._event_at)
        seconds = self._silence_s + sum(pause for pause in pauses if pause > QUIET_S)
        return Silence(seconds, now - since)

    def silent_s(self, now: float) -> float:
        """Return how long no piece of the answer has come."""
        return max(0.0, now - self._event_at)

    def next(self) -> float:
        """Return the time at which to give up, should nothing come until then."""
        limits = self._timeouts
        when = min(self._total, self._event_at + self._event_wait_s)
        if self._begin_by is not None and not self._seen_event:
            when = min(when, self._begin_by)
        if self._seen_event:
            when = min(when, self._bytes_at + limits.idle_timeout_s)
        if self._finished_at is not None:
            when = min(when, self._finished_at + FINISHED_WAIT_S)
        return when

    @property
    def _event_wait_s(self) -> float:
        """How long the next event may take, whatever else comes."""
        limits = self._timeouts
        return limits.event_gap_timeout_s if self._seen_event else limits.first_event_timeout_s

    @property
    def fair(self) -> bool:
        """Whether the time that has come is one that the upstream could have kept.

        Not so if it answered all the time, for much was asked, or if little time was left.
        """
        when = self.next()
        if when == self._total and self._seen_event:
            return False
        return self._whole or when not in (self._total, self._begin_by)

    def reason(self) -> str:
        """Return what was waited for in vain, once that time has come."""
        limits, when = self._timeouts, self.next()
        if when == self._total:
            return f"did not finish within {limits.total_timeout_s:g} s"
        if self._finished_at is not None and when == self._finished_at + FINISHED_WAIT_S:
            return f"did not end within {FINISHED_WAIT_S:g} s of its finish"
        if when == self._begin_by and not self._seen_event:
            return "did not begin to answer in the time that was left"
        if when == self._event_at + self._event_wait_s:
            further = "further " if self._seen_event else ""
            return f"sent no {further}event for {self._event_wait_s:g} s"
        return f"sent nothing for {limits.idle_timeout_s:g} s"

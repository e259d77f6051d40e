"""Deadlines of the wait for an upstream. Pure: the time is passed in.

Three timeouts apply to one generation, beside the HTTP client's connect timeout:

- at most `first_event_timeout_s` until the first event, and `event_gap_timeout_s` between any two
  later ones: comments and pings do not count, since a provider that only sends those is stuck, nor
  do events without a piece of the answer, such as a verdict on the prompt;
- after the first event, at most `idle_timeout_s` without a single byte;
- `total_timeout_s` over everything.

Once every choice has its finish reason, only usage and an end marker can follow, which many hosts
omit: then `FINISHED_WAIT_S` applies.
"""

from typing import NamedTuple

import msgspec

FINISHED_WAIT_S = 5.0

QUIET_S = 1.0
"""The shortest pause that counts as silence, beyond network delays and prompt processing."""


class Timeouts(msgspec.Struct, frozen=True):
    """Seconds."""

    connect_timeout_s: float = 10
    first_event_timeout_s: float = 300
    fallback_after_s: float = 60
    """The timeout of the first event of a target that another one follows."""
    event_gap_timeout_s: float = 300
    idle_timeout_s: float = 300
    total_timeout_s: float = 1800


class Limits(Timeouts, frozen=True):
    """Timeouts in seconds and the sizes, in bytes, of what one upstream may send."""

    max_line: int = 64 * 2**20
    max_event: int = 64 * 2**20


class Silence(NamedTuple):
    """The time in which an upstream that had received the request sent nothing visible."""

    seconds: float
    """The sum of all pauses of `QUIET_S` and longer, including that before the first piece."""
    elapsed_s: float
    """The time since the request was sent."""


class Deadlines:
    """The deadlines of one generation."""

    def __init__(
        self,
        timeouts: Timeouts,
        *,
        now: float,
        started_at: float | None = None,
        begin_by: float | None = None,
    ) -> None:
        """Start the clocks of one attempt.

        `started_at` is the begin of the first attempt, `begin_by` the latest time of the first
        event, regardless of `first_event_timeout_s`.
        """
        self._timeouts = timeouts
        start = now if started_at is None else started_at
        self._total = start + timeouts.total_timeout_s
        self._begin_by = begin_by
        end = self._total if begin_by is None else begin_by
        self._whole = 2 * (end - now) >= end - start
        """Whether at least half of the time, shared with earlier attempts, is left."""
        self._bytes_at = now
        self._event_at = now
        self._seen_event = False
        self.longest_gap_s = 0.0
        """The longest gap between two pieces of the answer."""
        self.sent_at = now
        """When the request was sent; before, no model can have generated anything."""
        self.taken = False
        """Whether the upstream has accepted the request: the head of its reply arrived."""
        self._first_event_at = now
        self._notable_s = 0.0
        """The minimum length of recorded gaps: the smaller of `longest_gap_s` and `QUIET_S`."""
        self._silence_s = 0.0
        self._finished_at: float | None = None

    def on_bytes(self, now: float, *, events: bool, finished: bool) -> bool:
        """Record the arrival of bytes; return whether the deadline may be earlier now.

        `events`: they contain a piece of the answer; `finished`: only the end marker can follow.
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

    def leave_out(self, seconds: float) -> None:
        """Leave out a time in which nothing was read, since the relay itself had to wait."""
        self._event_at += seconds

    def silence(self, now: float) -> Silence:
        """Return the time without visible output, such as while a model thinks invisibly.

        It counts from the request: a host may send the head of a reply with its first token.
        """
        since = self.sent_at
        pauses = [(self._first_event_at if self._seen_event else now) - since]
        if self._seen_event and self._finished_at is None:
            pauses.append(now - self._event_at)
        seconds = self._silence_s + sum(pause for pause in pauses if pause > QUIET_S)
        return Silence(seconds, now - since)

    def silent_s(self, now: float) -> float:
        """Return the seconds since the last piece of the answer."""
        return max(0.0, now - self._event_at)

    def next(self) -> float:
        """Return the next deadline."""
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
        """The timeout of the next event."""
        limits = self._timeouts
        return limits.event_gap_timeout_s if self._seen_event else limits.first_event_timeout_s

    @property
    def fair(self) -> bool:
        """Whether the upstream could have met the expired deadline.

        False if it was answering all the time, or if little time was left.
        """
        when = self.next()
        if when == self._total and self._seen_event:
            return False
        return self._whole or when not in (self._total, self._begin_by)

    def reason(self) -> str:
        """Return the reason of the expired deadline, as the end of a sentence."""
        limits, when = self._timeouts, self.next()
        if when == self._total:
            return f"did not finish within {limits.total_timeout_s:g} s"
        if self._finished_at is not None and when == self._finished_at + FINISHED_WAIT_S:
            return f"did not end within {FINISHED_WAIT_S:g} s of its finish reason"
        if when == self._begin_by and not self._seen_event:
            return "did not begin to answer in the remaining time"
        if when == self._event_at + self._event_wait_s:
            further = "further " if self._seen_event else ""
            return f"sent no {further}event for {self._event_wait_s:g} s"
        return f"sent nothing for {limits.idle_timeout_s:g} s"

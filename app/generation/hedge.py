"""Hedging: a second attempt at another target while the first one is late.

The first of both to send something visible answers; the other one is cancelled, and costs what its
provider may bill. A failure of one leaves the answer to the other.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Protocol

from ..events import Event, Notice, StreamEnd
from .attempt import Attempt, EventSink, is_visible
from .retry import FINAL


class Racing(Protocol):
    """A run, for the attempts of a race."""

    @property
    def is_placing(self) -> bool:
        """Whether the end is being appended, which nothing may interrupt."""

    def call(
        self, silence_s: float, attempt: Attempt, sink: EventSink
    ) -> Coroutine[None, None, None]:
        """Run an attempt, with a maximum of seconds until its first event."""

    def hedge(self) -> Attempt | None:
        """Prepare the second attempt; None if there may be none."""

    async def tell(self, notice: Notice) -> None:
        """Append a notice for readers."""

    def prefer(self, attempt: Attempt) -> None:
        """Make one of both attempts the current one."""

    def leave(self, end: StreamEnd, events: Sequence[Event]) -> Notice:
        """Report and charge the failure of the current attempt, which the other one outlasts."""

    def report_dropped(self, attempt: Attempt) -> None:
        """Report that an attempt is cancelled, since the current one answers."""

    def charge_dropped(self, attempt: Attempt, events: Sequence[Event]) -> None:
        """Charge an attempt that was cancelled, with its last events."""


class Race:
    """One or two attempts of a run, of which one answers."""

    def __init__(self, run: Racing, first: Attempt, sink: EventSink) -> None:
        """Prepare a race; the `sink` receives the events of the attempt that answers."""
        self._run = run
        self.sink = sink
        self._answered = asyncio.get_running_loop().create_future()
        """Resolves once it is decided that the first attempt answers."""
        self._lanes = [_Lane(self, first)]
        self._winner: _Lane | None = None
        self._dropped: _Lane | None = None

    async def run(self, delay_s: float, silence_s: float) -> None:
        """Run the first attempt, and after a delay a second one, until both are over.

        `silence_s` is the maximum of seconds until the first event of the first one.
        """
        first = self._lanes[0]
        first.task = asyncio.create_task(self._run.call(silence_s, first.attempt, first))
        try:
            waiting = {first.task, self._answered}
            done, _ = await asyncio.wait(
                waiting, timeout=delay_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and (second := self._run.hedge()) is not None:
                lane = _Lane(self, second)
                self._lanes.append(lane)
                silence_s = second.limits.first_event_timeout_s
                lane.task = asyncio.create_task(self._run.call(silence_s, second, lane))
                late = f"{first.attempt.target.name!r} did not answer within {delay_s:.1f} s"
                message = f"{late}; asking {second.target.name!r} too"
                await self._run.tell(Notice("hedge", message))
            await asyncio.wait(self._tasks())
        finally:
            if not self._run.is_placing:
                for task in self._tasks():
                    task.cancel()
            await asyncio.wait(self._tasks())
            self._drop_others()
            await self.settle()
        for task in self._tasks():
            if not task.cancelled():
                task.result()

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [lane.task for lane in self._lanes if lane.task is not None]

    def other(self, lane: "_Lane") -> "_Lane | None":
        """Return the other attempt, if it may still answer."""
        return next((one for one in self._lanes if one is not lane and not one.failed), None)

    def is_lost(self, lane: "_Lane") -> bool:
        """Return whether another attempt answers."""
        return self._winner is not None and self._winner is not lane

    def is_won(self, lane: "_Lane") -> bool:
        """Return whether this attempt answers."""
        return self._winner is lane

    def win(self, lane: "_Lane") -> None:
        """Decide that this attempt answers, or ends the stream."""
        self._winner = lane
        if not self._answered.done():
            self._answered.set_result(None)
        self._run.prefer(lane.attempt)
        self._drop_others()

    def _drop_others(self) -> None:
        """Cancel the attempt that does not answer; without a winner, the second one."""
        lane = self._winner or next((one for one in self._lanes if not one.failed), self._lanes[0])
        other = self.other(lane)
        if other is not None and self._dropped is None:
            self._dropped = other
            self._run.report_dropped(other.attempt)
            if other.task is not None:
                other.task.cancel()

    async def leave(self, lane: "_Lane", end: StreamEnd, events: Sequence[Event]) -> None:
        """Go on with the other attempt after a failure of this one."""
        other = self.other(lane)
        lane.failed = True
        self._run.prefer(lane.attempt)
        notice = self._run.leave(end, events)
        if other is not None:
            self._run.prefer(other.attempt)
        await self._run.tell(notice)

    async def settle(self) -> None:
        """Charge the cancelled attempt, once it is known what it has done."""
        dropped = self._dropped
        if dropped is None or dropped.task is None:
            return
        await asyncio.wait({dropped.task})
        if not dropped.charged:
            dropped.charged = True
            last = dropped.last or dropped.attempt.stop("cancelled")
            self._run.charge_dropped(dropped.attempt, last)


class _Lane:
    """The sink of one attempt of a race."""

    def __init__(self, race: Race, attempt: Attempt) -> None:
        self.attempt = attempt
        self.task: asyncio.Task[None] | None = None
        self.failed = False
        self.charged = False
        self.last: Sequence[Event] = ()
        """Its last events, if it ended at the same time as the other one answered."""
        self._race = race

    def push(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        return self._race.is_won(self) and self._race.sink.push(events)

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        race = self._race
        end = events[-1] if events and isinstance(events[-1], StreamEnd) else None
        if race.is_lost(self):
            self.last = events if end is not None else ()
            return True
        if not race.is_won(self):
            failed = end is not None and end.status == "failed" and end.error is not None
            if any(map(is_visible, events)) or (end is not None and not failed):
                race.win(self)
            elif end is None:
                return False
            elif end.error is not None and race.other(self) and end.error.code not in FINAL:
                await race.leave(self, end, events)
                return True
            else:
                race.win(self)
        if end is not None:
            await race.settle()
        return await race.sink.take(events)

"""Hedging: a second attempt at another target while the first one is late.

The first of both to send something visible answers; the other one is cancelled, and costs what its
provider may bill. A failure of one leaves the answer to the other.
"""

import asyncio
from collections.abc import Sequence

from ...events import Event, Notice, StreamEnd
from ...policies.retry import FINAL
from ..attempts import Attempts
from ..call import Call
from ..reading import is_visible
from .stage import Following, Stage, end_of, refuse


class Race:
    """One or two attempts of a run, of which one answers."""

    def __init__(self, attempts: Attempts, following: Following) -> None:
        """Prepare a race of the due attempt, whose winner's events go to the next stage."""
        self._attempts = attempts
        self._next = following
        self._answered = asyncio.get_running_loop().create_future()
        """Resolves once it is decided that the first attempt answers."""
        self._lanes = [_Lane(self, attempts.call, following)]
        self._winner: _Lane | None = None
        self._dropped: _Lane | None = None

    async def run(self, delay_s: float, silence_s: float) -> None:
        """Run the first attempt, and after a delay a second one, until both are over.

        `silence_s` is the maximum of seconds until the first event of the first one.
        """
        attempts, first = self._attempts, self._lanes[0]
        first.task = asyncio.create_task(attempts.make(first.call, lambda: first, silence_s))
        try:
            waiting = {first.task, self._answered}
            done, _ = await asyncio.wait(
                waiting, timeout=delay_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and (second := attempts.hedge()) is not None:
                lane = _Lane(self, second, self._next)
                self._lanes.append(lane)
                silence_s = second.limits.first_event_timeout_s
                lane.task = asyncio.create_task(attempts.make(second, lambda: lane, silence_s))
                late = f"{first.call.target.name!r} did not answer within {delay_s:.1f} s"
                message = f"{late}; asking {second.target.name!r} too"
                await self._next.tell(Notice("hedge", message))
            await asyncio.wait(self._tasks())
        finally:
            if attempts.life.state != "placing":  # which nothing may interrupt
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
        if self._winner is lane:
            return
        self._winner = lane
        if not self._answered.done():
            self._answered.set_result(None)
        self._attempts.prefer(lane.call)
        self._attempts.life.enter("won")
        self._drop_others()

    def _drop_others(self) -> None:
        """Cancel the attempt that does not answer; without a winner, the second one."""
        lane = self._winner or next((one for one in self._lanes if not one.failed), self._lanes[0])
        other = self.other(lane)
        if other is not None and self._dropped is None:
            self._dropped = other
            self._attempts.drop(other.call)
            if other.task is not None:
                other.task.cancel()

    async def leave(
        self, lane: "_Lane", other: "_Lane", end: StreamEnd, events: Sequence[Event]
    ) -> None:
        """Go on with the other attempt after a failure of this one."""
        lane.failed = True
        self._attempts.prefer(lane.call)
        await self._next.tell(self._attempts.leave(end, events, other.call))

    async def settle(self) -> None:
        """Charge the cancelled attempt, once it is known what it has done."""
        dropped = self._dropped
        if dropped is None or dropped.task is None:
            return
        await asyncio.wait({dropped.task})
        if dropped.call.charge is None:
            last = dropped.last or dropped.call.stop("cancelled")
            end = end_of(last) or StreamEnd("cancelled", "cancelled")
            self._attempts.charges.follow(dropped.call, end, last)


class _Lane(Stage):
    """The stage of one attempt of a race."""

    def __init__(self, race: Race, call: Call, following: Following) -> None:
        super().__init__(following)
        self.push = refuse
        self.call = call
        self.task: asyncio.Task[None] | None = None
        self.failed = False
        self.last: Sequence[Event] = ()
        """Its last events, if it ended at the same time as the other one answered."""
        self._race = race

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        race, end = self._race, end_of(events)
        if race.is_lost(self):
            self.last = events if end is not None else ()
            return True
        if not race.is_won(self) and not any(map(is_visible, events)):
            if end is None:
                return False
            failed = end.status == "failed" and end.error and end.error.code not in FINAL
            if failed and (other := race.other(self)) is not None:
                await race.leave(self, other, end, events)
                return True
        race.win(self)
        if end is not None:
            await race.settle()
        taken = await self._next.take(events)
        self.push = self._next.push  # that of a committed stage
        return taken

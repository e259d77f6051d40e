"""Rescue: another target continues an answer whose upstream died."""

from collections.abc import Sequence

import msgspec

from ...errors import RelayError
from ...events import Event, Notice, StreamEnd, TextDelta
from ...policies.retry import FAULTS
from ..attempts import Attempts
from ..continuation import (
    Seam,
    Unfinished,
    continue_request,
    find_unfinished,
    has_room,
    without_closing,
)
from ..reading import is_visible
from .stage import Following, Stage, end_of


class Rescue(Stage):
    """Replaces the failure of an answer that has begun by an attempt that continues it."""

    seam: Seam | None = None
    """Where the due attempt continues; None if it begins the answer."""
    _failure: RelayError | None = None
    """Why the answer has to be continued."""

    def __init__(self, attempts: Attempts, following: Following) -> None:
        super().__init__(following)
        self._attempts = attempts

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        attempts, end = self._attempts, end_of(events)
        if end is not None and attempts.begun:
            if await self._continue(end, events):
                return True
            if self.seam is not None and not attempts.call.answers:
                events = [*events[:-1], self._sum_up(end)]
        return await self._next.take(events)

    def prepare(self, answer: Unfinished) -> None:
        """Prepare the attempt that continues an answer."""
        attempts = self._attempts
        target, chat = attempts.failover.target, attempts.request.chat
        exact = target.continues(chat)
        rest = continue_request(chat, answer.text, exact=exact)
        attempts.charges.continue_with(rest)
        self.seam = Seam(answer, exact=exact, echoes=target.quirks.echoes)
        attempts.prepare(rest)

    def _sum_up(self, end: StreamEnd) -> StreamEnd:
        """Return the end of an answer that nobody continued.

        The first failure is reported, not the refusal to continue.
        """
        first, last = self._failure, end.error
        if last is None:
            return end
        if first is None or end.status != "failed" or last.code in FAULTS:
            return self._attempts.sum_up(end, RelayError.of(last))
        target = self._attempts.call.target.name
        message = f"{first.message}; {target!r} did not continue it: {last.message}"
        error = type(first)(first.code, message, retry_after_s=first.retry_after_s)
        return msgspec.structs.replace(end, error=error.info())

    async def _continue(self, end: StreamEnd, events: Sequence[Event]) -> bool:
        """Prepare an attempt that continues the answer; False if it ends here."""
        attempts, failed = self._attempts, self._attempts.call
        if attempts.life.stopped or end.error is None or end.error.code not in FAULTS:
            return False
        if self.seam is not None and failed.answers:
            return False
        error, kept, charges = RelayError.of(end.error), without_closing(events), attempts.charges
        answer, chat = find_unfinished([*charges.billing.produced(), *kept]), attempts.request.chat
        if answer is None or not has_room(chat, answer.text):
            return False
        wait_s = attempts.failover.next_part(error)
        if wait_s is None:
            return False
        charges.follow(failed, end, events)
        self._failure = self._failure or error
        reply = failed.reply()
        self.prepare(answer)
        then = f"{attempts.call.target.name!r} continues the answer"
        attempts.report_failed(failed, error, wait_s=wait_s, then=then, reply=reply)
        await self._next.take([*kept, Notice("rescue", f"{error.message}; {then}")])
        return True


class Joined(Stage):
    """Passes on the events of an attempt that continues an answer as a part of that."""

    def __init__(self, seam: Seam, attempts: Attempts, following: Following) -> None:
        super().__init__(following)
        self.push = self._push
        self._seam = seam
        self._attempts = attempts

    def _push(self, events: Sequence[Event]) -> bool:
        """Push text after the seam, which needs only another number of its block."""
        block, number, joined = self._seam.first, self._seam.number, list[Event]()
        if number is None:
            return False
        for event in events:
            if type(event) is not TextDelta or event.block != block:
                return False
            joined.append(TextDelta(number, event.text))
        return self._next.push(joined)

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        attempts, end, before = self._attempts, end_of(events), list[Event]()
        if not attempts.call.answers:
            whole = end is not None and end.status == "completed"
            if whole or any(map(is_visible, events)):
                before = attempts.answer()
            elif end is None:
                return not events
        joined = [joined for event in events for joined in self._seam.join(event)]
        return await self._next.take([*before, *joined])

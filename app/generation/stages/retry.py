"""Retry and fallback: another attempt after a failure before anything visible."""

from collections.abc import Sequence

from ...errors import RelayError
from ...events import Event, Notice, StreamEnd
from ..attempts import Attempts
from .stage import Following, Stage, end_of


class Retry(Stage):
    """Replaces a failure by another attempt, or by one error for those of all attempts."""

    def __init__(
        self,
        attempts: Attempts,
        following: Following,
        *,
        client_retries_s: float,
    ) -> None:
        """Prepare; within so many seconds the client retries by itself what is retryable."""
        super().__init__(following)
        self._attempts = attempts
        self._client_retries_s = client_retries_s

    async def take(self, events: Sequence[Event]) -> bool:
        """See `EventSink`."""
        end = end_of(events)
        if end is not None and end.status == "failed" and end.error and not self._attempts.begun:
            error = RelayError.of(end.error)
            if await self._follow(error, end, events):
                return True
            events = [*events[:-1], self._attempts.sum_up(end, error)]
        return await self._next.take(events)

    async def _follow(self, error: RelayError, end: StreamEnd, events: Sequence[Event]) -> bool:
        """Prepare another attempt; return whether there may be one."""
        attempts, failed = self._attempts, self._attempts.call
        failed.note_wait(error)
        attempts.blame(error)
        if attempts.life.stopped is not None:
            return False
        cut = failed.cut or error.code == "upstream_truncated"
        in_time = attempts.elapsed_s() < self._client_retries_s
        client_retries = in_time and not cut and attempts.readers.now > 0
        wait_s = attempts.failover.next(error, client_retries=client_retries)
        if wait_s is None:
            return False
        attempts.life.enter("retry")
        attempts.charges.follow(failed, end, events)
        reply, target = failed.reply(), attempts.prepare().target
        code = "retry" if target.name == failed.target.name else "fallback"
        what = f"asking {target.name!r} {'again' if code == 'retry' else 'instead'}"
        attempts.report_failed(failed, error, wait_s=wait_s, then=what, reply=reply)
        await self._next.tell(Notice(code, f"{error.message}; {what}"))
        return True

"""The chain of stages of one run, in their order:

    call > reading > [hedge] > [joined] > commit > retry > [rescue] > [plugged] > [check] > run

A stage in brackets is there only if its route has it, and for `hedge` and `joined` only while two
attempts run, or one continues the answer. This is the only place that knows the order. The run
appends to the log.
"""

from collections.abc import Sequence

import msgspec

from ..errors import RelayError
from ..eventlog.stream_info import StreamInfo
from ..events import Event, Status, StreamEnd, StreamStart, StreamTarget, Usage
from ..hooks.window import Window
from ..upstreams.routes import Route
from .attempts import Attempts
from .stages.check import CheckAnswer
from .stages.commit import Commit
from .stages.hedge import Race
from .stages.plugged import STAGES, AnswerStage, StageContext
from .stages.rescue import Joined, Rescue
from .stages.retry import Retry
from .stages.stage import Following, Stage, end_of

_OF_ITS_CALL = (StreamStart, StreamTarget, Usage)
"""Events that are of the call that an answer came from."""


class Chain:
    """The way of one run's answer; its stages are built while the provider works."""

    def __init__(
        self,
        attempts: Attempts,
        log: Following,
        *,
        info: StreamInfo,
        route: Route,
        window: Window | None,
        rescues: bool,
        client_retries_s: float,
    ) -> None:
        """Prepare the stages that a route has, over the `log`."""
        self._attempts = attempts
        self._log = log
        self._window = window
        self._rescues = rescues
        self._info = info
        self._names = route.stages
        self._hedges = route.hedge is not None
        self._client_retries_s = client_retries_s
        self._plugged: list[AnswerStage] = []
        self._rescue: Rescue | None = None
        self._commit: Commit | None = None

    async def attempt(self, silence_s: float) -> None:
        """Make the due attempt, and a second one beside it if it is late."""
        attempts = self._attempts
        attempts.life.enter("continuation" if attempts.begun else "attempt")
        if self._names and await self._recall():
            return
        delay_s = attempts.failover.hedge_delay_s() if self._hedges else None
        if delay_s is None:
            await attempts.make(attempts.call, self._first, silence_s)
        else:
            await Race(attempts, self._first()).run(delay_s, silence_s)

    async def _recall(self) -> bool:
        """Pass on the answer of a stage that needs no call; return whether there is one."""
        self._first()  # while the request is there, which they receive
        for stage in self._plugged if self._attempts.call.number == 1 else ():
            if (answer := await stage.recall()) is not None:
                *events, end = answer
                if not isinstance(end, StreamEnd):
                    raise ValueError(f"{type(stage).__name__} recalls an answer without an end")
                events = [one for one in events if not isinstance(one, _OF_ITS_CALL)]
                end = msgspec.structs.replace(end, usage=None, cost=None)
                # Past the stage itself, which has this answer.
                return await Stage.take(stage, [*self._attempts.recall(), *events, end])
        return False

    def _context(self) -> StageContext:
        info = self._info
        return StageContext(
            stream=info.id,
            owner=info.owner,
            route=info.route,
            request=self._attempts.request.chat,
        )

    def _first(self) -> Following:
        """Return the first stage for the events of the due attempt."""
        commit = self._commit
        if commit is None:
            commit = self._commit = self._build()
        if self._rescue is None or self._rescue.seam is None:
            return commit
        return Joined(self._rescue.seam, self._attempts, commit)

    def _build(self) -> Commit:
        """Build the stages, from the last one to the first."""
        attempts, following = self._attempts, self._log
        if self._window is not None:
            following = CheckAnswer(self._window, following)
        for name in reversed(self._names):
            following = stage = STAGES[name](self._context(), following)
            self._plugged.insert(0, stage)
        if self._rescues:
            following = self._rescue = Rescue(attempts, following)
        following = Retry(attempts, following, client_retries_s=self._client_retries_s)
        return Commit(attempts, following)

    async def stop(self, status: Status, error: RelayError | None) -> bool:
        """End the current call from outside; pass on what it has received, as the stream's end.

        False, with nothing passed on, if there is nothing, or it would have to be checked: it is
        billed then, and not shown.
        """
        last = self.cut_off(status, error)
        return bool(last) and await self._first().take(last)

    def cut_off(self, status: Status, error: RelayError | None) -> Sequence[Event]:
        """End the current call from outside; return what it has received, if it may be shown."""
        last = self._attempts.call.stop(status, error)
        if self._window is None:
            return last
        self._window.original += last
        return ()

    def charge(self, events: Sequence[Event], end: StreamEnd) -> None:
        """Charge the last call, as the stream ends with these events."""
        if self._window is not None:  # which has the provider's
            end, events = end_of(self._window.original) or end, ()
        self._attempts.charges.close(self._attempts.call, end, events)

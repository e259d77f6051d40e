"""The chain of stages of one run, in their order:

    call > reading > [hedge] > [reread or joined] > commit > retry > [rescue]
        > [original] > [plugged] > [check] > run

A stage in brackets is there only if its route has it, and for `hedge`, `joined` and `reread` only
while two attempts run, or one continues the answer, or reads that of a dead relay again;
`original` is there before `plugged` or `check`. This is the only place that knows the order. The
run appends to the log.
"""

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from ..errors import RelayError
from ..eventlog.stream_info import StreamInfo
from ..events import Event, Status, StreamEnd, StreamStart, StreamTarget, Usage
from ..hooks.contract import Hooks
from ..hooks.window import Window
from ..requests import ChatRequest
from ..telemetry.activity import ReaderCounts
from ..upstreams.routes import Route
from .attempts import Attempts
from .charges import Charges
from .continuation import may_be_continued
from .lifecycle import Life
from .parts import Parts
from .settlement import Billing
from .stages.check import CheckAnswer
from .stages.commit import Commit
from .stages.hedge import Race
from .stages.original import Original
from .stages.plugged import STAGES, AnswerStage, StageContext
from .stages.reread import Reread
from .stages.rescue import Joined, Rescue
from .stages.retry import Retry
from .stages.stage import Following, Stage, end_of
from .start_options import StartOptions
from .taken import Taken

_CALL_EVENTS = (StreamStart, StreamTarget, Usage)
"""Events that describe a call; a recalled answer has none."""

Produced = Callable[[], Sequence[Event]]


class Chain:
    """The stages of one run, built once the provider works."""

    def __init__(
        self,
        log: Following,
        info: StreamInfo,
        request: ChatRequest,
        *,
        route: Route,
        parts: Parts,
        options: StartOptions,
        readers: ReaderCounts,
        life: Life,
        taken: Taken | None,
    ) -> None:
        """Prepare the first attempt, and the stages that a route has, over the `log`.

        `taken`: another relay has begun the stream.
        """
        self._log = log
        self._info = info
        self._names = route.stages
        self._hedges = route.hedge is not None and taken is None
        self._rescues = route.rescue and may_be_continued(request)
        self._client_retries_s = options.client_retries_s
        self._plugged: list[AnswerStage] = []
        self._rescue: Rescue | None = None
        self._commit: Commit | None = None
        self._window = window = _window_of(parts.hooks, route.name, info.id)
        original: list[Event] | None = [] if route.stages or window is not None else None
        self._original = original
        """The provider's events, if those in the log may be others."""
        self.produced: Produced = partial(parts.event_log.produced, info.id)
        """Returns the stream's events in the log."""
        billing = Billing(
            settlements=parts.settlements,
            request=info.reserve,
            produced=self.produced if original is None else lambda: original,
        )
        self.attempts = Attempts(
            info,
            request,
            route=route,
            parts=parts,
            options=options,
            readers=readers,
            life=life,
            charges=Charges(billing=billing, ceiling=request.ceiling),
            keeps_request=self._rescues,
            is_changed=original is not None,
            taken=taken,
        )
        self._reread: Reread | None = None
        if taken is not None:
            self._go_on(taken)

    def _go_on(self, taken: Taken) -> None:
        """Prepare the attempt that goes on with a stream of a dead relay."""
        attempts = self.attempts
        attempts.charges.followed += taken.charges
        if taken.part is not None:
            attempts.charges.parts.append(taken.part)
        if taken.answer:
            self._commit = commit = self._build()
            self._reread = Reread(taken.events, attempts, commit)
        elif taken.unfinished is not None:
            attempts.failover.choose_again()
            self._commit = self._build()
            if self._rescue is not None:
                self._rescue.prepare(taken.unfinished)

    async def attempt(self, silence_s: float) -> None:
        """Make the due attempt, and a second one beside it if it is late."""
        attempts = self.attempts
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
        self._first()  # stages receive the request, which is dropped later
        for stage in self._plugged if self.attempts.call.number == 1 else ():
            if (answer := await stage.recall()) is not None:
                *events, end = answer
                if not isinstance(end, StreamEnd):
                    raise ValueError(f"{type(stage).__name__} recalls an answer without an end")
                events = [one for one in events if not isinstance(one, _CALL_EVENTS)]
                end = msgspec.structs.replace(end, usage=None, cost=None)
                # Without the stage's own `take`.
                return await Stage.take(stage, [*self.attempts.recall(), *events, end])
        return False

    def _context(self) -> StageContext:
        info = self._info
        return StageContext(
            stream=info.id,
            owner=info.owner,
            route=info.route,
            request=self.attempts.request.chat,
        )

    def _first(self) -> Following:
        """Return the first stage for the events of the due attempt."""
        commit = self._commit
        if commit is None:
            commit = self._commit = self._build()
        if self._reread is not None and self.attempts.call.reads_again:
            return self._reread
        if self._rescue is None or self._rescue.seam is None:
            return commit
        return Joined(self._rescue.seam, self.attempts, commit)

    def _build(self) -> Commit:
        """Build the stages, from the last one to the first."""
        attempts, following = self.attempts, self._log
        if self._window is not None:
            following = CheckAnswer(self._window, following)
        for name in reversed(self._names):
            following = stage = STAGES[name](self._context(), following)
            self._plugged.insert(0, stage)
        if self._original is not None:
            following = Original(self._original, following)
        if self._rescues:
            following = self._rescue = Rescue(attempts, following)
        following = Retry(attempts, following, client_retries_s=self._client_retries_s)
        return Commit(attempts, following)

    async def stop(self, status: Status, error: RelayError | None) -> bool:
        """End the current call from outside; pass on what it has received, as the stream's end.

        Return False and pass nothing on if nothing was received, or if a stage might have to wait
        with it; then it is only billed.
        """
        last = self.attempts.call.stop(status, error)
        if self._original is None:
            return bool(last) and await self._first().take(last)
        self._original += last
        return False

    def drop(self) -> None:
        """Drop the current call, whose parser may have failed; what has waited is only billed."""
        call = self.attempts.call
        call.drop()
        if self._original is not None:
            self._original += call.reading.rest()

    def charge(self, events: Sequence[Event], end: StreamEnd) -> None:
        """Charge the last call, as the stream ends with these events."""
        if self._original is not None:
            end, events = end_of(self._original) or end, ()
        self.attempts.charges.close(self.attempts.call, end, events)


def _window_of(hooks: Hooks | None, route: str, stream: str) -> Window | None:
    """Return where an answer waits for the hooks of a route; None without any."""
    found = () if hooks is None else hooks.of(route, "answer")
    return Window(found, route=route, stream=stream) if found else None

"""The state machine of one generation: states, inputs and transitions.

    reserved > begun > trying (or racing) > committed (or continuing) > ending > placing > ended

- reserved: the log has the stream without events; no provider has been called.
- begun: the log has the `stream.start`; the first or another attempt is due. Of a stream that
  another relay began, which may have visible output: then the attempt continues it.
- trying: an attempt runs, without visible output so far.
- racing: two attempts run, without visible output so far.
- committed: there is visible output; another attempt can only continue it.
- continuing: there is visible output, and the attempt that continues it has added none so far.
- ending: the `stream.end` is due.
- placing: the `stream.end` is being appended.
- ended: the log has the `stream.end`, or the stream was removed or ended by others.

Rules:

1. States never go backwards, except for a retry: from trying or racing to begun, and never after
   visible output; and for an end that the log refused, which another one follows.
2. A stop counts until the end is being appended; later ones have no effect.
3. A refusal by the log, and a failure of the run itself, end the generation in any state,
   according to the events in the log.
4. A run that is ending for a stop or a refusal may still receive the inputs `started`, and
   `visible` of earlier events.
5. Exactly one end is stored. Only stops and failures can follow it, and have no effect.

An input that a state cannot have is a bug, and raises. No I/O, no clock.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from ..errors import RelayError
from ..events import EndedBy, Status

State = Literal[
    "reserved",
    "begun",
    "trying",
    "racing",
    "committed",
    "continuing",
    "ending",
    "placing",
    "ended",
]

Input = Literal[
    "started",  # the log has the first event of this run
    "attempt",  # the due attempt begins
    "hedge",  # a second attempt begins beside the first
    "won",  # one of both answers, or has outlasted the other
    "continuation",  # an attempt begins that continues the answer
    "retry",  # an attempt failed and another one follows
    "visible",  # the first visible piece of an attempt's answer, or the end of an empty one
    "end",  # the final events are complete, and appended now
    "stop",  # a stop from outside
    "refused",  # the log refused events, or the run itself failed
    "placed",  # the log has the end
    "lost",  # the stream was removed, or ended by others
]

TRANSITIONS: Final[Mapping[State, Mapping[Input, State]]] = {
    "reserved": {
        "started": "begun",
        "stop": "ending",
        "refused": "ending",
        "lost": "ended",
    },
    "begun": {
        "attempt": "trying",
        "continuation": "continuing",
        "stop": "ending",
        "refused": "ending",
    },
    "trying": {
        "hedge": "racing",
        "won": "trying",
        "retry": "begun",
        "visible": "committed",
        "end": "placing",
        "stop": "ending",
        "refused": "ending",
    },
    "racing": {
        "won": "trying",
        "stop": "ending",
        "refused": "ending",
    },
    "committed": {
        "continuation": "continuing",
        "end": "placing",
        "stop": "ending",
        "refused": "ending",
    },
    "continuing": {
        "continuation": "continuing",
        "visible": "committed",
        "end": "placing",
        "stop": "ending",
        "refused": "ending",
    },
    "ending": {
        "started": "ending",
        "won": "ending",
        "visible": "ending",
        "end": "placing",
        "stop": "ending",
        "refused": "ending",
        "placed": "ended",
        "lost": "ended",
    },
    "placing": {
        "stop": "placing",
        "refused": "ending",
        "placed": "ended",
        "lost": "ended",
    },
    "ended": {
        "stop": "ended",
        "refused": "ended",
    },
}


class ImpossibleInput(Exception):
    """A bug: an input that is impossible in the state."""


class Stopped(NamedTuple):
    """The reason for a generation that its provider did not end."""

    status: Status
    error: RelayError | None
    by: EndedBy


class Life:
    """The state of one generation, and what has stopped it."""

    __slots__ = ("state", "stopped")

    def __init__(self) -> None:
        self.state: State = "reserved"
        self.stopped: Stopped | None = None

    def enter(self, what: Input) -> None:
        """Go on to the state that follows an input.

        Raises:
            ImpossibleInput: it is impossible in the state.
        """
        try:
            self.state = TRANSITIONS[self.state][what]
        except KeyError:
            raise ImpossibleInput(f"{what!r} in state {self.state!r}") from None

    def stop(self, stopped: Stopped) -> bool:
        """Stop from outside; return whether that counts."""
        before = self.state
        self.enter("stop")
        if self.state == before:
            return False
        self.stopped = stopped
        return True

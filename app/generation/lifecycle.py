"""The life of one generation: its states, what can happen in each, and the state that follows.

    reserved > begun > trying > committed > ending > ended

- reserved: the log has the stream and no event of it; no provider has been called.
- begun: the log has the `stream.start`; an attempt is due, the first or one after a failure.
- trying: an attempt runs, and nothing visible has come of it.
- committed: something visible has come; no other attempt follows.
- ending: the `stream.end` is due, or on its way into the log.
- ended: the `stream.end` is in its place, or the stream was removed or ended by others.

Rules:

1. A state is never left backwards, but for a retry: from trying to begun, and never once
   something visible has come.
2. A stop counts until the end comes; later ones change nothing.
3. What the log refuses, and a failure of the run itself, end the generation in any state: the
   events that the log has say how. A refused end is followed by another one, from there.
4. A run that is ending for a stop or a refusal may still hear that the log has the start, or of
   visible events that came before.
5. One end only is put in its place. Nothing comes after it but stops and failures, which change
   nothing.

An input that a state cannot have is a bug, and raises. No I/O, no clock.
"""

from collections.abc import Mapping
from typing import Final, Literal

State = Literal["reserved", "begun", "trying", "committed", "ending", "ended"]

Input = Literal[
    "started",  # the log has the `stream.start`
    "attempt",  # the attempt that was due begins
    "retry",  # an attempt failed and another one follows
    "visible",  # a first visible piece of the answer came, or the end of an empty one
    "end",  # the events that end the stream are complete
    "stop",  # somebody stops it
    "refused",  # the log did not take events, or the run itself failed
    "placed",  # the log has the end in its place
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
        "stop": "ending",
        "refused": "ending",
    },
    "trying": {
        "retry": "begun",
        "visible": "committed",
        "end": "ending",
        "stop": "ending",
        "refused": "ending",
    },
    "committed": {
        "end": "ending",
        "stop": "ending",
        "refused": "ending",
    },
    "ending": {
        "started": "ending",
        "visible": "ending",
        "end": "ending",
        "stop": "ending",
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
    """A bug: the run got an input that its state cannot have."""


def after(state: State, what: Input) -> State:
    """Return the state that follows an input.

    Raises:
        ImpossibleInput: the state cannot have it.
    """
    try:
        return TRANSITIONS[state][what]
    except KeyError:
        raise ImpossibleInput(f"{what!r} in state {state!r}") from None

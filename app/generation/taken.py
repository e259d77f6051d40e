"""How a run goes on with a stream of a dead relay. No I/O."""

from collections.abc import Sequence
from typing import NamedTuple

from ..eventlog.stream_ended import Charge
from ..events import Event
from .continuation import Unfinished


class Taken(NamedTuple):
    """A stream that another relay began: the answer is read again, continued, or asked for."""

    events: Sequence[Event]
    """Those in the log."""
    age_s: float
    """Seconds since the stream began."""
    attempts: int
    """The attempts of the dead relay."""
    begun: bool
    """Whether the answer had begun."""
    answer: str = ""
    """The provider's id of an answer that it stores, which is read again; else empty."""
    first: int = 0
    """The number of events before that answer."""
    unfinished: Unfinished | None = None
    """The answer that another attempt continues."""
    charges: Sequence[Charge] = ()
    """What the dead relay's calls have cost that others follow, by estimates."""
    part: Charge | None = None
    """That of the call whose text is a part of the answer."""

"""Cursors: numbers of events, and reading a stream by them."""

from collections.abc import Iterable, Sequence

from ..events import Event, StreamEnd
from .contract import Events

STRIDE = 10**8
"""More events than a stream can have, and more frames than they make in any dialect."""


class Ending(list[Event]):
    """Events by which another process has ended a stream for a producer that was lost.

    Readers of that producer may have seen more events than were kept, and those have numbers.
    So that no number means two things, the end of a stream of which n were kept begins with
    the number (n + 1) * STRIDE + n + 1 and counts from there.
    """

    def __init__(self, events: Iterable[Event], *, after: int) -> None:
        super().__init__(events)
        self.after = after
        """The number before that of the first event."""


def before_ending(kept: int) -> int:
    """Return the number before that of the first event of an `Ending`, if so many were kept."""
    return (kept + 1) * STRIDE + kept


def cursor_after(after: int, events: Sequence[Event]) -> int:
    """Return the cursor of a reader that has read these events after a cursor."""
    return (events.after if isinstance(events, Ending) else after) + len(events)


async def read_all(
    event_log: Events,
    stream: str,
    *,
    ending: bool = True,
    first: Sequence[Event] = (),
    last: int | None = None,
) -> list[Event]:
    """Return all events so far, without waiting.

    With `ending` false a last page that is an `Ending` is left out. `first` is a page that was
    read already. Reading stops at the event number `last`, where it is given, or at the end.
    """
    events: list[Event] = []
    after = 0
    while last is None or after < last:
        page = first or await event_log.read(stream, after, timeout_s=0)
        first = ()
        if not page:
            break
        if isinstance(page, Ending) and not ending:
            break
        events += page
        after = cursor_after(after, page)
        if isinstance(page[-1], StreamEnd):
            break
    return events

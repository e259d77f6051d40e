"""Cursors: numbers of events, and reading a stream by them."""

from collections.abc import Iterable, Sequence

from ..events import Event, StreamEnd
from .contract import Events

STRIDE = 10**8
"""More events than a stream can have, and more frames than they make in any dialect."""


class Ending(list[Event]):
    """The events by which another process ended an orphaned stream.

    Readers of the dead producer may have seen events that were not stored. So that no number
    names two events, the ending of a stream with n stored events begins at the number
    (n + 1) * STRIDE + n + 1.
    """

    def __init__(self, events: Iterable[Event], *, after: int) -> None:
        super().__init__(events)
        self.after = after
        """The number before that of the first event."""


def before_ending(kept: int) -> int:
    """Return the number before the first event of an `Ending`, after so many stored events."""
    return (kept + 1) * STRIDE + kept


def cursor_after(after: int, events: Sequence[Event]) -> int:
    """Return the cursor after reading these events from a cursor."""
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

    Without `ending` an `Ending` is left out. `first` is a page that was already read. Reading
    stops at event number `last`, if given.
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

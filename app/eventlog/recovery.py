"""How a stream ends whose producer is gone: from its events alone. No I/O."""

from collections.abc import Iterable

from ..dialects.reading.open_blocks import OpenBlocks
from ..errors import CODES
from ..events import EndedBy, ErrorInfo, Event, Status, StreamEnd

LOST = ErrorInfo(
    "producer_lost",
    "the relay stopped before the answer was complete",
    CODES["producer_lost"].retryable,
)
"""Why a stream is ended for its producer."""


def closing_events(
    events: Iterable[Event],
    *,
    status: Status,
    error: ErrorInfo | None,
    ended_by: EndedBy = "relay_lost",
) -> list[Event]:
    """Return what has to follow the events, all there are of a stream, to end it well.

    That is the end of every open block, and the `stream.end`; nothing when it is there.
    """
    blocks = OpenBlocks()
    for event in events:
        if isinstance(event, StreamEnd):
            return []
        blocks.note(event)
    finish_reason = blocks.finish_reason or ("cancelled" if status == "cancelled" else "error")
    end = StreamEnd(status, finish_reason, blocks.usage, error, ended_by=ended_by)
    return [*blocks.ends(), end]

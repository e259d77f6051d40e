"""Streams that tests open in a log."""

from typing import Any

from app.eventlog import Claim, EventLog
from app.eventlog.stream_info import StreamInfo, scoped


async def create(
    event_log: EventLog, stream: str, *, over: str | None = None, **fields: Any
) -> Claim:
    """Open a stream with the info of these fields."""
    return await event_log.create(StreamInfo(stream, **fields), over=over)


async def found(event_log: EventLog, name: str, *, owner: str = "") -> str | None:
    """Return the stream that has a name."""
    look = await event_log.find(scoped(owner, name))
    return None if look is None else look.stream

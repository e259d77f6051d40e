"""Streams that tests open in a log."""

from typing import Any

from app.eventlog import Claim, EventLog
from app.eventlog.stream_info import StreamInfo, scoped


async def create(
    event_log: EventLog, stream: str, *, over: str | None = None, **fields: Any
) -> Claim:
    """Open a stream with the info of these fields."""
    return await event_log.create(StreamInfo(stream, **fields), over=over)


def take_callbacks(arguments: dict[str, Any]) -> dict[str, Any]:
    """Remove the arguments of `EventLog.open` from those of a log, and return them."""
    names = {"on_ended", "close", "on_stop"} & arguments.keys()
    return {name: arguments.pop(name) for name in names}


async def found(event_log: EventLog, name: str, *, owner: str = "") -> str | None:
    """Return the stream that has a name."""
    look = await event_log.find(scoped(owner, name))
    return None if look is None else look.stream

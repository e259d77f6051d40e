"""The append-only log of each stream; see `contract`."""

from .contract import (
    STRIDE,
    Claim,
    Ending,
    EventLog,
    Follower,
    LogParts,
    LogState,
    LogUnusable,
    Look,
    StreamExpired,
    StreamTooLong,
    cursor_after,
    read_all,
)

__all__ = [
    "STRIDE",
    "Claim",
    "Ending",
    "EventLog",
    "Follower",
    "LogParts",
    "LogState",
    "LogUnusable",
    "Look",
    "StreamExpired",
    "StreamTooLong",
    "cursor_after",
    "read_all",
]

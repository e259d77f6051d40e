"""The append-only log of each stream; `contract` says what a log does."""

from .contract import (
    PAGE,
    STRIDE,
    Claim,
    Ending,
    EventLog,
    Events,
    Follower,
    LogState,
    LogUnusable,
    Look,
    NamesAndKeys,
    Peers,
    StreamExpired,
    before_ending,
    cursor_after,
    read_all,
)

__all__ = [
    "PAGE",
    "STRIDE",
    "Claim",
    "Ending",
    "EventLog",
    "Events",
    "Follower",
    "LogState",
    "LogUnusable",
    "Look",
    "NamesAndKeys",
    "Peers",
    "StreamExpired",
    "before_ending",
    "cursor_after",
    "read_all",
]

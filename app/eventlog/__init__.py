"""The append-only log of each stream; `contract` is its protocol."""

from .contract import EventLog, Follower, LogParts
from .cursors import STRIDE, Ending, cursor_after, read_all
from .errors import LogUnusable, StreamExpired, StreamTooLong
from .values import Claim, LogState, Look

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

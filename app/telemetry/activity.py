"""The current activity of a process: its load, and the progress of each running stream.

The hub makes these values on request. Nothing is stored.
"""

import msgspec

from ..eventlog.stream_info import StreamInfo
from ..policies.retry import State


class Load(msgspec.Struct, frozen=True):
    """The current load of one process."""

    streams: int
    """Running generations."""
    readers: int
    draining: bool
    log_healthy: bool
    log_streams: int
    """Streams in the memory of the log, running and ended."""
    log_bytes: int
    """Their estimated memory."""
    request_bytes: int
    """The estimated memory of requests being received or in progress."""
    breakers: list[tuple[str, State]]
    """The configured targets."""


class ReaderCounts(msgspec.Struct):
    """The numbers of readers of a stream in the process that produces it, kept current."""

    readers: int = 0
    resumes: int = 0
    """Readers that came with a cursor."""
    now: int = 0
    """Current readers."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of one running stream."""

    info: StreamInfo
    target: str
    """`upstream/model` of the current or next attempt."""
    attempt: int
    first_event_s: float | None
    events: int
    silent_s: float
    """Since the last piece of the answer, or since the attempt began."""
    longest_gap_s: float | None

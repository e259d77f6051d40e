"""How much a process does now: what the hub tells whoever measures it. Numbers alone."""

import msgspec

from ..generation.retry import State


class Load(msgspec.Struct, frozen=True):
    """What one process has in hand."""

    streams: int
    """Generations that run here."""
    calls: int
    """Calls that make no stream, such as embeddings."""
    readers: int
    draining: bool
    log_healthy: bool
    log_streams: int
    """Streams in the memory of the log, running and ended."""
    log_bytes: int
    """The memory that they take, estimated."""
    request_bytes: int
    """What requests take that are received or kept."""
    breakers: list[tuple[str, State]]
    """The targets that the settings name."""

"""How far a stream is that runs: what the hub tells whoever looks. Nothing is kept of it."""

from collections.abc import Callable, Sequence

import msgspec

from ..eventlog.stream_info import StreamInfo
from ..events import Event, TokenCounts


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """One stream, at the moment in which it was looked at."""

    info: StreamInfo
    target: str
    """`upstream/model` of the attempt that runs, or is waited for."""
    attempt: int
    age_s: float
    first_event_s: float | None
    events: int
    silent_s: float
    """Since a piece of the answer has come, or since the attempt was begun."""
    longest_gap_s: float | None
    told: TokenCounts | None
    """What the provider has counted so far."""
    spent_nano_usd: int | None
    """What attempts have cost that this one has followed; None: a price is unknown."""
    written: Callable[[], Sequence[Event]]
    """All events so far."""

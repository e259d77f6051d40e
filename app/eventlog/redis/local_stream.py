"""A stream that runs in this process, and how much of it Redis has. No I/O."""

import asyncio
from collections import deque
from collections.abc import Sequence

from ...errors import RelayError
from ...events import Event, encode
from ...ledger.accounts import NOTHING, Grant
from ..entries import Entry
from .accounts import pack_settlement
from .scripts import log_key, meta_key

EVENTS_AT_ONCE = 1000
"""The limit of events of one stream in one script."""

ENCODED_AT_ONCE = 50
"""How many events are encoded before their bytes are counted."""


class Batch:
    """Events that no reader has seen."""

    __slots__ = ("at", "done", "events", "last", "memory")

    def __init__(
        self,
        events: Sequence[Event],
        *,
        last: int,
        memory: int,
        at: float,
        done: "asyncio.Future[None] | None" = None,
    ) -> None:
        self.events = events
        self.last = last
        self.memory = memory
        self.at = at
        self.done = done


class LocalStream:
    """A stream that runs in this process, until Redis has its end."""

    __slots__ = (
        "acked",
        "batches",
        "ended_at",
        "entry",
        "epoch",
        "grant",
        "is_strict",
        "keys",
        "own_keys",
        "placed",
        "server",
        "settlement",
        "started",
        "stream",
        "taken",
    )

    def __init__(self, stream: str, entry: Entry) -> None:
        self.stream = stream
        self.own_keys = (meta_key(stream), log_key(stream))
        self.entry = entry
        self.is_strict = bool(entry.info.takeover)
        """Whether readers see nothing that Redis lacks: another process may go on with it."""
        self.epoch = 1
        """How many processes have produced it."""
        self.server = b""
        """The Redis that has all events that readers have seen, if it is strict."""
        self.started = False
        """Whether Redis has had an event of it. Until then no event is shown and no provider is
        called, so that a stream without events in Redis can be removed free of charge."""
        self.batches: deque[Batch] = deque()
        self.taken = 0
        """The numbers of the last event appended and of the last that Redis has."""
        self.acked = 0
        self.grant: Grant | None = None
        """Its reservation."""
        self.ended_at: float | None = None
        """When the `stream.end` was appended."""
        self.settlement = NOTHING
        """Its settlement, once it has ended."""
        self.placed: asyncio.Future[None] = asyncio.Future()
        """Done once Redis has the end: see `Placed`."""
        self.keys: dict[str, str] = {}
        """The keys of Redis that lead to the stream, with their values."""

    def settle(self, error: RelayError | None = None) -> None:
        """Wake waiting producers: Redis has all events, or with an error, will have none more."""
        waits = [batch.done for batch in self.batches if batch.done is not None]
        self.batches.clear()
        for done in waits:
            if done.done():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
                done.exception()
        if error is not None:
            self.placed.cancel()
        elif not self.placed.done():
            self.placed.set_result(None)

    def events(self) -> list[Event]:
        """Return all appended events, with those that no reader has seen."""
        return [*self.entry.events, *(event for batch in self.batches for event in batch.events)]

    def ending(self, sent: int, queues: bytes) -> bytes:
        """Pack end time and settlement, if sending so many events reaches the `stream.end`."""
        if self.ended_at is None or self.acked + sent != self.taken:
            return b""
        spent = pack_settlement(self.settlement, queues)
        return b"%s %s" % (repr(self.ended_at).encode(), spent)

    def unsent(self, most: int) -> list[bytes]:
        """Encode the next events that Redis lacks, about `most` bytes."""
        shown, acked = self.entry.events, self.acked
        events = shown[acked : acked + EVENTS_AT_ONCE]
        skipped = max(acked - len(shown), 0)
        for batch in self.batches:
            events += batch.events[skipped:]
            skipped = max(skipped - len(batch.events), 0)
            if len(events) >= EVENTS_AT_ONCE:
                break
        written: list[bytes] = []
        for at in range(0, min(len(events), EVENTS_AT_ONCE), ENCODED_AT_ONCE):
            some = [*map(encode, events[at : at + ENCODED_AT_ONCE])]
            written += some
            most -= sum(map(len, some))
            if most <= 0:
                break
        return written

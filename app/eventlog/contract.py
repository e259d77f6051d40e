"""The append-only log of each stream, read by cursor.

A cursor is the number of the last event its reader has seen, 0 at the start. Live reading
and reading again are the same call. A log never changes behind a cursor: events are only
added, and nothing is added after a `stream.end`. Events are numbered from 1, without a gap but
for the one before an `Ending`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from ..events import Event
from ..ledger.accounts import Settlement
from .accounts import Accounts
from .broadcast import Broadcast
from .peers import NoPeers, Peers
from .recovery import Close, OnEnded
from .stream_info import Scoped, StreamInfo
from .values import Claim, LogSize, LogState, Look
from .waiting_rows import WaitingRows

Follower = Callable[[Sequence[Event]], None]
"""Is told of what is appended, batch by batch, at once: it must neither wait nor raise.

Nothing means that the stream has been removed."""

Placed = asyncio.Future[None] | None
"""None: the `stream.end` is in its place, after SQLite's commit, or in Redis. Else a future, done
once it is there, and cancelled if the stream was ended or removed otherwise."""

PAGE = 1000
"""How many events `read` gives at once, unless told otherwise."""


class Events(Protocol):
    """The events of each stream, and what it was started with."""

    async def info(self, stream: str) -> StreamInfo:
        """Return what the stream was created with."""

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        """Do what `append` does, within the call, if nothing has to be waited for.

        False, and nothing is added, where something has, or where `append` would raise.
        """

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        """Add events at the end and wake the readers.

        All are added or, when this raises, none. A call that is cancelled adds them all
        the same, before those of any later call.

        Events that end in a `stream.end` may come with what the stream has cost: in the step
        that puts the end in its place this takes the place of what is held for the stream, once
        for each stream, and its `row` is kept until `forget_rows`. Without it what is held is
        let go. What is returned tells when that is; of any other events it is None.

        Raises:
            ServiceError: `overloaded`, the stream is as long as a stream may be; events
                that end in a `stream.end` are taken even then.
            ServiceError: `internal`, the place of the log took none; if they end in a
                `stream.end`, the log may have ended the stream as interrupted instead.
            ValueError: the stream has ended.
        """

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        """Return the events after the cursor, at most `limit` of them.

        Waits up to `timeout_s` seconds for the first one. Empty when none came, and at once
        when the stream has ended and the cursor is at its end. The events of an `Ending` are
        given as one, and never together with those before it.

        Raises:
            RequestError: `conflict`, the cursor names an event that was lost.
        """

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        """Tell a follower of all events after the cursor, as they are appended.

        False, and nothing is told, unless the cursor is at the end of a stream that goes on
        in this process: whoever is behind, or elsewhere, reads.
        """

    def unfollow(self, stream: str, follower: Follower) -> None:
        """Tell a follower no more. Unknown followers are ignored."""

    async def state(self, stream: str) -> LogState:
        """Return how far the log goes."""

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        """Return how far the log goes, with at most so many events after the cursor.

        One round trip where the log is elsewhere. A cursor that names no event has none after it.

        With an `owner`, another's stream is answered as one that never was, and by the same
        work, so that nobody can tell by the time it takes: where those that are not in memory
        are looked for elsewhere so is this one, and none of its events are read.
        """

    def produced(self, stream: str) -> Sequence[Event]:
        """Return all events that were appended to a stream which is produced here.

        Those too that readers are not shown yet. None of a stream that is not produced here.
        """

    async def delete(self, stream: str) -> None:
        """Forget the stream and the keys that are bound to it.

        What is held for one that runs is settled, as for one whose producer is lost.
        """

    def on_ended(self, ended: OnEnded) -> None:
        """Call this for every stream that this process ends for a producer that was lost.

        Once for each, over all processes that share the log, when the log is opened too: register
        it before that. A stream without an event did not begin, and is left out. One that is
        removed while it runs is ended by that.
        """

    def close_by(self, close: Close) -> None:
        """Have this say what streams have cost that the log ends for lost producers.

        To be called before the log is opened.
        """


class Names(Protocol):
    """Creating streams, and finding them by an idempotency key or a name."""

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        """Open an empty log, and bind an idempotency key to its stream; give that claim.

        A key that is bound to a stream which is kept stays so, unless that is `over`, which has
        ended: its claim is given, and no log is opened. Of many calls with one key, at once or
        not, one opens a log.

        A stream with a key is found again by it as soon as `append` has added its first event,
        however its process ends. Until then it may be removed for a process that is lost, or
        that the log cannot hear: `append` then raises, and the key is free.

        The info counts among the bytes of the log and goes with the stream.

        What the info wants reserved is reserved in the same step, and is held until the stream
        has its end, is removed, or is found never to have begun.

        Raises:
            LimitReached: there is not enough left to reserve; nothing was opened or bound.
            ServiceError: `overloaded`, all room is taken by streams that still run, or the
                place of the log cannot be reached. The key can be used again.
        """

    async def claimed(self, key: Scoped) -> Claim | None:
        """Return what a key is bound to; None if to nothing that is kept."""

    async def name(self, name: Scoped, stream: str) -> None:
        """Let a stream be found by a name, whatever other stream had it before.

        It has the name as long as it is kept.
        """

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        """Look at the stream that has a name; None where none that is kept has it."""


class EventLog(Events, Names, Protocol):
    """The events and names of streams: all that a log must have.

    Every call that names a stream raises `RequestError`: `not_found` where there never was
    such a stream, `stream_expired` where it has been removed. Every call may raise
    `ServiceError`: `internal` where the events are kept elsewhere and that place fails.
    """

    async def open(self) -> None:
        """Make ready; nothing but `on_ended` may be called before.

        Raises:
            LogUnusable: the place of the log cannot be used.
        """

    async def close(self) -> None:
        """Write what waits and let go; nothing else may be called afterwards."""

    def healthy(self) -> bool:
        """Return whether events can be kept: False from a failed write to the next that is done.

        A full log is not a failing one: it refuses streams, and serves those that it has.
        Where nothing is written by others, the log tries it every minute at least.
        """

    def size(self) -> LogSize:
        """Return how much of the log is in the memory of this process."""


class LogParts(NamedTuple):
    """A log with the protocols beside it, each implemented by the log or by a default.

    A log without transactions of its own has the accounts and rows of a `MemoryAccounts`, which
    its `create` and `append` call. One that processes cannot share has no peers and nobody to
    broadcast to.
    """

    log: EventLog
    accounts: Accounts
    rows: WaitingRows
    peers: Peers = NoPeers()
    broadcast: Broadcast | None = None

    def with_log(self, log: EventLog) -> "LogParts":
        """Return the parts with another log in each place that this one has."""
        return LogParts._make(log if part is self.log else part for part in self)

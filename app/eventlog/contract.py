"""The append-only log of each stream, read by cursor.

A cursor is the number of the last event its reader has seen, 0 at the start. Live reading
and reading again are the same call. A log never changes behind a cursor: events are only
added, and nothing is added after a `stream.end`. Events are numbered from 1, without a gap but
for the one before an `Ending`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from ..errors import RequestError, ServiceError
from ..events import Event, Stopper, StreamEnd
from ..ledger.accounts import AccountState, Grant, Settlement
from .lost import Close, OnEnded
from .record import Scoped, StreamRecord

Follower = Callable[[Sequence[Event]], None]
"""Is told of what is appended, batch by batch, at once: it must neither wait nor raise.

Nothing means that the stream has been removed."""

Placed = asyncio.Future[None] | None
"""None: the `stream.end` is in its place, after SQLite's commit, or in Redis. Else a future, done
once it is there, and cancelled if the stream was ended or removed otherwise."""

OnStop = Callable[[str, Stopper], None]
"""Is told of a stream that is to stop, and who has asked for it."""

PAGE = 1000
"""How many events `read` gives at once, unless told otherwise."""


MAX_POSTS = 500
MAX_POST_BYTES = 512 * 1024
MAX_POSTS_BYTES = 64 * 2**20
"""How much is read of a place at once."""

STRIDE = 10**8
"""More events than a stream can have, and more frames than they make in any dialect."""


class Ending(list[Event]):
    """Events by which another process has ended a stream for a producer that was lost.

    Readers of that producer may have seen more events than were kept, and those have numbers.
    So that no number means two things, the end of a stream of which n were kept begins with
    the number (n + 1) * STRIDE + n + 1 and counts from there.
    """

    def __init__(self, events: Iterable[Event], *, after: int) -> None:
        super().__init__(events)
        self.after = after
        """The number before that of the first event."""


def before_ending(kept: int) -> int:
    """Return the number before that of the first event of an `Ending`, if so many were kept."""
    return (kept + 1) * STRIDE + kept


def cursor_after(after: int, events: Sequence[Event]) -> int:
    """Return the cursor of a reader that has read these events after a cursor."""
    return (events.after if isinstance(events, Ending) else after) + len(events)


class LogUnusable(Exception):
    """The place of the log cannot be used; the text is one line that says what to do."""


class LogSize(NamedTuple):
    """What a log keeps in memory."""

    streams: int
    bytes: int
    """Estimated."""


class StreamExpired(RequestError):
    """The stream was there, and has been removed."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__("stream_expired", message)
        self.owner = owner
        """Whose it was, as far as that is remembered."""


class StreamTooLong(ServiceError):
    """The stream has as much as the log takes of one; its end can still be appended."""

    def __init__(self, limit: str) -> None:
        super().__init__("overloaded", f"the answer is longer than the limit of {limit}")


class LogState(NamedTuple):
    last: int
    """The number of the last event; 0 for an empty log."""
    ended: bool
    """Whether the last event is the `stream.end`."""
    started_at: float = 0.0
    """When the log was created, in unix seconds."""
    ended_at: float | None = None
    """When the `stream.end` was added, in unix seconds."""
    kept: int | None = None
    """The producer's last event, where the stream has an `Ending`: more may have been seen."""
    settled: bool = True
    """Whether there are no later events that are known elsewhere and on their way here."""
    owner: str = ""
    """Whose the stream is; "" without identity."""


class Look(NamedTuple):
    """What a log has of a stream, found in one look."""

    stream: str
    state: LogState
    events: Sequence[Event] = ()
    """Some of those after the cursor, as `read` gives them; none say nothing of whether there
    are any: those that are in memory are read there."""


class Claim(NamedTuple):
    """What an idempotency key stands for."""

    stream: str
    digest: str
    """Of the body that the stream was asked for with."""
    grant: Grant | None = None
    """What was reserved for the stream that this call has opened; None of any other."""


class Events(Protocol):
    """The events of each stream, and what it was started with."""

    async def record(self, stream: str) -> StreamRecord:
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


class Books(Protocol):
    """What streams have cost, in accounts, and the rows that the records do not have yet.

    `NamesAndKeys.create` reserves and `Events.append` settles; see `app.ledger.accounts`.
    """

    def close_by(self, close: Close) -> None:
        """Have this say what streams have cost that the log ends for lost producers.

        To be called before the log is opened.
        """

    async def accounts(self, names: Sequence[str]) -> list[AccountState]:
        """Return the numbers of accounts, each by its name; those of an unknown one are 0.

        Periods may be past ones: see `AccountState.turn`.
        """

    async def rows(self, *, limit: int) -> list[tuple[str, bytes]]:
        """Return some streams that have ended, the oldest first, each with its row.

        They are given again, to any process that shares the log, until `forget_rows`.
        """

    async def forget_rows(self, streams: Sequence[str]) -> None:
        """Forget the rows of streams: the records have them. Unknown ones are ignored."""

    async def count_rows(self) -> int:
        """Return how many rows wait, of all processes that share the log."""


class NamesAndKeys(Protocol):
    """What streams are found by, and how one is created with a key that no other stream has."""

    async def create(self, record: StreamRecord, *, over: str | None = None) -> Claim:
        """Open an empty log, and bind an idempotency key to its stream; give that claim.

        A key that is bound to a stream which is kept stays so, unless that is `over`, which has
        ended: its claim is given, and no log is opened. Of many calls with one key, at once or
        not, one opens a log.

        A stream with a key is found again by it as soon as `append` has added its first event,
        however its process ends. Until then it may be removed for a process that is lost, or
        that the log cannot hear: `append` then raises, and the key is free.

        The record counts among the bytes of the log and goes with the stream.

        What the record wants reserved is reserved in the same step, and is held until the stream
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


class Peers(Protocol):
    """What processes that share a log tell each other by it; see `NoPeers` for one alone."""

    def on_stop(self, stop: OnStop) -> None:
        """Have this told of every stream that is to be produced here no more, and by whom.

        Somebody asked for its end in another process, or has ended or removed it there.
        """

    async def ask_stop(self, stream: str, by: Stopper = "user") -> None:
        """Have a running stream stopped by the process that produces it, which takes a moment."""

    def readers_here(self, stream: str) -> None:
        """Say that a stream of another process has readers here, until `readers_gone`."""

    def readers_gone(self, stream: str) -> None:
        """Say that a stream of another process has no readers here any more."""

    async def reader_lease_s(self, stream: str) -> float:
        """Return for how many seconds yet a stream is sure to have readers in other processes.

        Below zero: for how long it has had none.
        """

    def release_remote_readers(self) -> None:
        """Let no reader here wait any longer for streams of other processes: this one stops."""


Place = Literal["orders", "boards"]


class Posts(Protocol):
    """What processes that share a log show each other for a while: each post under a name.

    In a place there are at most `MAX_POSTS`, and each has at most `MAX_POST_BYTES`. They say
    nothing of streams, and are not kept when the place of the log is lost.
    """

    def has_peers(self) -> bool:
        """Return whether there may be other processes that share the log."""

    async def post(self, place: Place, name: str, text: bytes, *, for_s: float) -> None:
        """Leave a post for so many seconds, in the place of one of its name; 0 removes that.

        Raises:
            ServiceError: `overloaded`, there are too many, or it is too long.
        """

    async def posts(self, place: Place) -> dict[str, bytes]:
        """Return the posts of a place by their names, some of them if they are very long."""


class EventLog(Events, NamesAndKeys, Books, Peers, Posts, Protocol):
    """Where streams are kept.

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


async def read_all(
    event_log: EventLog,
    stream: str,
    *,
    ending: bool = True,
    first: Sequence[Event] = (),
    last: int | None = None,
) -> list[Event]:
    """Return all events so far, without waiting.

    With `ending` false a last page that is an `Ending` is left out. `first` is a page that was
    read already. Reading stops at the event number `last`, where it is given, or at the end.
    """
    events: list[Event] = []
    after = 0
    while last is None or after < last:
        page = first or await event_log.read(stream, after, timeout_s=0)
        first = ()
        if not page:
            break
        if isinstance(page, Ending) and not ending:
            break
        events += page
        after = cursor_after(after, page)
        if isinstance(page[-1], StreamEnd):
            break
    return events

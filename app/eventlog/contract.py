"""The append-only log of each stream, read by cursor: its protocol, its values and its errors.

A cursor is the number of the last event that a reader has seen, 0 at the start. Events are
numbered from 1 without a gap, except before an `Ending`. Nothing follows a `stream.end`, and
nothing behind a cursor changes. Live reading and replay are the same call.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from ..errors import RequestError, ServiceError
from ..events import Event, StreamEnd
from ..ledger.accounts import Grant, Settlement
from .accounts import Accounts
from .listing import ListedStream, ListPosition
from .peers import Broadcast, NoPeers, OnStop, Peers, ignore_stop
from .recovery import Close, OnEnded, close_free, ignore_ended
from .stream_info import Scoped, StreamInfo
from .takeover import Takeover
from .waiting_rows import RowQueues


class LogUnusable(Exception):
    """The log's storage cannot be used; the message is one line with the remedy."""


class StreamExpired(RequestError):
    """The stream existed and has been removed."""

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__("stream_expired", message)
        self.owner = owner
        """Its owner, if still known."""


class ChatBusy(RequestError):
    """Another stream of the chat runs, and the new one is to run alone."""

    def __init__(self, stream: str) -> None:
        super().__init__(
            "conflict",
            f"chat: its stream {stream} is running; read it, stop it, or send overlap 'replace'",
        )
        self.stream: str = stream


class StreamTooLong(ServiceError):
    """The stream has reached its maximum length; its end can still be appended."""

    def __init__(self, limit: str) -> None:
        super().__init__("overloaded", f"the answer is longer than the limit of {limit}")


def full() -> ServiceError:
    """Return the error for a new stream when running ones take all the room."""
    return ServiceError(
        "overloaded",
        "the event log is full of running streams; try again shortly",
        retry_after_s=5,
    )


def unknown(stream: str) -> RequestError:
    """Return the error for an unknown stream."""
    # Longer than any id: a client may have put the URL's query in it, with a token.
    return RequestError("not_found", f"there is no stream {stream[:40]!r}")


def expired(stream: str, retention_s: float, *, owner: str) -> StreamExpired:
    """Return the error for a removed stream."""
    return StreamExpired(
        f"stream {stream} is gone: it was deleted, or made room, or its {retention_s:g} s are over",
        owner=owner,
    )


class LogSize(NamedTuple):
    """The memory that a log takes."""

    streams: int
    bytes: int
    """Estimated."""


class LogState(msgspec.Struct, frozen=True):
    """The length of a log, its times and its owner."""

    last: int
    """The number of the last event; 0 for an empty log."""
    ended: bool
    """Whether the last event is the `stream.end`."""
    started_at: float = 0.0
    """When the log was created, in unix seconds."""
    ended_at: float | None = None
    """When the `stream.end` was added, in unix seconds."""
    kept: int | None = None
    """The last stored event of the producer if the stream has an `Ending`, else None."""
    settled: bool = True
    """False while the producer may still send events that the storage has lost."""
    owner: str = ""
    """The owner of the stream; "" if authentication is off."""


class Look(msgspec.Struct, frozen=True):
    """The state and some events of a stream, from one round trip."""

    stream: str
    state: LogState
    events: Sequence[Event] = ()
    """Some of those after the cursor, as `read` returns them. Empty does not mean that there are
    none: events in memory are left to `read`."""


class Claim(NamedTuple):
    """The stream that an idempotency key is bound to."""

    stream: str
    digest: str
    """The digest of the request body that started the stream."""
    grant: Grant | None = None
    """The reservation, if this call opened the stream."""


def may_see(owner: str | None, whose: str | None) -> bool:
    """Return whether `owner` may see a stream of `whose`. None is unknown, or sees all."""
    return owner is None or whose is None or owner == whose


Follower = Callable[[Sequence[Event]], None]
"""Receives each appended batch within the call; it must neither wait nor raise.

An empty batch means that the stream was removed."""

Placed = asyncio.Future[None] | None
"""None: the `stream.end` is stored, after SQLite's commit or in Redis. Otherwise a future that
is done once it is stored, and cancelled if something else ended or removed the stream."""

PAGE = 1000
"""The default limit of `read`, in events."""


class Events(Protocol):
    """The events of each stream, and the facts of its start."""

    async def info(self, stream: str) -> StreamInfo:
        """Return the `StreamInfo` that the stream was created with."""

    def push(self, stream: str, events: Sequence[Event]) -> bool:
        """Append within the call, if that needs no wait.

        Returns False and adds nothing if it does, or if `append` would raise.
        """

    async def append(
        self, stream: str, events: Sequence[Event], settlement: Settlement | None = None
    ) -> Placed:
        """Add events at the end and wake the readers.

        If this raises, none is added. A cancelled call still adds them all, before those of
        any later call.

        The step that stores a `stream.end` also replaces the stream's reservation by
        `settlement`, once per stream, and stores its `row` until `forget_rows`; without a
        settlement it releases the reservation. `Placed` reports that step; for other events it
        is None.

        Raises:
            StreamTaken: another process goes on with the stream.
            ServiceError: `overloaded`, the stream has reached its maximum length; events that
                end in a `stream.end` are accepted even then.
            ServiceError: `internal`, the storage failed; if the events end in a `stream.end`,
                the log may have ended the stream as interrupted instead.
            ValueError: the stream has ended.
        """

    async def read(
        self, stream: str, after: int, *, timeout_s: float, limit: int = PAGE
    ) -> Sequence[Event]:
        """Return up to `limit` events after the cursor.

        Waits up to `timeout_s` seconds for the first one and returns an empty sequence if none
        came; at the end of an ended stream it does not wait. The events of an `Ending` are
        returned as one, never together with those before it.

        Raises:
            RequestError: `conflict`, the cursor names an event that was never stored.
        """

    def follow(self, stream: str, after: int, follower: Follower) -> bool:
        """Call a follower with all events after the cursor, as they are appended.

        Returns False and does nothing unless the cursor is at the end of a stream that runs in
        this process; then use `read`.
        """

    def unfollow(self, stream: str, follower: Follower) -> None:
        """Remove a follower. Unknown followers are ignored."""

    async def state(self, stream: str) -> LogState:
        """Return the length of the log and whether it has ended."""
        return (await self.look(stream, 0, limit=0)).state

    async def look(self, stream: str, after: int, *, limit: int, owner: str | None = None) -> Look:
        """Return the state, with up to `limit` events after the cursor, in one round trip.

        A cursor that names no event has none after it.

        With an `owner`, another owner's stream is reported as unknown, in the same time as an
        unknown one: a log with storage elsewhere looks there for both, and reads no events.
        """

    def running(self) -> Collection[str]:
        """Return the streams that this process produces and that have no end."""

    def produced(self, stream: str) -> Sequence[Event]:
        """Return all events appended to a stream that runs in this process, else none.

        Includes those that readers cannot see yet.
        """

    async def delete(self, stream: str) -> None:
        """Remove the stream and its idempotency key.

        A running stream is settled like an orphaned one.
        """


class EventLog(Events, Protocol):
    """The required part of a log: events, and streams by an idempotency key or a name.

    Every call that names a stream raises `RequestError`: `not_found` if it is unknown,
    `stream_expired` if it was removed. Every call may raise `ServiceError`: `internal` if the
    storage fails.
    """

    async def create(self, info: StreamInfo, *, over: str | None = None) -> Claim:
        """Open an empty log, bind its idempotency key and its names, if any, and return the claim.

        If the key is bound to a stream that still exists and is not `over` (an ended one), its
        claim is returned and no log is opened. Of many calls with one key, even concurrent
        ones, one opens a log.

        A name leads to the last stream that was created with it, as long as that exists.

        Once `append` has added the first event, the key finds the stream however this process
        ends. Until then another process may remove the stream, if this one is dead or
        unreachable: `append` then raises, and the key is free.

        The info counts among the bytes of the log and is removed with the stream.

        `info.reserve` is reserved in the same step. The reservation lasts until the stream
        ends, is removed, or is found never to have begun.

        Of an `alone` info, also the check that no other stream with one of its names runs is in
        that step: of many concurrent calls one opens a log.

        Raises:
            ChatBusy: such a stream runs; nothing was opened or bound.
            LimitReached: an account lacks room for the reservation; nothing was opened or bound.
            ServiceError: `overloaded`, running streams take all the room, or the storage is
                unreachable. The key can be used again.
        """

    async def claimed(self, key: Scoped) -> Claim | None:
        """Return the claim of a key; None if its stream no longer exists."""

    async def find(self, name: Scoped, after: int = 0, *, limit: int = 0) -> Look | None:
        """Do `look` for the stream of a name; None if there is none."""

    async def named(self, name: Scoped) -> Sequence[str]:
        """Return at least the running streams that were created with a name.

        A log of a package that does not override this returns the last one only.
        """
        found = await self.find(name)
        return () if found is None else (found.stream,)

    async def forget_names(self, stream: str) -> None:
        """Let the names that lead to a stream lead to none; `named` still returns it."""

    async def list_streams(
        self, owner: str, after: ListPosition, *, limit: int
    ) -> Sequence[ListedStream]:
        """Return the next streams of an owner in one part of the list: of running or ended ones.

        Removed and expired ones are left out. The owner "" has no list: it stands for everybody.
        """

    async def changed_owners(self, mark: float) -> tuple[float, Collection[str] | None]:
        """Return the next mark, and the owners whose lists have grown since a mark, at first 0.

        Those of this process may be left out. None stands for all owners, as in a log of a
        package that does not override this.
        """
        return mark, None

    async def open(
        self,
        *,
        on_ended: OnEnded = ignore_ended,
        close: Close = close_free,
        on_stop: OnStop = ignore_stop,
    ) -> None:
        """Open the storage; no call may come before.

        `on_ended` receives each orphaned stream that this process ends, once per stream over all
        processes that share the log. Streams without an event did not begin and are left out;
        removing a running stream ends it. `close` prices these streams. `on_stop` receives each
        stream of this process that another one stopped, ended or removed.

        Raises:
            LogUnusable: the storage cannot be used.
        """

    async def close(self) -> None:
        """Write pending events and close; no call may follow."""

    def healthy(self) -> bool:
        """Return whether events can be stored: False from a failed write to the next success.

        A full log is healthy: it refuses new streams and serves its own. An idle log tries a
        write at least once a minute.
        """

    def size(self) -> LogSize:
        """Return how much of the log is in the memory of this process."""


class LogParts(NamedTuple):
    """A log with the protocols beside it, each implemented by the log or by a default.

    A log without transactions of its own uses a `MemoryAccounts`, which its `create` and
    `append` call. A log of one process has no peers and no broadcast; one that ends with its
    process has no takeover.
    """

    log: EventLog
    accounts: Accounts
    rows: RowQueues
    peers: Peers = NoPeers()
    broadcast: Broadcast | None = None
    takeover: Takeover | None = None

    def with_log(self, log: EventLog) -> "LogParts":
        """Return the parts with another log wherever this one stands."""
        return LogParts._make(log if part is self.log else part for part in self)


STRIDE = 10**8
"""More events than a stream can have, and more frames than they make in any dialect."""


class Ending(list[Event]):
    """The events by which another process ended an orphaned stream.

    Readers of the dead producer may have seen events that were not stored. So that no number
    names two events, the ending of a stream with n stored events begins at the number
    (n + 1) * STRIDE + n + 1.
    """

    def __init__(self, events: Iterable[Event], *, after: int) -> None:
        super().__init__(events)
        self.after = after
        """The number before that of the first event."""


def before_ending(kept: int) -> int:
    """Return the number before the first event of an `Ending`, after so many stored events."""
    return (kept + 1) * STRIDE + kept


def cursor_after(after: int, events: Sequence[Event]) -> int:
    """Return the cursor after reading these events from a cursor."""
    return (events.after if isinstance(events, Ending) else after) + len(events)


async def read_all(
    event_log: Events,
    stream: str,
    *,
    ending: bool = True,
    first: Sequence[Event] = (),
    last: int | None = None,
) -> list[Event]:
    """Return all events so far, without waiting.

    Without `ending` an `Ending` is left out. `first` is a page that was already read. Reading
    stops at event number `last`, if given.
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

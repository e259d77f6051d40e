"""The streams of one principal: start, find, read, cancel and delete them."""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from ..errors import RequestError, ServiceError
from ..eventlog import EventLog, LogState, Look, StreamExpired, read_all
from ..eventlog.contract import unknown
from ..eventlog.listing import ListedStream, ListPosition
from ..eventlog.peers import Peers
from ..eventlog.stream_info import StreamInfo, scoped
from ..events import Event, Stopper
from ..identity.principal import Principal, check_may
from ..requests import ChatRequest
from .readers import BATCH, Reader
from .runs import Opened, Runs
from .start_options import StartOptions
from .starts import Starts
from .via import RequestSource
from .watching import WatchCursor, Watcher, Watchers

MAX_LISTED = 100
MAX_LOOKED = 1000
"""How many streams one call reads from the log at once, and in all, to find some by metadata."""

STOP_ELSEWHERE_S = 3.0
"""The maximum seconds to wait for another process to end a stream; then recovery ends it."""


class OwnedStream:
    """One stream of a principal; `state` is as of the lookup.

    `after` is the cursor of the lookup, presumably its reader's.
    Each method raises a RequestError, `forbidden`, if a stream token does not allow it.
    """

    __slots__ = ("_after", "_found", "_log", "_peers", "_principal", "_runs", "id", "state")

    def __init__(
        self,
        found: Look,
        principal: Principal,
        *,
        event_log: EventLog,
        peers: Peers,
        runs: Runs,
        after: int | None = None,
    ) -> None:
        self.id = found.stream
        self.state = found.state
        self._found: Look | None = found
        self._after = after or 0
        self._log = event_log
        self._peers = peers
        self._runs = runs
        self._principal = principal

    @property
    def readable(self) -> bool:
        """Whether the principal may read the events."""
        return self._principal.may != "stop"

    def attach(self, address: str, *, counted: bool = True, reads: bool = True) -> Opened:
        """Add a reader to the stream; a `counted` one keeps a running stream alive.

        Without `reads` it only keeps the stream alive.

        Raises:
            ServiceError: `overloaded`, the stream has too many readers; `rate_limited`, its
                client reads too many streams.
        """
        check_may(self._principal, "read")
        found = self._found or Look(self.id, self.state)
        guest = self._principal.may == "watch"
        return self._runs.attach(
            found, address, after=self._after, counted=counted, guest=guest, reads=reads
        )

    async def look(self) -> LogState:
        """Return its current state."""
        check_may(self._principal, "read")
        return await self._log.state(self.id)

    async def events(self) -> Sequence[Event]:
        """Return all events so far, without waiting.

        Raises:
            RequestError: `stream_expired`.
        """
        check_may(self._principal, "read")
        if self._found is None or self._after:
            return await read_all(self._log, self.id)
        first, last = self._found.events, self.state.last
        return await read_all(self._log, self.id, first=first, last=last)

    async def read_start(self) -> Sequence[Event]:
        """Return the first event, if there is one yet."""
        check_may(self._principal, "read")
        if self._found is not None and self._found.events and not self._after:
            return self._found.events[:1]
        return await self._log.read(self.id, 0, timeout_s=0, limit=1)

    async def info(self) -> StreamInfo:
        """Return the stream's start information.

        Raises:
            RequestError: `stream_expired`.
        """
        check_may(self._principal)
        return await self._log.info(self.id)

    async def cancel(self, *, as_operator: bool = False) -> None:
        """Stop the generation; no effect on an ended one.

        An admin who stops another owner's stream always does so as the operator.

        Returns when the `stream.end` is in the log, or when the process that should write it takes
        too long: it may be lost, and the log ends the stream soon.
        """
        check_may(self._principal, "stop")
        self._found = None  # read it again
        by_other = self.state.owner != self._principal.owner
        by: Stopper = "operator" if as_operator or by_other else "user"
        if await self._runs.cancel(self.id, by) or self.state.ended:
            return
        await self._peers.ask_stop(self.id, by)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_ELSEWHERE_S):
                await self._await_end()

    async def _await_end(self) -> None:
        state = await self._log.state(self.id)
        while not state.ended:
            await self._log.read(self.id, state.last, timeout_s=0.5)
            state = await self._log.state(self.id)

    async def delete(self) -> None:
        """Stop the generation and delete its events."""
        check_may(self._principal)
        await self.cancel()
        await self._log.delete(self.id)


class OwnedStreams:
    """The streams of one owner: the only way to start, find, read and end them.

    Streams of other owners are reported as unknown; to a stream token, all but its own are.
    An admin can access other owners' streams by id only (`get`).
    `request_id` is the current request's.
    """

    def __init__(
        self,
        principal: Principal,
        *,
        event_log: EventLog,
        peers: Peers,
        runs: Runs,
        starts: Starts,
        watchers: Watchers,
        request_id: str = "",
    ) -> None:
        self._log = event_log
        self._peers = peers
        self._runs = runs
        self._starts = starts
        self._watchers = watchers
        self._principal = principal
        self._owner = principal.owner
        self._reaches_all = "admin" in principal.roles
        self._request_id = request_id

    async def get(self, stream: str, *, after: int | None = None) -> OwnedStream:
        """Look a stream up, with its first events after a cursor, if given.

        Raises:
            RequestError: `not_found` or `stream_expired`.
        """
        if self._principal.stream not in (None, stream):
            raise unknown(stream)
        whose = None if self._reaches_all else self._owner
        try:
            found = await self._log.look(stream, after or 0, limit=_limit(after), owner=whose)
        except StreamExpired as error:
            if whose in (None, error.owner):
                raise
            raise unknown(stream) from None
        if whose not in (None, found.state.owner):
            raise unknown(stream)
        return self._own(found, after)

    def _own(self, found: Look, after: int | None) -> OwnedStream:
        return OwnedStream(
            found,
            self._principal,
            event_log=self._log,
            peers=self._peers,
            runs=self._runs,
            after=after,
        )

    async def find(self, name: str, *, after: int | None = None) -> OwnedStream | None:
        """Look up the stream that was started last under a name; None if there is none.

        Raises:
            RequestError: `forbidden`, the credential is a stream token.
        """
        check_may(self._principal)
        named = scoped(self._owner, name)
        found = await self._log.find(named, after or 0, limit=_limit(after))
        if found is None or found.state.owner != self._owner:
            return None
        return self._own(found, after)

    async def cancel_named(self, name: str) -> None:
        """Stop every running stream that was started under a name."""
        check_may(self._principal)
        for stream in await self._log.named(scoped(self._owner, name)):
            await self._stop(stream)

    async def _stop(self, stream: str) -> None:
        with contextlib.suppress(RequestError):  # it is gone
            await (await self.get(stream)).cancel()

    async def forget_names(self, stream: str) -> None:
        """Let `find` no longer return a stream by its names."""
        check_may(self._principal, "read")
        await self._log.forget_names(stream)

    async def list(
        self,
        after: ListPosition,
        *,
        limit: int,
        running_only: bool = False,
        metadata: tuple[str, str] | None = None,
    ) -> tuple[Sequence[ListedStream], ListPosition | None]:
        """Return the next streams of the list, and where to go on; None at its end.

        With a key and value of `metadata`, only those that have it, and at most `MAX_LOOKED`
        streams are looked at.

        Raises:
            RequestError: `forbidden`, the credential is a stream token, or authentication is off.
        """
        self._check_listed("listed")
        found: list[ListedStream] = []
        looked, most = 0, limit + 1 if metadata is None else MAX_LISTED
        while True:
            page = await self._log.list_streams(self._owner, after, limit=most)
            for listed in page:
                if metadata is None or listed.metadata.get(metadata[0]) == metadata[1]:
                    if len(found) == limit:
                        return found, after
                    found.append(listed)
                after = listed.position
            looked += len(page)
            if len(page) < most:
                if after.ended or running_only:
                    return found, None
                after = ListPosition(ended=True)
            elif looked >= MAX_LOOKED:
                return found, after

    async def watch(
        self,
        cursor: WatchCursor | None,
        address: str,
        *,
        events: bool,
        metadata: tuple[str, str] | None = None,
    ) -> Watcher:
        """Watch the streams from a cursor on, else those that run now.

        With `events` their events are told too, and the watcher is a reader of each.

        Raises:
            RequestError: as `list` does.
            ServiceError: as `Watchers.join` does.
        """
        self._check_listed("watched")

        async def open_reader(stream: str, after: int) -> Reader:
            return (await self.get(stream, after=after)).attach(address).reader

        return await self._watchers.join(
            self._owner, cursor, open_reader, address=address, events=events, metadata=metadata
        )

    def _check_listed(self, done: str) -> None:
        check_may(self._principal)
        if not self._owner:
            raise RequestError(
                "forbidden",
                f"streams cannot be {done} while authentication is off: they have no owners, and "
                "their ids are secrets; set [auth]",
            )

    async def admit(self, origin: RequestSource, *, key: str | None) -> None:
        """Refuse a request that cannot start a stream here now, before its body is read.

        A request whose `key` has started a stream is admitted, and receives that stream.

        Raises:
            RequestError: `invalid_request`, this relay has sent it itself; `forbidden`, the
                credential is a stream token.
            ServiceError: `overloaded`, too many streams or shutting down; `rate_limited`, the
                client has reached a limit.
        """
        if self._principal.stream is not None:
            check_may(self._principal)
        try:
            self._starts.admit(origin)
        except ServiceError:
            if key is None or await self._starts.claimed(self._owner, key) is None:
                raise

    async def start(
        self,
        request: ChatRequest,
        options: StartOptions,
        *,
        key: str | None = None,
        digest: str = "",
    ) -> Opened:
        """Start a generation that `admit` has accepted; the caller is its first reader.

        If the `key` has started one already, for a request with the same `digest`, return that
        stream instead, once it has begun. Another request with the key is refused.

        Raises:
            RequestError: `model_not_found`, `idempotency_mismatch`; `forbidden`, the credential may
                not use the model; `conflict`, another stream of the chat runs.
            ServiceError: `overloaded`, too many streams or shutting down; `rate_limited`, the
                client has reached a limit.
        """
        started = await self._starts.start(
            self._principal,
            request,
            options,
            owner=self._owner,
            request_id=self._request_id,
            key=key,
            digest=digest,
            stop=self._stop,
        )
        if isinstance(started, Opened):
            return started
        return await self._rejoin(started.stream, options)

    async def _rejoin(self, stream: str, options: StartOptions) -> Opened:
        """Return a reader of the stream that a key has started, and its outcome."""
        found = await self.get(stream, after=0)
        opened = found.attach(options.origin.address, reads=not options.leaves)
        if opened.outcome is None and not found.state.ended:
            return msgspec.structs.replace(opened, outcome=self._starts.outcome_elsewhere(stream))
        return opened


def _limit(after: int | None) -> int:
    """Return the number of events that a lookup with this cursor fetches."""
    return 0 if after is None else BATCH

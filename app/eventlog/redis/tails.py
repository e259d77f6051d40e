"""The tails of streams that run in other processes: one blocking read for all.

A tail has the last events of one stream and calls its followers. A reader behind its first
event reads pages. Every second Redis reports the state of the streams that are read here, so that
an orphaned one is ended soon.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec
import structlog

from ...events import decode
from ..supervision import Supervisor, wait_for
from ..tail import Tail, TailRegistry
from .link import Away, CommandRefused, Link
from .orphans import Lease
from .scripts import LOOK, TELL, inbox_key, log_key, meta_key

GATHER_S = 0.005
"""The pause between two reads, in which events gather."""

BLOCK_S = 1.0
"""How long a read waits for events."""

EVENTS_AT_ONCE = 500
"""Of one stream in one read."""

XREAD = ("XREAD", "COUNT", EVENTS_AT_ONCE, "BLOCK", int(BLOCK_S * 1000))

LOOK_S = 1.0
"""How often the states of the streams are read, at least."""

IDLE_S = 30
"""How long a tail without readers is kept."""

STATES_AT_ONCE = 500

INBOX_MESSAGES = 10_000
INBOX_MS = 60_000
"""About how many messages to a process are stored, and for how long after its death."""

RUNS, ENDED, GONE, MISSING, LOST = range(5)
"""The states that `LOOK` returns."""

log = structlog.get_logger("seseragi.eventlog")


class Tails(TailRegistry):
    """All tails of a process.

    `link` is for their blocking reads only; `asking` is the shared one. `on_message` receives
    messages about streams of this process: who stops it, or that it was removed: `gone`, and
    `ended` if its end was stored. `on_orphan` receives streams whose owner is dead.
    """

    def __init__(
        self,
        link: Link,
        asking: Link,
        *,
        lease: Lease,
        on_message: Callable[[str, str], None],
        on_orphan: Callable[[str], object],
    ) -> None:
        super().__init__()
        self._link = link
        self._asking = asking
        self._lease = lease
        self._on_message = on_message
        self._on_orphan = on_orphan
        self._attended: dict[str, float] = {}
        """Streams that have readers here, and when that was last stored."""
        self._inbox_at = "0"
        self._blocked = False
        self._look_due = asyncio.Event()
        self._tasks = Supervisor()

    def open(self) -> None:
        self._tasks.keep("redis tails", self._keep_reading)
        self._tasks.keep("redis watch", self._keep_looking)

    async def close(self) -> None:
        await self._tasks.close()

    @property
    def healthy(self) -> bool:
        return self._link.healthy and self._tasks.healthy

    # Readers

    def start(self, stream: str, last: int) -> Tail:
        """Add a tail for the events after this one."""
        tail = self._tails[stream] = Tail(last, now=self._now())
        if self._blocked:  # the waiting read does not have it
            self._blocked = False
            inbox = [inbox_key(self._lease.owner)]
            self._asking.run(TELL, inbox, INBOX_MESSAGES, INBOX_MS, "new", 1)
        return tail

    def readers_here(self, stream: str) -> None:
        """Store that a stream has readers here, until `readers_gone`."""
        self._attended[stream] = float("-inf")
        self._look_due.set()

    def readers_gone(self, stream: str) -> None:
        self._attended.pop(stream, None)

    # The blocking read

    async def _keep_reading(self) -> None:
        while True:
            try:
                await self._read()
            except (Away, CommandRefused):
                await asyncio.sleep(0.1)
            await asyncio.sleep(GATHER_S)

    async def _read(self) -> None:
        tails = {
            log_key(stream).encode(): (stream, tail)
            for stream, tail in self._tails.items()
            if not tail.ended
        }
        inbox = inbox_key(self._lease.owner)
        self._blocked = True
        # The entry "0-1", which is no event, comes before the first one.
        cursors = [f"{tail.last}-1" for _, tail in tails.values()]
        read = self._link.send(*XREAD, "STREAMS", inbox, *tails, self._inbox_at, *cursors)
        try:
            found = await read
        finally:
            self._blocked = False
        for key, entries in found or ():
            if key in tails:
                self._take(*tails[key], entries)
            else:
                self._take_messages(entries)

    def _take(
        self, stream: str, tail: Tail, entries: Sequence[tuple[bytes, Sequence[bytes]]]
    ) -> None:
        first, last = number_of(entries[0][0]), number_of(entries[-1][0])
        gap = first > tail.last + 1 or last != first + len(entries) - 1
        if gap or tail.over:  # events were lost, or another process ended it
            self.stop(stream)
            return
        try:
            tail.add(first, [decode(fields[1]) for _, fields in entries])
        except (ValueError, msgspec.MsgspecError) as error:
            log.error("events in Redis cannot be read", stream=stream, error=str(error))
            self.stop(stream)

    def _take_messages(self, entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> None:
        self._inbox_at = entries[-1][0].decode()
        for _, (name, value) in entries:
            if name != b"new":
                self._on_message(name.decode(), value.decode())

    # States

    async def _keep_looking(self) -> None:
        while True:
            await wait_for(self._look_due, min(LOOK_S, self._lease.renew_s))
            streams = list(self._tails.keys() | self._attended.keys())
            try:
                for at in range(0, len(streams), STATES_AT_ONCE):
                    await self._look_after(streams[at : at + STATES_AT_ONCE])
                await self._asking.send("PEXPIRE", inbox_key(self._lease.owner), INBOX_MS)
            except (Away, CommandRefused):
                continue

    async def _look_after(self, streams: Sequence[str]) -> None:
        now = self._now()
        due = {
            stream
            for stream in streams
            if self._attended.get(stream, now) <= now - self._lease.renew_s
        }
        attended = [self._lease.ms if stream in due else 0 for stream in streams]
        ends = {stream: tail.last for stream in streams if (tail := self._tails.get(stream))}
        replies = await self._asking.run(LOOK, [*map(meta_key, streams)], *attended)
        for stream in due & self._attended.keys():
            self._attended[stream] = now
        for stream, state, last in zip(streams, replies[::2], replies[1::2], strict=True):
            self._take_state(stream, state, now)
            if state in (RUNS, ENDED, LOST) and last < ends.get(stream, 0):
                # It came back without its last writes: readers continue from what is left.
                log.warning("Redis has lost events", stream=stream, last=last, read=ends[stream])
                self.stop(stream)

    def _take_state(self, stream: str, state: int, now: float) -> None:
        tail = self._tails.get(stream)
        if state == LOST:
            self._on_orphan(stream)
        if tail is None:
            return
        if state == MISSING:  # its owner may be about to restore it
            tail.missing_since = tail.missing_since or now
        else:
            tail.missing_since = None
        if not tail.idle:
            tail.used_at = now
        elif tail.ended:
            self.stop(stream)
        missing = tail.missing_since is not None and now - tail.missing_since > self._lease.renew_s
        if state == GONE or missing or tail.used_at < now - IDLE_S:
            self.stop(stream)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def number_of(id: bytes) -> int:
    """Return the event number of an entry's id."""
    return int(id.partition(b"-")[0])

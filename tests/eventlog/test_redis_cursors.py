"""An id never means two things: whatever is shown, written, lost and ended, in any order.

A model of what readers have been given stands beside a real redis-server: each cursor that
any of them ever had is tried again after every step, at the owner and elsewhere.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.api.checkpoints import Checkpoints
from app.api.event_stream import read_from
from app.api.http_settings import HttpSettings
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RelayError
from app.eventlog import STRIDE, Ending, cursor_after, read_all
from app.eventlog.redis.log import RedisLog
from app.eventlog.redis.scripts import log_key, meta_key
from app.events import Event, StreamEnd, TextDelta, TextEnd, TextStart
from app.generation.readers import Reader
from tests.eventlog.contract import END, START
from tests.eventlog.creating import create
from tests.eventlog.redis_logs import opened
from tests.redis_server import RedisServer

pytestmark = pytest.mark.proving

STREAM = "st_1"
KEYS = (meta_key(STREAM), log_key(STREAM))
NATIVE = CLIENT_FORMATS["native"]


class World:
    """One stream, its owner, another process, and what was shown under each cursor."""

    def __init__(self, server: RedisServer, owner: RedisLog, other: RedisLog) -> None:
        self._server = server
        self._owner = owner
        self._other = other
        self._shown: dict[int, list[Event]] = {}
        self._kept: list[tuple[bytes, int]] | None = None
        self._count = 0

    async def begin(self) -> None:
        await create(self._owner, STREAM, key="key", digest="d", names=("a name",))
        self._owner._owner._tasks.stop()  # each of its steps is one of ours
        self._owner.push(STREAM, [START, TextStart(0)])
        await self.write()

    def finish(self) -> None:
        """Have its owner write no more as it closes: it would wait for what nobody writes."""
        self._owner._owner.streams.clear()

    # What may happen

    async def take(self) -> None:
        """The provider sends something."""
        self._count += 1
        self._owner.push(STREAM, [TextDelta(0, f"{self._count}")])

    async def end(self) -> None:
        run = self._owner._owner.streams.get(STREAM)
        if run is not None and run.ended_at is None:
            task = asyncio.create_task(self._owner.append(STREAM, [TextEnd(0), END]))
            await asyncio.sleep(0)
            task.cancel()

    async def write(self) -> None:
        owner = self._owner._owner
        if (run := owner.streams.get(STREAM)) is not None:
            await owner._write({STREAM: run})

    async def show(self) -> None:
        """The owner shows what Redis does not have: it is away for it, or full."""
        self._owner._owner.show_all()

    async def renew(self) -> None:
        owner = self._owner._owner
        if (run := owner.streams.get(STREAM)) is not None:
            await owner._renew([run], ms=60_000)

    async def take_over(self) -> None:
        """The lease is over, and somebody notices."""
        if self._server.ask("HEXISTS", KEYS[0], "lease").startswith(b":1"):
            self._server.ask("HSET", KEYS[0], "lease", "1")
            await self._other._pages.end_soon(STREAM)

    async def copy(self) -> None:
        """A replica has got so far."""
        ask = self._other._link.send
        dumps = [(await ask("DUMP", key), await ask("PTTL", key)) for key in KEYS]
        self._kept = dumps if all(dump for dump, _ in dumps) else None

    async def fail_over(self) -> None:
        """It becomes the master."""
        if self._kept is not None:
            for key, (dump, ttl) in zip(KEYS, self._kept, strict=True):
                await self._other._link.send("RESTORE", key, ttl, dump, "REPLACE")

    async def forget(self) -> None:
        """Redis comes back empty."""
        await self._other._link.send("DEL", *KEYS)

    async def evict(self) -> None:
        await self._other._link.send("DEL", KEYS[1])

    # What must hold

    async def check(self) -> None:
        self._check_times_to_live()
        wholes = [await self._read_whole(log) for log in (self._owner, self._other)]
        for log, whole in zip((self._owner, self._other), wholes, strict=True):
            for cursor, seen in self._shown.items():
                await self._check_cursor(log, cursor, seen, whole)

    def _check_times_to_live(self) -> None:
        answer = self._server.ask("KEYS", "seseragi:*").split(b"\r\n")
        for key in (line.decode() for line in answer if line.startswith(b"seseragi:")):
            if key == "seseragi:format":  # it outlives all streams
                continue
            left = self._server.ask("PTTL", key)
            assert int(left[1:]) > 0, (key, left)

    async def _read_whole(self, log: RedisLog) -> list[Event] | None:
        """Read from the beginning, and note what is shown under which cursor."""
        events: list[Event] = []
        after = 0
        try:
            while page := await log.read(STREAM, after, timeout_s=0, limit=2):
                start = page.after if isinstance(page, Ending) else after
                for place, event in enumerate(page, 1):
                    events.append(event)
                    before = self._shown.setdefault(start + place, list(events))
                    assert before == events, f"{start + place} means two things"
                after = cursor_after(after, page)
        except RelayError:
            return None
        return events

    async def _check_cursor(
        self, log: RedisLog, cursor: int, seen: list[Event], whole: list[Event] | None
    ) -> None:
        """One that comes back, and one that has been there all the time."""
        for comes_back in (True, False):
            try:
                if comes_back:
                    state = await log.state(STREAM)
                    reader = Reader(STREAM, log, lambda *_: None, drain=asyncio.sleep, found=state)
                    await read_from(
                        reader,
                        NATIVE,
                        cursor,
                        http_settings=HTTP_SETTINGS,
                        retry_ms=0,
                        checkpoints=Checkpoints(),
                    )
                rest = await self._read_on(log, cursor)
            except RelayError:
                continue
            if whole is None:  # what came before is gone, but this reader has it
                assert not rest
                continue
            if rest or comes_back:
                assert whole == [*seen, *rest], (cursor, comes_back)
            elif any(isinstance(event, StreamEnd) for event in whole):
                assert whole == seen, (cursor, "waits for ever")

    async def _read_on(self, log: RedisLog, after: int) -> Sequence[Event]:
        rest: list[Event] = []
        while page := await log.read(STREAM, after, timeout_s=0, limit=3):
            rest += page
            after = cursor_after(after, page)
        return rest


HTTP_SETTINGS = HttpSettings()
STEPS: dict[str, Callable[[World], Awaitable[None]]] = {
    name: getattr(World, name)
    for name in (
        *("take", "write", "show", "renew", "end", "take_over"),
        *("copy", "fail_over", "forget", "evict"),
    )
}


async def live_through(server: RedisServer, steps: Sequence[str]) -> None:
    assert b"OK" in server.ask("FLUSHALL")
    async with opened(server.url) as owner, opened(server.url) as other:
        world = World(server, owner, other)
        await world.begin()
        await world.check()
        for step in steps:
            await STEPS[step](world)
            await world.check()
        world.finish()


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=14))
@example(["take", "show", "take_over", "renew"])  # the owner is cut off, and comes back
@example(["take", "take", "show", "take", "take_over", "show", "write"])
@example(["copy", "take", "write", "fail_over", "take_over"])  # both are lost
@example(["copy", "take", "write", "take_over", "fail_over", "take_over"])  # ended twice
@example(["copy", "take_over", "fail_over", "take", "write", "take_over"])
@example(["copy", "end", "take_over", "fail_over", "write"])  # its own end comes after all
@example(["take", "write", "evict", "take", "write"])
def test_cursor_never_names_other_content_later(server, steps):
    asyncio.run(live_through(server, steps))


def test_end_for_a_lost_owner_is_numbered_beyond_all_that_it_may_have_shown(server):
    async def run() -> None:
        async with opened(server.url) as owner, opened(server.url) as other:
            world = World(server, owner, other)
            await world.begin()
            await world.take_over()
            state = await other.state(STREAM)
            page = await other.read(STREAM, 2, timeout_s=0)
            assert isinstance(page, Ending)
            assert (2, 3 * STRIDE + 2, 3 * STRIDE + 4) == (state.kept, page.after, state.last)
            assert page[1:] == list(await other.read(STREAM, page.after + 1, timeout_s=0))
            assert 2 == len(await other.read(STREAM, 0, timeout_s=0))
            assert 4 == len(await read_all(other, STREAM))
            assert 2 == len(await read_all(other, STREAM, ending=False))

    asyncio.run(run())

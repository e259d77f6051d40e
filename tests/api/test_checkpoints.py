"""A resume in a client's dialect reads the events after a checkpoint, and not the whole answer."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest

from app.api import checkpoints as module
from app.api.checkpoints import EVERY, NEVER, Checkpoints
from app.api.event_stream import read_from
from app.api.http_settings import HttpSettings
from app.dialects.client_format import NumberedWriter, frame_id
from app.dialects.client_formats import CLIENT_FORMATS
from app.errors import RelayError
from app.eventlog import Ending, LogState
from app.eventlog.contract import before_ending
from app.events import Event, StreamEnd, StreamStart, StreamTarget, TextDelta, TextStart
from app.generation.readers import BATCH, Reader
from app.main import create_app
from app.settings import load_settings
from app.testing.upstream import (
    DONE,
    FINISH,
    Step,
    Until,
    event,
    head,
    send,
    serve_upstream,
    text,
)
from tests.api.asking import altering
from tests.clock import Clock
from tests.serving import HELLO, Relay, serve_script

STREAM = "st_4fJ9qXw0V1cT8mYbR2nZkQ"
FORMATS = [name for name, one in CLIENT_FORMATS.items() if one.letter]
TOKENS = EVERY + 700
SENT = EVERY + 500
LAST = b" %d" % (SENT - 1)
RETRY = b"retry: 2000\n"
NEAR = TOKENS - EVERY + 2 * BATCH
"""The most events that a resume reads: those since the checkpoint, which a page may have passed,
and the page with the first missed frame."""


class Served(NamedTuple):
    relay: Relay
    stream: str
    pages: list[int]
    """The number of events in each page that was read."""

    async def read(self, client_format: str, after: int = 0) -> list[bytes]:
        """Return the frames after a cursor, by GET."""
        headers, query = {}, {"format": client_format, "suffix": ""}
        if after:
            letter = CLIENT_FORMATS[client_format].letter
            headers = {"last-event-id": frame_id(self.stream, letter, after)}
        url = f"/v1/streams/{self.stream}/events"
        reply = await self.relay.client.get(url, params=query, headers=headers)
        assert reply.status_code in (200, 204)
        return frames_of(reply.content)


def frames_of(raw: bytes) -> list[bytes]:
    return [frame.removeprefix(RETRY) for frame in raw.replace(b": hb\n", b"").split(b"\n\n")[:-1]]


@asynccontextmanager
async def serve_long(log: str = "memory", tokens: int = TOKENS) -> AsyncIterator[Served]:
    """Serve a relay with a stream that has ended, and count what is read of its log."""
    pages: list[int] = []

    async def read(read: Any, *place: Any, **how: Any) -> Sequence[Event]:
        found: Sequence[Event] = await read(*place, **how)
        pages.append(len(found))
        return found

    async def look(look: Any, *place: Any, **how: Any) -> Any:
        found = await look(*place, **how)
        pages.append(len(found.events))
        return found

    thoughts = "".join(event({"reasoning_content": f"{n} "}) for n in range(tokens // 3))
    words = "".join(text(f" せ{n}") for n in range(tokens - tokens // 3))
    script = [head(), send(thoughts + words + FINISH + DONE)]
    wrap = altering(read=read, look=look)
    async with serve_script(script, log=log, wrap_log=wrap) as (relay, _):
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        served = Served(relay, started.json()["id"], pages)
        await served.read("native")
        yield served


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Checkpoints]:
    """The checkpoints of the relays that a test serves."""
    found: list[Checkpoints] = []

    def make(**how: Any) -> Checkpoints:
        found.append(Checkpoints(**how))
        return found[-1]

    monkeypatch.setattr("app.api.application.Checkpoints", make)
    return found


@pytest.mark.parametrize("client_format", FORMATS)
async def test_a_resume_reads_what_follows_a_checkpoint(client_format, log):
    async with serve_long(log) as served:
        whole = await served.read(client_format)
        for missed in (1, 2, 400):
            served.pages.clear()

            assert whole[-missed:] == await served.read(client_format, len(whole) - missed)
            assert sum(served.pages) <= missed + NEAR, served.pages


async def test_a_resume_without_a_checkpoint_reads_once(made):
    async with serve_long() as served:
        whole = await served.read("openai_chat")
        made[0].forget(served.stream)
        sizes = []
        for _ in range(2):
            served.pages.clear()
            assert whole[-5:] == await served.read("openai_chat", len(whole) - 5)
            sizes.append(sum(served.pages))

    assert sizes[0] > TOKENS
    assert sizes[1] <= NEAR


async def test_the_answer_to_a_post_is_resumed_from_a_checkpoint():
    """Its frames have no ids: the client counts them."""
    async with serve_long() as served:
        client, body = served.relay.client, {"model": "openai/m", **HELLO, "stream": True}
        reply = await client.post("/v1/chat/completions", json=body)
        posted = frames_of(reply.content)
        served.pages.clear()
        query: dict[str, Any] = {"format": "openai_chat", "after": len(posted) - 3}
        rest = await client.get(f"/v1/streams/{reply.headers['stream-id']}/events", params=query)

    assert posted[-3:] == [frame.rpartition(b"\nid: ")[0] for frame in frames_of(rest.content)]
    assert sum(served.pages) <= NEAR


@pytest.mark.parametrize("how", ["by its id", "by a POST"])
async def test_a_response_is_resumed_from_a_checkpoint(how):
    async with serve_long() as served:
        client, body = served.relay.client, {"model": "openai/m", "input": "hi", "stream": True}
        reply = await client.post("/v1/responses", json=body)
        whole = frames_of(reply.content)
        served.pages.clear()
        last = whole[-4].rpartition(b"id: ")[2].decode()
        if how == "by a POST":
            rest = await client.post("/v1/responses", json=body, headers={"last-event-id": last})
        else:
            found = whole[-1].partition(b'"id":"resp_')[2].partition(b'"')[0].decode()
            query: dict[str, Any] = {"stream": "true", "starting_after": len(whole) - 4}
            rest = await client.get(f"/v1/responses/resp_{found}", params=query)

    assert whole[-3:] == frames_of(rest.content)
    assert sum(served.pages) <= NEAR


@pytest.mark.parametrize("client_format", FORMATS)
async def test_a_running_stream_is_resumed_from_a_checkpoint(client_format):
    """Readers to whom the log pushes save the states, and the whole is that of one reading."""
    until = Until()
    words = [send("".join(text(f" {n}") for n in range(at, at + 50))) for at in range(0, SENT, 50)]
    steps: list[Step] = [head(), *words, until, send(text("!") + FINISH + DONE)]
    async with serve_script(steps) as (relay, _):
        started = await relay.client.post(
            "/v1/chat", json=HELLO, headers={"prefer": "respond-async"}
        )
        served = Served(relay, started.json()["id"], [])
        letter, seen = CLIENT_FORMATS[client_format].letter, b""
        url, query = f"/v1/streams/{served.stream}/events", {"format": client_format, "suffix": ""}
        async with relay.client.stream("GET", url, params=query) as reply:
            async for data in reply.aiter_bytes():
                seen += data
                if LAST in seen and seen.endswith(b"\n\n"):
                    break
        frames = frames_of(seen)
        begun = len(frames) - 40
        headers = {"last-event-id": frame_id(served.stream, letter, begun)}
        async with relay.client.stream("GET", url, params=query, headers=headers) as reply:
            rest, told = b"", False
            async for data in reply.aiter_bytes():
                rest += data
                if not told and LAST in rest:
                    until.told.set()
                    told = True
        whole = await served.read(client_format)

    assert whole[:begun] == frames[:begun]
    assert whole[begun:] == frames_of(rest)


async def test_another_server_s_readers_save_states_too(made):
    async with serve_upstream() as upstream:
        upstream.script = [head(), send("".join(map(text, ["a"] * SENT)) + FINISH + DONE)]
        environ = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": upstream.base_url}
        app = create_app(load_settings({**environ, "SESERAGI_AUTH": "none"}))
        transport = httpx2.ASGITransport(app)
        async with (
            app.lifespan(),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            body = {"model": "openai/m", "input": "hi", "stream": True}
            whole = frames_of((await client.post("/v1/responses", json=body)).content)
            assert made[0].size > 0
            last = {"last-event-id": whole[-3].rpartition(b"id: ")[2].decode()}
            rest = await client.post("/v1/responses", json=body, headers=last)

    assert whole[-2:] == frames_of(rest.content)


async def test_a_deleted_stream_has_no_checkpoints(made):
    async with serve_long() as served:
        await served.read("openai_responses")
        assert made[0].size > 0
        await served.relay.client.delete(f"/v1/streams/{served.stream}")

    assert 0 == made[0].size


# What is kept


def fed(client_format: str, events: Sequence[Event], *, after: int = 0) -> NumberedWriter:
    writer = CLIENT_FORMATS[client_format].writer(STREAM, after=after, retry_ms=0)
    assert isinstance(writer, NumberedWriter)
    writer.feed(*events)
    return writer


HEAD: list[Event] = [StreamStart(STREAM, "m", 1), StreamTarget("u", "m", 1), TextStart(0)]


def words(count: int) -> list[Event]:
    return [*HEAD, *(TextDelta(0, f" word{n}") for n in range(count - len(HEAD)))]


def save_all(checkpoints: Checkpoints, stream: str, count: int, name: str = "anthropic") -> None:
    """Save the states of a stream of so many events."""
    writer, events, due = fed(name, ()), words(count), EVERY
    for number, one in enumerate(events, 1):
        writer.feed(one)
        if number == due:
            due = checkpoints.save(stream, number, writer)


async def test_checkpoints_are_found_by_the_frames_before():
    checkpoints = Checkpoints()
    save_all(checkpoints, STREAM, 3 * EVERY)
    letter = CLIENT_FORMATS["anthropic"].letter

    first = checkpoints.find(STREAM, letter, 2 * EVERY - 2)
    assert first is not None
    assert EVERY == first.events
    assert None is checkpoints.find(STREAM, letter, first.frames - 1)
    assert first is checkpoints.find(STREAM, letter, first.frames)
    assert None is checkpoints.find(STREAM, "g", NEVER)
    assert None is checkpoints.find("st_other", letter, NEVER)


async def test_readers_of_one_stream_save_a_state_once():
    checkpoints = Checkpoints()
    save_all(checkpoints, STREAM, 5 * EVERY)
    size = checkpoints.size
    save_all(checkpoints, STREAM, 5 * EVERY)

    assert size == checkpoints.size
    assert 6 * EVERY == checkpoints.save(STREAM, 10, fed("anthropic", HEAD))


async def test_all_checkpoints_have_a_bound_and_the_oldest_go_first():
    checkpoints = Checkpoints(max_bytes=8_000)
    letter = CLIENT_FORMATS["anthropic"].letter
    for number in range(12):
        save_all(checkpoints, f"st_{number}", 2 * EVERY)
        assert checkpoints.find("st_0", letter, NEVER)  # which is used
        assert checkpoints.size <= 8_000

    assert checkpoints.find("st_11", letter, NEVER)
    assert None is checkpoints.find("st_1", letter, NEVER)


async def test_those_of_one_stream_have_a_bound(monkeypatch):
    monkeypatch.setattr(module, "MAX_STREAM_BYTES", 3_000)
    checkpoints, letter = Checkpoints(), CLIENT_FORMATS["anthropic"].letter
    save_all(checkpoints, STREAM, 3 * EVERY)
    save_all(checkpoints, "st_long", 6 * EVERY)

    assert checkpoints.size < 6_000
    assert checkpoints.find(STREAM, letter, NEVER)
    last = checkpoints.find("st_long", letter, NEVER)  # it begins again
    assert last is not None
    assert 6 * EVERY == last.events
    assert None is checkpoints.find("st_long", letter, 3 * EVERY)


class Hoarder:
    """A renderer whose state grows by two bytes an event."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def feed(self, event: Event) -> Sequence[Any]:
        self.seen.append("a")
        return ()


async def test_large_states_are_saved_less_often():
    """What grows in a state costs no more, in bytes and in time, than the events cost."""
    checkpoints, saved = Checkpoints(), list[int]()
    writer, due = NumberedWriter(Hoarder(), STREAM, letter="h", after=0, retry_ms=0), EVERY
    for number, one in enumerate(words(12 * EVERY), 1):
        writer.feed(one)
        if number == due:
            due = checkpoints.save(STREAM, number, writer)
            saved.append(number)

    assert 2 < len(saved) < 5
    assert checkpoints.size < 4 * 12 * EVERY


async def test_a_renderer_that_cannot_be_saved_has_no_checkpoints():
    class Local:
        def __init__(self) -> None:
            self.call = lambda: None

    checkpoints = Checkpoints()
    writer = NumberedWriter(Local(), STREAM, letter="l", after=0, retry_ms=0)  # type: ignore[arg-type]

    assert NEVER == checkpoints.save(STREAM, EVERY, writer)
    assert 0 == checkpoints.size
    assert not checkpoints._kept


async def test_checkpoints_end_some_time_after_their_last_use(monkeypatch):
    clock, checkpoints = Clock(monkeypatch), Checkpoints(keep_s=100)
    letter = CLIENT_FORMATS["anthropic"].letter
    save_all(checkpoints, STREAM, 2 * EVERY)
    await clock.pass_(90)
    save_all(checkpoints, "st_2", 2 * EVERY)
    await clock.pass_(90)
    await asyncio.sleep(0)

    assert None is checkpoints.find(STREAM, letter, NEVER)
    assert checkpoints.find("st_2", letter, NEVER)
    await clock.pass_(99)
    assert checkpoints.size > 0
    await clock.pass_(2)
    assert 0 == checkpoints.size


@pytest.mark.proving
@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
async def test_the_size_of_checkpoints_is_that_of_their_memory(name):
    events = words(10 * EVERY)
    save_all(Checkpoints(), "st_warm", 2 * EVERY, name)
    checkpoints, writer, due = Checkpoints(), fed(name, ()), EVERY
    tracemalloc.start()
    for number, one in enumerate(events, 1):
        writer.feed(one)
        if number == due:
            due = checkpoints.save(STREAM, number, writer)
    del writer
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert used < 1.5 * checkpoints.size
    assert used > 0.5 * checkpoints.size


# Events that were lost


class KeptLog(Reader):
    """A reader of a stream of which only so many events are left, and then the ending."""

    def __init__(self, events: Sequence[Event], kept: int | None) -> None:
        last = len(events) if kept is None else before_ending(kept) + 1
        state = LogState(last, ended=True, kept=kept)
        self.events, self.kept, self.begun = events, kept, list[int]()
        super().__init__(STREAM, None, lambda *_: None, drain=asyncio.sleep, found=state)  # type: ignore[arg-type]

    async def read(self, after: int, *, timeout_s: float, limit: int = BATCH) -> Sequence[Event]:
        self.begun.append(after)
        if self.kept is not None and after >= self.kept:
            return Ending([StreamEnd("interrupted", "error")], after=before_ending(self.kept))
        return self.events[after : min(after + limit, self.kept or len(self.events))]


@pytest.mark.parametrize(
    ("kept", "begun", "last"), [(None, [2 * EVERY], 0), (EVERY + 5, [0], EVERY + 4), (0, [], 0)]
)
async def test_a_checkpoint_of_events_that_were_lost_is_not_used(kept, begun, last):
    """Its process has seen what the log has not stored before another ended the stream."""
    checkpoints, events = Checkpoints(), words(3 * EVERY)
    save_all(checkpoints, STREAM, 2 * EVERY)
    reader = KeptLog(events, kept)

    async def resume() -> None:
        await read_from(
            reader,
            CLIENT_FORMATS["anthropic"],
            2 * EVERY + 10,
            http_settings=HttpSettings(),
            retry_ms=0,
            checkpoints=checkpoints,
        )

    if kept is None:
        await resume()
    else:
        with pytest.raises(RelayError, match=rf"{STREAM}\.a{last}' were lost"):
            await resume()
    assert begun == reader.begun[:1]

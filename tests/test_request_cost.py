"""How much is done for a short request and a resume, counted and not timed.

A guard against slow growth. Calls of functions under `app/` count, from the client's first byte
until `stream.end` has reached it. A coroutine or generator counts once, when it begins: how often it is resumed is the
affair of the loop. The request before the counted one has filled the caches.
"""

import asyncio
import dis
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import msgspec

import app
from app.generation.run import Run
from app.hooks.contract import Check, Hook
from app.hooks.text_walk import check_request
from app.requests import parse_chat_request
from app.server.direct_writer import DirectWriter
from app.testing.upstream import DONE, FINISH, chunk, chunked_head, text
from tests.serving import cut_off, serve_relay
from tests.test_token_cost import POST, Client, Lockstep, open_upstream
from tests.waiting import until

APP = str(Path(app.__file__).parent) + "/"
UNCOUNTED = (APP + "testing/", APP + "telemetry/logs.py")
"""What only tests run, and how lines are written, which is as an earlier test has set it."""
REPLY = chunked_head().data + chunk(text("Hello") + FINISH + DONE).data + b"0\r\n\r\n"

RESUME = b"GET /v1/streams/%b/events HTTP/1.1\r\nhost: localhost\r\nlast-event-id: %b.3\r\n\r\n"

FILES = 47
"""Most files under `app/` that are entered before the provider is called, over a new connection: 44
when this was written, and a timer or a slow client may add one."""
CALLS = 523
"""Most calls of functions in them for the whole request: 519 when this was written, and a busy machine adds some."""

FORWARDED_CALLS = 271
"""Most calls for a forwarded one: 268 when this was written, and always a new connection."""

MESSAGES = 1000
LONG = msgspec.json.encode(
    {
        "model": "openai/m-1",
        "messages": [
            {"role": ("user", "assistant")[number % 2], "content": f"text {number}"}
            for number in range(MESSAGES + 1)
        ],
    }
)
LONG_CALLS = 1.5
"""Most calls for each message of a long conversation: 0.5 when this was written, its estimate."""
HOOKED_CALLS = 4.5
"""Most calls for each text that a hook checks: 4 when this was written."""

RESUME_CALLS = 131
"""Most calls to send the last events of an ended stream: 127 when this was written."""


ASK = b'{"model": "openai/m-1", "input": ["a"]}'
MODERATION = (
    b"POST /v1/moderations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
)
VERDICT = b'{"id": "modr-1", "model": "m", "results": []}'
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


class Cost(NamedTuple):
    """The calls of one request; `before` those until the provider was called."""

    before: Counter[CodeType]
    all: Counter[CodeType]


@cache
def _find_start(code: CodeType) -> int:
    """Return the offset at which a profiler sees that a function begins."""
    return next(step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")


@contextmanager
def counted() -> Iterator[Counter[CodeType]]:
    """Count the calls of functions under `app/`."""
    calls: Counter[CodeType] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        name = code.co_filename
        if event != "call" or not name.startswith(APP) or name.startswith(UNCOUNTED):
            return
        if frame.f_lasti == _find_start(code):
            calls[code] += 1

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def count_request(post: bytes = POST) -> Cost:
    async with open_upstream() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        await _ask(relay.port, upstream)
        await cut_off(relay, others=0)
        client = await Client.open(relay.port, b"")
        with counted() as calls:
            client.writer.write(post)
            source = await upstream.ready.get()
            before = calls.copy()
            await _finish(client, source)
        client.writer.close()
    return Cost(before, calls)


async def count_resume() -> Counter[CodeType]:
    async with open_upstream() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        client = await Client.open(relay.port, POST)
        stream = await _finish(client, await upstream.ready.get())
        for _ in range(2):  # the first one fills the caches
            with counted() as calls:
                client.writer.write(RESUME % (stream, stream))
                await client.reader.readuntil(b"stream.end")
                await client.reader.readuntil(b"0\r\n\r\n")
        client.writer.close()
    return calls


async def count_forwarded() -> Counter[CodeType]:
    post = MODERATION + b"content-length: %d\r\n\r\n%b" % (len(ASK), ASK)
    async with open_upstream() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        for _ in range(2):  # the first one fills the caches
            client = await Client.open(relay.port, b"")
            with counted() as calls:
                client.writer.write(post)
                source = await upstream.ready.get()
                source.write(OK % (len(VERDICT), VERDICT))
                await client.reader.readuntil(b"0\r\n\r\n")
                await until(lambda: not relay.hub.calls.count)
                await asyncio.sleep(0.01)  # its stream is deleted
            source.close()
            client.writer.close()
    return calls


async def count_garbage() -> Counter[str]:
    """Return what a request leaves to the collector, by its type."""
    async with open_upstream() as upstream, serve_relay(upstream) as relay:  # type: ignore[arg-type]
        await _ask(relay.port, upstream)
        await cut_off(relay, others=0)
        client = await Client.open(relay.port, b"")
        for _ in range(2):  # the next request replaces what the connection has of one
            gc.collect()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                client.writer.write(POST)
                await _finish(client, await upstream.ready.get())
                await until(lambda: not relay.hub.load().streams)
                gc.collect()
            finally:
                gc.set_debug(0)
            found = Counter(f"{type(one).__module__}.{type(one).__name__}" for one in gc.garbage)
            gc.garbage.clear()
        client.writer.close()
    return found


async def _ask(port: int, upstream: Lockstep) -> None:
    client = await Client.open(port, POST)
    await _finish(client, await upstream.ready.get())
    client.writer.close()


async def _finish(client: Client, source: asyncio.StreamWriter) -> bytes:
    """End the answer, and return the id of its stream."""
    source.write(REPLY)
    read = await client.reader.readuntil(b"stream.end")
    await client.reader.readuntil(b"0\r\n\r\n")
    source.close()
    return read.partition(b"stream-id: ")[2].partition(b"\r\n")[0]


def show(calls: Counter[CodeType], most: int = 60) -> str:
    """Return a table of the functions that are called most."""
    return "\n".join(
        f"{count:5} {code.co_filename.removeprefix(APP)} {code.co_qualname}"
        for code, count in calls.most_common(most)
    )


def show_files(calls: Counter[CodeType]) -> str:
    """Return a table of the files, with the calls in each."""
    files: Counter[str] = Counter()
    for code, count in calls.items():
        files[code.co_filename.removeprefix(APP)] += count
    return "\n".join(f"{count:5} {name}" for name, count in files.most_common())


async def test_a_short_request_takes_few_calls() -> None:
    for _ in range(3):  # a busy machine adds calls to some: ticks, and bodies in pieces
        cost = await count_request()
        if cost.all.total() <= CALLS:
            break

    assert 200 < cost.all.total() <= CALLS, f"{cost.all.total()} calls\n{show(cost.all)}"


async def test_the_first_frames_are_written_before_the_end_is_reported() -> None:
    cost = await count_request()

    first = list(cost.all).index
    assert first(DirectWriter._write_first.__code__) < first(Run._report_ended.__code__)


async def test_a_short_request_leaves_nothing_to_the_collector() -> None:
    found = await count_garbage()

    assert not [name for name in found if name.startswith(("app.", "uvicorn."))], found


async def test_a_long_conversation_takes_few_calls_a_message() -> None:
    head = POST.partition(b"content-length")[0]
    cost = await count_request(head + b"content-length: %d\r\n\r\n%b" % (len(LONG), LONG))

    calls = (cost.all.total() - CALLS) / MESSAGES
    assert 0 < calls <= LONG_CALLS, f"{calls} calls\n{show(cost.all)}"


async def test_a_hook_that_changes_nothing_takes_few_calls_a_message() -> None:
    async def keep(_: Check) -> None:
        """Pass everything."""

    chat = parse_chat_request(LONG)
    with counted() as calls:
        (checked,), _ = await check_request(
            [Hook(name="keep", call=keep)], chat, route="", stream=""
        )

    assert chat == checked
    each = calls.total() / MESSAGES
    assert 1 < each <= HOOKED_CALLS, f"{each} calls\n{show(calls)}"


async def test_the_first_frames_are_written_with_the_head() -> None:
    cost = await count_request()

    assert 1 == cost.all[DirectWriter._write_first.__code__]


async def test_a_request_enters_few_files_before_the_provider_is_called() -> None:
    cost = await count_request()

    files = {code.co_filename for code in cost.before}
    assert 20 < len(files) <= FILES, f"{len(files)} files\n{show_files(cost.before)}"


async def test_a_forwarded_call_takes_few_calls() -> None:
    calls = await count_forwarded()

    assert 100 < calls.total() <= FORWARDED_CALLS, f"{calls.total()} calls\n{show(calls)}"


async def test_a_resume_takes_few_calls() -> None:
    calls = await count_resume()

    assert 40 < calls.total() <= RESUME_CALLS, f"{calls.total()} calls\n{show(calls)}"

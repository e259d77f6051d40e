"""Records streams from the log to cassettes, with measured times where available.

The log stores no times of events, and the path of a token measures none. The recorder of a running
stream measures the arrival of its batches; earlier events are spread evenly over their time, and
the head of the cassette contains the first event with a measured time.

Depending on the settings, it also finds the cassette of a request, and records one for a request
without one.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from typing import Final, Literal

import msgspec
import structlog

from ..cassettes.cassette import (
    MAX_BYTES,
    CassetteHead,
    TimedEvent,
    make_head,
    name_of_recording,
    render_event,
    render_head,
    spread,
)
from ..cassettes.digest import digest_of, request_of
from ..cassettes.folder import Folder, FolderFull
from ..cassettes.replay_options import CassetteOptions
from ..errors import RelayError, RequestError
from ..eventlog import EventLog, cursor_after
from ..eventlog.stream_info import StreamInfo
from ..events import Event, StreamEnd
from ..requests import ChatRequest
from ..upstreams.cassettes import CassetteTarget
from ..upstreams.routes import Route

READ_S: Final = 60.0
"""The timeout of one read of the log, in seconds."""

SAVE_S: Final = 5.0
"""The maximum seconds to wait for an equal request's cassette that is being written."""

Mode = Literal["off", "new", "replay"]

ReadLog = Callable[[int], Awaitable[Sequence[Event]]]
"""(cursor) to the events after it; waits for the first one."""

log = structlog.get_logger("seseragi.cassettes")


class CassetteChoice(msgspec.Struct, frozen=True):
    """The route or cassette that answers a request."""

    route: Route
    digest: str = ""
    cassette: str = ""
    """The cassette to replay."""
    records: str = ""
    """The cassette to record."""


def spread_events(events: Sequence[Event], *, seconds: float) -> list[TimedEvent]:
    """Return events without measured times, spread evenly over their duration."""
    return list(map(TimedEvent, spread(len(events), seconds), events))


async def follow(read: ReadLog, *, started_at: float) -> AsyncIterator[list[TimedEvent]]:
    """Yield each batch of events as it arrives, to the end of the stream."""
    events: Sequence[Event] = ()
    after, latest = 0, max(time.time() - started_at, 0.0)
    while not (events and isinstance(events[-1], StreamEnd)):
        events = await read(after)
        # A wall clock may be set back; the times of a cassette do not decrease.
        latest = max(latest, time.time() - started_at)
        if events:
            after = cursor_after(after, events)
            yield [TimedEvent(latest, event) for event in events]


def too_large() -> RequestError:
    """Return the error for a stream that is too large for a cassette."""
    return RequestError(
        "conflict", f"the stream exceeds the limit of a cassette, {MAX_BYTES // 2**20} MiB"
    )


class CassetteRecorder:
    """Finds and records the cassettes of requests in a folder.

    In the mode "new" a request without a cassette is recorded, in "replay" it is refused; in "off"
    cassettes are not searched. Streams of `excluded` upstreams are neither recorded nor replaced.
    """

    def __init__(
        self, folder: Folder, *, mode: Mode, keeps_requests: bool, excluded: Collection[str]
    ) -> None:
        self._folder = folder
        self._mode = mode
        self._keeps_requests = keeps_requests
        self._excluded = frozenset(excluded)
        self._tasks: set[asyncio.Task[None]] = set()
        """The tasks of streams that are being recorded."""
        self._saving: dict[str, asyncio.Task[None]] = {}
        """The recordings that are being written, by the names of their cassettes."""

    async def choose(self, route: Route, name: str, chat: ChatRequest) -> CassetteChoice:
        """Return the route that answers a request to a model of a public name.

        Raises:
            RelayError: the cassette to replay is missing or broken.
            RequestError: `invalid_request`, the request has none and may not be recorded.
        """
        target = route.targets[0]
        if isinstance(target, CassetteTarget):
            return await self._replay(route, target.options)
        targets = route.for_request(chat).targets if route.has_doors else route.targets
        formats = {one for target in targets for one in target.dialect.passthrough}
        digest = digest_of(name, chat, formats=formats)
        if self._mode == "off" or any(one.upstream.name in self._excluded for one in route.targets):
            return CassetteChoice(route, digest)
        cassette = name_of_recording(name, digest)
        if (saving := self._saving.get(cassette)) is not None:
            await asyncio.wait({saving}, timeout=SAVE_S)
        if not await asyncio.to_thread(self._folder.has, cassette):
            if self._mode == "replay":
                raise RequestError(
                    "invalid_request",
                    f"no cassette '{cassette}.jsonl' for this request to {name[:100]!r}; "
                    "record it with record_cassettes = 'new'",
                )
            return CassetteChoice(route, digest, records=cassette)
        choice = await self._replay(route, CassetteOptions(cassette))
        log.info("request replayed from its cassette", cassette=cassette, model=name)
        return msgspec.structs.replace(choice, digest=digest)

    async def _replay(self, route: Route, options: CassetteOptions) -> CassetteChoice:
        # Also loaded here, so that a broken cassette fails before the stream exists.
        cassette = await asyncio.to_thread(self._folder.load, options.name)
        replaying = Route(
            route.name,
            (CassetteTarget.of(options),),
            record_content=route.record_content,
            requested_name=cassette.head.model,
        )
        return CassetteChoice(replaying, cassette=options.name)

    def record(
        self, event_log: EventLog, info: StreamInfo, choice: CassetteChoice, chat: ChatRequest
    ) -> None:
        """Record a started stream, which becomes a cassette if it completes."""
        head = make_head(
            choice.route.name,
            measured_from=1,
            request_digest=choice.digest,
            request=request_of(info.route, chat) if self._keeps_requests else None,
        )
        task = asyncio.create_task(self._record(event_log, info, choice.records, head))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record(
        self, event_log: EventLog, info: StreamInfo, cassette: str, head: CassetteHead
    ) -> None:
        stream = info.id

        async def read(after: int) -> Sequence[Event]:
            return await event_log.read(stream, after, timeout_s=READ_S)

        lines = [render_head(head)]
        size = len(lines[0])
        end: Event | None = None
        try:
            async for batch in follow(read, started_at=info.created_at):
                for at, end in batch:
                    lines.append(render_event(end, at))
                    size += len(lines[-1])
                if size > MAX_BYTES:
                    log.warning("stream not recorded: it is too large", stream=stream, bytes=size)
                    return
        except RelayError as error:  # deleted, or the log has failed
            log.info("stream not recorded", stream=stream, code=error.code)
            return
        if isinstance(end, StreamEnd) and end.status == "completed":
            await self._save(cassette, b"".join(lines), stream=stream)

    async def _save(self, cassette: str, data: bytes, *, stream: str) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (it is a coroutine's)
        self._saving[cassette] = task
        try:
            await asyncio.to_thread(self._folder.save, cassette, data)
        except (OSError, FolderFull) as error:
            reported = getattr(error, "strerror", None) or str(error)
            log.warning("cassette not written", cassette=cassette, error=reported)
        else:
            log.info("stream recorded to a cassette", stream=stream, cassette=cassette)
        finally:
            if self._saving.get(cassette) is task:
                del self._saving[cassette]

    async def close(self, *, timeout_s: float) -> None:
        """Write the cassettes of all streams, which have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        for task in self._tasks:
            task.cancel()

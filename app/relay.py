"""One generation: the bytes of an upstream into the log.

The path of a token: `Decoder.feed` (bytes to messages), `Parser.feed` (messages to
events), `EventLog.append`. What arrived in one read moves as one batch.

Nothing visible is logged before the target is committed, that is, before the upstream has
sent a first piece of answer or completed an empty one: until then a failure can still
become an HTTP status.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

import httpx2
import msgspec
import structlog

from app.dialects.parser import Parser
from app.errors import RelayError, ServiceError, UpstreamError
from app.eventlog import EventLog, read_all
from app.eventlog.recovery import ending_of
from app.events import (
    ChoiceEnd,
    ContentFilter,
    Event,
    Notice,
    Status,
    StreamEnd,
    StreamStart,
    StreamTarget,
    Usage,
)
from app.limits import Deadlines, Limits
from app.requests import ChatRequest
from app.upstreams.http import FAILURES, explain, open_stream
from app.upstreams.routes import Target
from app.watch import Watch

REUSE_WAIT_S = 0.2
"""How long an answer that has ended may take to end its body too, to keep the connection."""

log = structlog.get_logger("seseragi.relay")


class Relay:
    """Runs one generation, once, and never raises: every end is a `stream.end` in the log.

    `committed` resolves as soon as the outcome of the start is known: to None when the
    answer has begun, to the error when the stream failed before anything visible.
    """

    def __init__(
        self,
        stream: str,
        request: ChatRequest,
        *,
        model: str,
        target: Target,
        client: httpx2.AsyncClient,
        event_log: EventLog,
        limits: Limits,
    ) -> None:
        self.stream = stream
        self.committed: asyncio.Future[RelayError | None] = asyncio.Future()
        self._request = request
        self._model = model
        self._target = target
        self._client = client
        self._log = event_log
        self._limits = limits
        self._parser: Parser = target.dialect.parser(
            upstream=target.upstream.name, choices=request.n or 1
        )
        self._held: list[Event] = []
        self._stop: tuple[Status, RelayError | None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._clock = asyncio.get_running_loop().time
        self._started_at = self._clock()
        self._deadlines = Deadlines(limits, now=self._started_at)
        self._first_event_s: float | None = None
        self._refused = False
        """Whether the log did not take what it was given."""
        self._count = 0

    async def run(self) -> None:
        """Relay the whole answer; returns when the `stream.end` is in the log.

        Where not even that can be written the stream stays without an end, which is logged,
        and which the log's own recovery mends.
        """
        self._task = asyncio.current_task()
        try:
            await self._run()
        except Exception as failure:
            log.exception("relay failed", stream=self.stream)
            error = ServiceError("internal", "the relay failed; its log tells more")
            with contextlib.suppress(RelayError):
                await self._end_by_log(failure if isinstance(failure, RelayError) else error)
        finally:
            if not self.committed.done():
                self.committed.set_result(ServiceError("internal", "the event log failed"))

    async def _run(self) -> None:
        try:
            await self._append([StreamStart(self.stream, self._model, int(time.time()))])
            if self._stop is None:
                await self._pump()
        except asyncio.CancelledError:
            pass
        except RelayError as error:
            if self._refused:
                await self._end_by_log(error)
            else:
                await self._log_events(self._parser.stop("failed", error))
        await self._log_events(self._parser.stop(*self._why_stopped()))

    async def _end_by_log(self, error: RelayError) -> None:
        """End as failed when the parser is ahead of the log: it knows what has to be closed."""
        self._parser.stop("failed", error)
        self._held = []
        written = await read_all(self._log, self.stream)
        await self._log_events(ending_of(written, status="failed", error=error.info()))

    def stop(self, status: Status, error: RelayError | None = None) -> None:
        """End the generation from outside and close the upstream; the first call counts."""
        if self._stop is None and not self._parser.ended:
            self._stop = (status, error)
            if self._task is not None:
                self._task.cancel()

    def _why_stopped(self) -> tuple[Status, RelayError | None]:
        return self._stop or ("interrupted", shut_down())

    async def _pump(self) -> None:
        upstream = self._target.upstream.name
        answered = False
        try:
            async with asyncio.timeout(None) as patience:
                with Watch(self._deadlines, patience) as watch:
                    request = await self._target.build_request(self._client, self._request)
                    response = await open_stream(self._client, request, upstream=upstream)
                    answered = True
                    try:
                        await self._read(response, watch)
                    finally:
                        await response.aclose()
        except TimeoutError:
            _, reason = self._deadlines.next()
            error = UpstreamError("upstream_timeout", f"upstream {upstream!r} {reason}")
            await self._log_events(self._parser.cut(error))
        except FAILURES as failure:
            log.warning("upstream connection failed", upstream=upstream, error=str(failure)[:300])
            error = explain(failure, upstream=upstream, answered=answered)
            await self._log_events(self._parser.cut(error))

    async def _read(self, response: httpx2.Response, watch: Watch) -> None:
        """Move bytes until the parser has seen the end, or there are no more."""
        decoder = self._target.dialect.decoder(
            max_line=self._limits.max_line, max_event=self._limits.max_event
        )
        parser = self._parser
        chunks = response.aiter_bytes()
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                events: list[Event] = []
                for message in decoder.feed(chunk):
                    events += parser.feed(message)
                watch.saw(events=bool(events), finished=parser.finished)
                if events:
                    await self._log_events(events)
                if parser.ended:
                    await _finish_body(chunks)
                    return
        await self._log_events(parser.close(decoder.close()))

    async def _log_events(self, events: Sequence[Event]) -> None:
        """Append a batch, or hold it while nothing visible has come."""
        if not events:
            return
        events = self._redacted(events)
        if self.committed.done():
            await self._append(events)
            return
        held, self._held = [*self._held, *events], []
        end = events[-1] if isinstance(events[-1], StreamEnd) else None
        if any(map(_is_visible, events)) or (end is not None and end.status == "completed"):
            self._first_event_s = self._clock() - self._started_at
            try:
                await self._append([self._committed_target(), *held])
            except asyncio.CancelledError:  # which the append survives
                self.committed.set_result(None)
                raise
            self.committed.set_result(None)
        elif end is not None:
            await self._append(held)
            self.committed.set_result(
                RelayError.of(end.error)
                if end.error is not None
                else ServiceError("cancelled", "the stream was cancelled before it began")
            )
        else:
            self._held = held

    def _redacted(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take the upstream's key out of the error, which may quote what the provider said."""
        end = events[-1]
        if not isinstance(end, StreamEnd) or end.error is None:
            return events
        message = self._target.upstream.credentials.redact(end.error.message)
        error = msgspec.structs.replace(end.error, message=message)
        return [*events[:-1], msgspec.structs.replace(end, error=error)]

    def _committed_target(self) -> StreamTarget:
        upstream, parser = self._target.upstream.name, self._parser
        return StreamTarget(upstream, parser.model or self._target.model, 1, parser.upstream_id)

    async def _append(self, events: Sequence[Event]) -> None:
        try:
            await self._log.append(self.stream, events)
        except RelayError as error:
            self._refused = True
            if error.code == "overloaded":
                await self._fill(events, error)
            raise
        self._count += len(events)
        if isinstance(events[-1], StreamEnd):
            self._report(events[-1])

    async def _fill(self, events: Sequence[Event], full: RelayError) -> NoReturn:
        """Append as many of the events as the log takes, then fail as too long."""
        taken = 0
        with contextlib.suppress(RelayError):
            for event in events:
                await self._log.append(self.stream, [event])
                taken += 1
        if not self.committed.done() and any(map(_is_visible, events[1:taken])):
            self.committed.set_result(None)
        self._count += taken
        raise UpstreamError("upstream_invalid_response", full.message) from None

    def _report(self, end: StreamEnd) -> None:
        usage = end.usage
        log.info(
            "stream ended",
            stream=self.stream,
            model=self._model,
            upstream=self._target.upstream.name,
            status=end.status,
            finish_reason=end.finish_reason,
            code=end.error.code if end.error else None,
            events=self._count,
            first_event_s=_rounded(self._first_event_s),
            duration_s=_rounded(self._clock() - self._started_at),
            output_tokens=usage.output_tokens if usage else None,
        )


def shut_down() -> ServiceError:
    """What a stream ends with when the relay stops before it is complete."""
    return ServiceError("producer_lost", "the relay was shut down before the answer was complete")


def _is_visible(event: Event) -> bool:
    """Tell whether a reader would see a piece of the answer in it."""
    return not isinstance(event, ContentFilter | Notice | Usage | ChoiceEnd | StreamEnd)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


async def _finish_body(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of a body whose answer has ended, so that its connection can be reused."""
    with contextlib.suppress(TimeoutError, *FAILURES):
        async with asyncio.timeout(REUSE_WAIT_S):
            async for _ in chunks:
                pass

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
from collections.abc import AsyncIterator, Iterator, Sequence

import aiohttp
import httpx2
import structlog

from app.dialects.failure import parse_failure
from app.dialects.openai_chat import Parser
from app.dialects.table import DIALECTS
from app.errors import RelayError, ServiceError, UpstreamError
from app.eventlog import EventLog
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
from app.framing.sse import FramingError
from app.limits import Deadlines, Timeouts
from app.requests import ChatRequest
from app.upstreams import Target

MAX_FAILURE_BYTES = 64 * 1024
"""How much of an error reply is read."""

FAILURE_WAIT_S = 5.0
"""How long the body of an error reply may take."""

REUSE_WAIT_S = 0.2
"""How long an answer that has ended may take to end its body too, to keep the connection."""

log = structlog.get_logger("seseragi.relay")


class Limits(Timeouts, frozen=True):
    """Timeouts in seconds and the sizes, in bytes, of what one upstream may send."""

    max_line: int = 16 * 2**20
    max_event: int = 16 * 2**20


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
        self._dialect = DIALECTS[target.upstream.dialect]
        self._parser: Parser = self._dialect.parser(upstream=target.upstream.name)
        self._held: list[Event] = []
        self._stop: tuple[Status, RelayError | None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._clock = asyncio.get_running_loop().time
        self._started_at = self._clock()
        self._deadlines = Deadlines(limits, now=self._started_at)
        self._first_event_s: float | None = None
        self._answered = False
        self._count = 0

    async def run(self) -> None:
        """Relay the whole answer; returns when the `stream.end` is in the log."""
        self._task = asyncio.current_task()
        await self._append([StreamStart(self.stream, self._model, int(time.time()))])
        try:
            if self._stop is None:
                await self._pump()
        except asyncio.CancelledError:
            await self._log_events(self._parser.stop(*self._why_stopped()))
        except RelayError as error:
            await self._log_events(self._parser.stop("failed", error))
        except Exception:
            log.exception("relay failed", stream=self.stream)
            bug = ServiceError("internal", "the relay failed; its log tells more")
            await self._log_events(self._parser.stop("failed", bug))
        else:
            await self._log_events(self._parser.stop(*self._why_stopped()))

    def stop(self, status: Status, error: RelayError | None = None) -> None:
        """End the generation from outside and close the upstream; the first call counts."""
        if self._stop is None and not self._parser.ended:
            self._stop = (status, error)
            if self._task is not None:
                self._task.cancel()

    def _why_stopped(self) -> tuple[Status, RelayError | None]:
        return self._stop or ("interrupted", shut_down())

    async def _pump(self) -> None:
        name = self._target.upstream.name
        try:
            async with asyncio.timeout(None) as patience:
                with _watch(self._deadlines, patience):
                    response = await self._open()
                    try:
                        await self._read(response)
                    finally:
                        await response.aclose()
        except TimeoutError:
            _, reason = self._deadlines.next()
            await self._cut(UpstreamError("upstream_timeout", f"upstream {name!r} {reason}"))
        except FramingError as error:
            raise UpstreamError(
                "upstream_invalid_response", f"upstream {name!r} sent what cannot be read: {error}"
            ) from None
        except httpx2.DecodingError:
            raise UpstreamError(
                "upstream_invalid_response",
                f"upstream {name!r} sent a body that does not match its content-encoding",
            ) from None
        except (httpx2.HTTPError, aiohttp.ClientError, OSError) as error:
            log.warning("upstream connection failed", upstream=name, error=str(error)[:300])
            connect_s = self._limits.connect_timeout_s
            await self._cut(
                _explain(error, name=name, answered=self._answered, connect_s=connect_s)
            )

    async def _open(self) -> httpx2.Response:
        """Send the request; return a response that promises a stream.

        Raises:
            UpstreamError: the upstream refused, or answered with something else.
        """
        name = self._target.upstream.name
        request = self._target.build_request(self._client, self._request)
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code >= 400:
                body = await _read_some(response)
                raise parse_failure(response.status_code, response.headers, body, upstream=name)
            media_type = response.headers.get("content-type", "").partition(";")[0].strip()
            if response.status_code >= 300 or response.status_code == 204:
                raise UpstreamError(
                    "upstream_invalid_response",
                    f"upstream {name!r} answered with status {response.status_code} instead of a "
                    "stream; check its base URL",
                )
            if media_type.lower() in ("text/html", "application/xhtml+xml"):
                raise UpstreamError(
                    "upstream_invalid_response",
                    f"upstream {name!r} answered with {media_type} instead of a stream; "
                    "check its base URL",
                )
        except BaseException:
            await response.aclose()
            raise
        self._answered = True
        return response

    async def _read(self, response: httpx2.Response) -> None:
        """Move bytes until the parser has seen the end, or there are no more."""
        decoder = self._dialect.decoder(
            max_line=self._limits.max_line, max_event=self._limits.max_event
        )
        parser = self._parser
        chunks = response.aiter_bytes()
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                self._deadlines.on_bytes(self._clock())
                events: list[Event] = []
                for message in decoder.feed(chunk):
                    events += parser.feed(message)
                if events or parser.finished:
                    self._deadlines.on_events(self._clock(), finished=parser.finished)
                if events:
                    await self._log_events(events)
                if parser.ended:
                    await self._finish_body(chunks)
                    return
        await self._log_events(parser.close(decoder.close()))

    async def _finish_body(self, chunks: AsyncIterator[bytes]) -> None:
        """Read on to the end of a body whose answer has ended, so its connection can be reused."""
        with contextlib.suppress(TimeoutError, httpx2.HTTPError):
            async with asyncio.timeout(REUSE_WAIT_S):
                async for _ in chunks:
                    pass

    async def _cut(self, error: UpstreamError) -> None:
        """End after the connection broke; the parser knows whether all had come."""
        await self._log_events(self._parser.cut(error))

    async def _log_events(self, events: Sequence[Event]) -> None:
        """Append a batch, or hold it while nothing visible has come."""
        if not events:
            return
        if self.committed.done():
            await self._append(events)
            return
        self._held += events
        end = events[-1] if isinstance(events[-1], StreamEnd) else None
        failed = end is not None and end.status != "completed"
        if any(_is_visible(event) for event in events) or (end is not None and not failed):
            target = StreamTarget(
                self._target.upstream.name,
                self._parser.model or self._target.model,
                1,
                self._parser.upstream_id,
            )
            self._first_event_s = self._clock() - self._started_at
            await self._append([target, *self._held])
            self.committed.set_result(None)
        elif end is not None:
            await self._append(self._held)
            assert end.error is not None or end.status == "cancelled"  # noqa: S101
            self.committed.set_result(
                RelayError.of(end.error)
                if end.error is not None
                else ServiceError("cancelled", "the stream was cancelled before it began")
            )

    async def _append(self, events: Sequence[Event]) -> None:
        self._count += len(events)
        await self._log.append(self.stream, events)
        if isinstance(events[-1], StreamEnd):
            self._report(events[-1])

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


async def _read_some(response: httpx2.Response) -> bytes:
    """Read the start of an error reply; a broken or endless one is cut short."""
    body = b""
    with contextlib.suppress(httpx2.HTTPError, TimeoutError):
        async with asyncio.timeout(FAILURE_WAIT_S):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) >= MAX_FAILURE_BYTES:
                    break
    return body[:MAX_FAILURE_BYTES]


@contextlib.contextmanager
def _watch(deadlines: Deadlines, patience: asyncio.Timeout) -> Iterator[None]:
    """Expire `patience` when `deadlines` say so.

    The timer is set anew only when it fires, not at each event: what comes in a stream
    costs two assignments here.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def check() -> None:
        nonlocal timer
        when, _ = deadlines.next()
        if when <= loop.time():
            patience.reschedule(loop.time())
        else:
            timer = loop.call_at(when, check)

    check()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


def _explain(error: Exception, *, name: str, answered: bool, connect_s: float) -> UpstreamError:
    """Say what a failure of the connection means, without addresses or URLs."""
    if answered:
        return UpstreamError(
            "upstream_truncated", f"upstream {name!r} closed the connection in mid-answer"
        )
    # The transport reports a server that hangs up as a connect timeout: the cause tells.
    if isinstance(error, httpx2.TimeoutException) and isinstance(error.__cause__, TimeoutError):
        return UpstreamError(
            "upstream_timeout", f"upstream {name!r} could not be connected to in {connect_s:g} s"
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return UpstreamError(
            "upstream_unavailable",
            f"upstream {name!r} cannot be reached; check its base URL and that it is up",
        )
    return UpstreamError(
        "upstream_unavailable", f"upstream {name!r} closed the connection without an answer"
    )

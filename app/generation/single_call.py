"""What upstreams are asked in one call that is answered with one document.

No stream is made of it that anybody could read; what it costs is booked (`.booking`).
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
import structlog

from ..deadlines import Limits
from ..dialects.embeddings import SAFE, Format, Parsed, Request, estimate, format_of, join
from ..dialects.vectors import as_base64, as_numbers
from ..dialects.writing.token_counts import COUNTS
from ..dialects.writing.token_estimate import estimate_tokens
from ..errors import RelayError, RequestError, ServiceError, UpstreamError
from ..events import TokenCounts
from ..identity.principal import Principal
from ..requests import ChatRequest
from ..retry import Breaker
from ..telemetry.observer import AttemptStarted, CallEnded, Observer
from ..upstreams.client import Client
from ..upstreams.http import FAILURES, MAX_SAID, explain, fetch, was_sent
from ..upstreams.routes import Route, Upstreams
from ..upstreams.targets import Target
from ..upstreams.transport import Call
from .booking import Booking, Bookings, Tally
from .failover import Failover

COUNT_S: Final = 10.0
"""How long an upstream may take to count: then it is estimated."""

COUNT_BYTES: Final = 64 * 1024

EMBED_BYTES: Final = 64 * 2**20
"""Of an answer: the vectors of 2,048 texts are 34 MB as base64, and three times that as text."""

ANSWERED: Final = ("upstream_truncated", "upstream_invalid_response")
"""The failures of an upstream that may have done its work, and may bill it."""

AT_ONCE: Final = 4
"""Calls for one request, where an upstream takes fewer texts in one than were sent."""

CONVERTED: Final = 8
"""Vectors that are converted before others have their turn: 0.5 ms."""

MAX_TOLD: Final = 20
"""How many fields are told of that were left out."""

T = TypeVar("T")

log = structlog.get_logger("seseragi.asking")


class Counted(NamedTuple):
    """How many tokens a request takes."""

    tokens: int
    estimated: bool


class Embedded(NamedTuple):
    """The vectors of a request's inputs."""

    vectors: list[bytes]
    """As JSON, in the form that was asked for."""
    model: str
    tokens: int | None
    """None where the upstream does not say."""
    ignored: list[str]
    """The fields of the request that it was not told."""


class _Told:
    """What observers say to an attempt, and what they are told of it."""

    __slots__ = ("answered_model", "headers", "usage")

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        """What its calls say beside their own headers."""
        self.answered_model: str | None = None
        self.usage: TokenCounts | None = None


class Asking:
    """Asks upstreams for one client; the `headers` of its request go with each call."""

    def __init__(
        self,
        upstreams: Upstreams,
        client: Client,
        principal: Principal,
        *,
        limits: Limits,
        headers: Mapping[str, str],
        bookings: Bookings,
        observer: Observer,
    ) -> None:
        self._observer = observer
        self._bookings = bookings
        self._upstreams = upstreams
        self._client = client
        self._principal = principal
        self._limits = limits
        self._headers = headers
        self._clock = asyncio.get_running_loop().time

    async def count(self, chat: ChatRequest) -> Counted:
        """Count the tokens of a request, by the target that would be tried first.

        Where that cannot count, or fails, they are estimated.

        Raises:
            RequestError: `model_not_found`, `forbidden`, and what is wrong with the request by
                the word of the upstream that was to count.
            LimitReached: there are too many requests.
        """
        target = self._first(chat.model)
        async with self._bookings.free_call():
            return await self._count(target, chat)

    async def _count(self, target: Target, chat: ChatRequest) -> Counted:
        count = COUNTS.get(target.upstream.dialect)
        if count is not None and not self._upstreams.breakers.rests_for(target.name, self._clock()):
            try:
                with self._tell(target, "token_count") as told:
                    call = await target.build_count(chat, count)
                    async with _patience(target, COUNT_S):
                        body = await self._fetch(target, call, told, max_bytes=COUNT_BYTES)
                    tokens = count.read(body)
            except RelayError as error:
                if error.code in ("upstream_invalid_request", "context_length_exceeded"):
                    raise
                name = target.upstream.name
                log.info("tokens estimated", upstream=name, code=error.code)
            else:
                if tokens is not None:
                    return Counted(tokens, estimated=False)
        return Counted(estimate_tokens(chat), estimated=True)

    async def embed(self, request: Request, take: Callable[[int], None]) -> Embedded:
        """Embed the inputs of a request, by the targets of its route in their order.

        `take` is called with the bytes of memory that the answer needs as it comes; what it
        raises ends the call.

        Raises:
            LimitReached: there is not enough left for it.
            RelayError: no target could.
        """
        route = self._upstreams.resolve_for(self._principal, request.model)
        tokens = estimate(request.inputs)
        async with self._bookings.call(route, model=request.model, input_tokens=tokens) as booking:
            found = await self._try_targets(
                route,
                booking,
                lambda target, tally, told: self._embed(target, request, take, tally, told),
            )
            booking.answered_model = found.model
            return found

    async def _embed(
        self,
        target: Target,
        request: Request,
        take: Callable[[int], None],
        tally: Tally,
        told: _Told,
    ) -> Embedded:
        upstream = target.upstream
        api = format_of(upstream.dialect, model=target.model, base_url=upstream.base_url)
        _check(request, target, api)
        assert api is not None  # noqa: S101  (for mypy; it was checked)
        fitted, ignored = _fit(request, target, api)
        field = getattr(upstream.quirks, "dimensions_field", "dimensions")
        gate = asyncio.Semaphore(AT_ONCE)

        async def ask(inputs: Sequence[str | list[int]]) -> Parsed:
            body = api.render(fitted, inputs, model=target.model, dimensions_field=field)
            tokens = estimate(inputs)
            async with gate:
                call = await target.build_json(api.path, body)
                tally.sent(tokens)
                answer = await self._fetch(
                    target,
                    call,
                    told,
                    max_bytes=EMBED_BYTES,
                    take=take,
                    not_taken=partial(tally.refused, tokens),
                )
            try:
                parsed = api.parse(answer)
            except (msgspec.MsgspecError, RecursionError):
                raise _unreadable(target, "no embeddings") from None
            tally.answered(tokens, parsed.tokens, parsed.cost)
            if len(parsed.vectors) != len(inputs):
                raise _unreadable(target, f"{len(parsed.vectors)} vectors for {len(inputs)} texts")
            return parsed

        inputs = request.inputs
        starts = range(0, len(inputs), api.most)
        parts = await _gather([ask(inputs[start : start + api.most]) for start in starts])
        found = join(parts)
        vectors = []
        convert = as_base64 if request.base64 else as_numbers
        for number, vector in enumerate(found.vectors):
            try:
                vectors.append(convert(bytes(vector)))
            except ValueError as reason:
                raise _unreadable(target, f"a vector that is none: {reason}") from None
            take(len(vectors[-1]))
            if number % CONVERTED == 0:
                await asyncio.sleep(0)
        model = upstream.redact(found.model or target.model)
        told.answered_model, told.usage = model, tally.counts
        return Embedded(vectors, model, found.tokens, ignored)

    async def _try_targets(
        self,
        route: Route,
        booking: Booking,
        work: Callable[[Target, Tally, _Told], Coroutine[Any, Any, T]],
    ) -> T:
        """Do something at the targets of a route in their turn, by the rules of generations."""
        upstreams, clock, limits = self._upstreams, self._clock, self._limits
        now, name = clock(), secrets.token_urlsafe(16)
        upstreams.check_awake(route, now=now)
        failover = Failover(upstreams, route, name=name, limits=limits, now=now)
        step = failover.first()
        while True:
            await asyncio.sleep(step.wait_s)
            target, now = failover.target, clock()
            silence_s = min(failover.begin(now), failover.deadline - now)
            try:
                with self._tell(target, "embeddings", attempt=step.attempt) as told:
                    async with _patience(target, max(0.0, silence_s)):
                        found = await work(target, booking.attempt(target.name), told)
            except RelayError as error:
                if isinstance(error, ServiceError):  # the relay's own
                    raise
                now = clock()
                failover.failed(error, now)
                # A status of the upstream: else there was no answer, or a part of one.
                handed_on = error.__cause__ is None and error.code != "upstream_truncated"
                following = failover.next(error, now, handed_on=handed_on)
                log.warning(
                    "call failed",
                    upstream=target.name,
                    attempt=step.attempt,
                    code=error.code,
                    said=error.said or None,
                )
                if following is None:
                    raise failover.verdict(error) from None
                step = following
            else:
                now = clock()
                failover.answered(now)
                failover.completed(now)
                return found
            finally:
                failover.end()

    @contextlib.contextmanager
    def _tell(
        self, target: Target, operation: Literal["embeddings", "token_count"], *, attempt: int = 1
    ) -> Iterator[_Told]:
        """Tell the observers that a target is asked, and how that has ended."""
        call, told, code = secrets.token_urlsafe(16), _Told(), None
        started = AttemptStarted(call, attempt, target, told.headers, operation)
        self._observer.attempt_started(started)
        try:
            yield told
        except RelayError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        finally:
            ended = CallEnded(call, attempt, code, told.answered_model, told.usage)
            self._observer.call_ended(ended)

    def _first(self, model: str | None) -> Target:
        """Return the target that a request for a model would go to now, of equal ones the first."""
        breakers, now = self._upstreams.breakers, self._clock()

        def key(target: Target) -> tuple[bool, int]:
            breaker: Breaker = breakers.named(target.name)
            rests = breakers.rests_for(target.name, now) > 0
            return rests or not breaker.passes(now), target.policy.order

        route = self._upstreams.resolve_for(self._principal, model)
        return min(route.targets, key=key)

    async def _fetch(
        self,
        target: Target,
        call: Call,
        told: _Told,
        *,
        max_bytes: int,
        take: Callable[[int], None] = lambda _: None,
        not_taken: Callable[[], None] = lambda: None,
    ) -> bytes:
        """Make a call; give what it is answered with.

        `not_taken` is called if it fails so that the upstream cannot bill it.

        Raises:
            UpstreamError: whatever goes wrong, in words that may be shown.
            RelayError: what `take` raises.
        """
        upstream = target.upstream
        call.headers.update(self._headers)  # after signing: a provider need not believe them
        call.headers.update(told.headers)
        call = call._replace(connect_timeout_s=self._limits.connect_timeout_s)
        try:
            return await fetch(
                self._client, call, upstream=upstream.name, max_bytes=max_bytes, take=take
            )
        except UpstreamError as error:
            if error.code not in ANSWERED:
                not_taken()
            raise UpstreamError(
                error.code,
                upstream.redact(error.message),
                retry_after_s=error.retry_after_s,
                said=upstream.redact(error.said)[:MAX_SAID],
            ) from None
        except (asyncio.CancelledError, *FAILURES) as failure:
            if not was_sent(failure):
                not_taken()
            if isinstance(failure, asyncio.CancelledError):
                raise
            raise explain(failure, upstream=upstream.name, answered=False) from failure


@contextlib.asynccontextmanager
async def _patience(target: Target, seconds: float) -> AsyncIterator[None]:
    """Wait so long at most.

    Raises:
        UpstreamError: `upstream_timeout`, it took longer.
    """
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield
    except TimeoutError as late:
        if not timeout.expired():
            raise
        name = target.upstream.name
        raise UpstreamError(
            "upstream_timeout", f"upstream {name!r} sent no answer for {seconds:g} s"
        ) from late


async def _gather(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things; the first that fails ends the others, and is what is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _check(request: Request, target: Target, api: Format | None) -> None:
    """Refuse a request that a target cannot be sent."""
    upstream = target.upstream
    if api is None:
        kind = f"model {target.model!r}" if "bedrock" in upstream.dialect else upstream.dialect
        raise RequestError(
            "invalid_request",
            f"model: upstream {upstream.name!r} has no embeddings that the relay can ask for "
            f"({kind}); take another model",
        )
    if not (request.texts or api.takes_tokens):
        raise RequestError(
            "invalid_request",
            f"input: upstream {upstream.name!r} ({upstream.dialect}) takes texts, and not tokens; "
            "LangChain's OpenAIEmbeddings sends texts with check_embedding_ctx_length=False",
        )
    target.check_options(_reaching(request.provider_options))


def _fit(request: Request, target: Target, api: Format) -> tuple[Request, list[str]]:
    """Return the request as a target takes it, and the names of what is left out for that."""
    refused = {*target.list_refused(_reaching(request.extras))}
    if api.fields is not None:
        refused |= request.extras.keys() - api.fields
    extras = {name: value for name, value in request.extras.items() if name not in refused}
    quirks = target.upstream.quirks or target.dialect.quirks()
    user = None if "user" in quirks.ignored else request.user
    fitted = msgspec.structs.replace(request, extras=extras, user=user)
    return fitted, sorted(name[:80] for name in refused)[:MAX_TOLD]


def _reaching(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that reach beyond the vectors, for all that is known."""
    return {name: value for name, value in fields.items() if name not in SAFE}


def _unreadable(target: Target, what: str) -> UpstreamError:
    name = target.upstream.name
    return UpstreamError("upstream_invalid_response", f"upstream {name!r} answered with {what}")

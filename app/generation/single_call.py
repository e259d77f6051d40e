"""Upstream calls that return one document: embeddings and token counts."""

import asyncio
import contextlib
import secrets
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec
import structlog

from ..dialects.embeddings import (
    SAFE,
    EmbeddingsCall,
    Parsed,
    Request,
    as_base64,
    as_numbers,
    estimate,
    join,
)
from ..dialects.forwarded import Kind
from ..dialects.writing.token_estimate import estimate_tokens
from ..errors import RelayError, RequestError, ServiceError, UpstreamError
from ..events import TokenCounts
from ..hooks.contract import Hook
from ..hooks.request import check_request, check_values
from ..requests import ChatRequest
from ..telemetry.observer import AttemptStarted, CallEnded
from ..upstreams.http import FAILURES, MAX_PROVIDER_MESSAGE, explain, fetch, was_sent
from ..upstreams.http_call import HttpCall
from ..upstreams.routes import Route
from ..upstreams.targets import Target
from .failover import Failover
from .metered_call import CallAttempt, CallContext, MeteredCall, count_request

COUNT_S: Final = 10.0
"""The timeout of an upstream's token count in seconds; then the count is estimated."""

COUNT_BYTES: Final = 64 * 1024

EMBED_BYTES: Final = 64 * 2**20
"""Maximum bytes of an answer: 2,048 vectors are 34 MB as base64, and three times that as text."""

ANSWERED: Final = ("upstream_truncated", "upstream_invalid_response")
"""Failures after which an upstream may have done the work, and may bill it."""

AT_ONCE: Final = 4
"""Concurrent requests of one call, to an upstream that accepts fewer texts per request."""

CONVERTED: Final = 8
"""Vectors that are converted before other tasks run: 0.5 ms."""

Operation = Literal["embeddings", "token_count"] | Kind

T = TypeVar("T")

log = structlog.get_logger("seseragi.calls")


class Counted(NamedTuple):
    """The number of tokens of a request."""

    tokens: int
    estimated: bool


class Embedded(NamedTuple):
    """The vectors of a request's inputs."""

    vectors: list[bytes]
    """As JSON, in the requested form."""
    model: str
    tokens: int | None
    """The upstream's own count, None if it sends none."""
    ignored: list[str]
    """The dropped fields of the request."""


async def count_tokens(context: CallContext, chat: ChatRequest) -> Counted:
    """Count the tokens of a request, at the first target that can.

    The count is estimated if the first target has no such call, or if none succeeds.

    Raises:
        RequestError: `model_not_found`, `forbidden`, and errors that the upstream found in the
            request.
        LimitReached: there are too many requests.
    """
    route = context.parts.upstreams.resolve_for(context.principal, chat.model)
    if route.changes is not None:
        chat = route.changes.prepare(chat)
    async with count_request(context):
        if hooks := hooks_of(context, route):
            (chat,), _ = await check_request(hooks, chat, route=route.name, stream="")
        tokens = await _count(context, route, chat)
    if tokens is None:
        return Counted(estimate_tokens(chat), estimated=True)
    return Counted(tokens, estimated=False)


async def _count(context: CallContext, route: Route, chat: ChatRequest) -> int | None:
    """Return an upstream's own count; None if there is none.

    Breakers do not learn of failures: servers without this call answer with any error.
    """
    failover = _failover(context, msgspec.structs.replace(route, budget_s=COUNT_S), chat)

    async def attempt(silence_s: float) -> int | None:
        target = failover.target
        upstream, count = target.upstream, target.dialect.token_count
        if count is None:
            return None
        try:
            async with _attempt(
                context, target, "token_count", number=failover.number, timeout_s=failover.left_s
            ) as call_attempt:
                call = await target.build_count(chat, count)
                body = await _fetch(context, target, call, call_attempt, max_bytes=COUNT_BYTES)
            return count.read(body)
        except RelayError as error:
            if error.code in ("upstream_invalid_request", "context_length_exceeded"):
                raise
            following = failover.next(error, client_retries=True)
            then = "estimated" if following is None else f"counted by {failover.target.name!r}"
            log.info("tokens not counted", upstream=upstream.name, code=error.code, then=then)
            return None

    return await failover.run(attempt)


async def embed(context: CallContext, request: Request, take: Callable[[int], None]) -> Embedded:
    """Embed the inputs of a request, trying the targets of its route in turn.

    `take` receives the bytes of memory that the arriving answer needs; its exceptions end the call.

    Raises:
        LimitReached: a usage limit would be exceeded.
        RelayError: no target succeeded.
    """
    route = context.parts.upstreams.resolve_for(context.principal, request.model)
    if hooks := hooks_of(context, route):
        if not request.texts:
            raise RequestError(
                "invalid_request", "input: a hook cannot check tokens; send texts instead"
            )
        (request,), _ = await check_values(hooks, [(request, "input")], route=route.name)
    tokens = estimate(request.inputs)
    async with MeteredCall(context, route, model=request.model, input_tokens=tokens) as metered:
        return await try_targets(
            metered,
            route,
            lambda target, attempt: _embed(context, target, request, take, attempt),
            operation="embeddings",
        )


def hooks_of(context: CallContext, route: Route) -> Sequence[Hook]:
    """Return the hooks on requests of a route."""
    hooks = context.parts.hooks
    return () if hooks is None else hooks.of(route.name, "request")


async def try_targets(
    metered: MeteredCall,
    route: Route,
    ask: Callable[[Target, CallAttempt], Awaitable[T]],
    *,
    operation: Operation,
    once: bool = False,
) -> T:
    """Make a call at the targets of a route in turn, until one succeeds.

    No attempt follows one whose answer has `begun`; with `once`, none follows the first.

    Raises:
        RelayError: no target succeeded.
    """
    context = metered.context
    failover = _failover(context, route, tokens=metered.input_tokens)

    async def try_target(silence_s: float) -> T | None:
        target, number = failover.target, failover.number
        timeout_s = min(silence_s, failover.left_s)
        try:
            async with _attempt(
                context, target, operation, number=number, timeout_s=timeout_s
            ) as attempt:
                metered.attempts.append(attempt)
                found = await ask(target, attempt)
        except ServiceError:  # the relay's own
            raise
        except RelayError as error:
            begun = metered.attempts[-1].begun
            failover.failed(error, fair=not begun)
            # Without a cause it is an HTTP status of the upstream, which the client can handle.
            client_retries = error.__cause__ is None and error.code != "upstream_truncated"
            last = once or begun
            following = None if last else failover.next(error, client_retries=client_retries)
            log.warning(
                "call failed",
                upstream=target.name,
                attempt=number,
                code=error.code,
                provider_message=error.provider_message[:MAX_PROVIDER_MESSAGE] or None,
            )
            if following is None:
                raise failover.verdict(error) from None
            metered.attempts[-1].unanswered(0)  # the reserved output is for the next one
            return None
        failover.answered()
        failover.completed()
        if (usage := attempt.usage) is not None and usage.total_tokens:
            failover.count_tokens(usage.total_tokens)
        return found

    found = await failover.run(try_target)
    assert found is not None  # noqa: S101  (a failure without a next attempt raises)
    return found


def _failover(
    context: CallContext, route: Route, chat: ChatRequest | None = None, *, tokens: int = 0
) -> Failover:
    return Failover(
        context.parts.upstreams,
        route,
        name=secrets.token_urlsafe(16),
        limits=context.parts.limits,
        clock=asyncio.get_running_loop().time,
        chat=chat,
        owner=context.principal.owner,
        tokens=tokens,
    )


async def _embed(
    context: CallContext,
    target: Target,
    request: Request,
    take: Callable[[int], None],
    attempt: CallAttempt,
) -> Embedded:
    """Embed the inputs at one target."""
    upstream, inputs = target.upstream, request.inputs
    api = _format_for(request, target)
    fitted, ignored = _fit(request, target, api)
    field = getattr(upstream.quirks, "dimensions_field", "dimensions")
    slots = asyncio.Semaphore(AT_ONCE)

    async def fetch_part(start: int) -> Parsed:
        part = inputs[start : start + api.most]
        body = api.render(fitted, part, model=target.model, dimensions_field=field)
        async with slots:
            call = await target.build_json(api.path, body)
            attempt.sent(start, TokenCounts(estimate(part), 0, estimated=True))
            answer = await _fetch(
                context, target, call, attempt, max_bytes=EMBED_BYTES, take=take, part=start
            )
        try:
            parsed = api.parse(answer)
        except (msgspec.MsgspecError, RecursionError):
            raise _unreadable(target, "no embeddings") from None
        attempt.answered(start, TokenCounts(parsed.tokens, cost=parsed.cost))
        if len(parsed.vectors) != len(part):
            raise _unreadable(target, f"{len(parsed.vectors)} vectors for {len(part)} texts")
        return parsed

    found = join(await _gather(map(fetch_part, range(0, len(inputs), api.most))))
    vectors = []
    convert = as_base64 if request.base64 else as_numbers
    for number, vector in enumerate(found.vectors):
        try:
            vectors.append(convert(bytes(vector)))
        except ValueError as reason:
            raise _unreadable(target, f"an invalid vector: {reason}") from None
        take(len(vectors[-1]))
        if number % CONVERTED == 0:
            await asyncio.sleep(0)
    model = upstream.redact(found.model or target.model)
    attempt.answered_model, attempt.usage = model, attempt.count()
    return Embedded(vectors, model, tokens=found.tokens, ignored=ignored)


@contextlib.asynccontextmanager
async def _attempt(
    context: CallContext,
    target: Target,
    operation: Operation,
    *,
    number: int = 1,
    timeout_s: float,
) -> AsyncIterator[CallAttempt]:
    """Report an attempt to the observers, and end it after a timeout.

    Raises:
        UpstreamError: `upstream_timeout`.
    """
    observer, name, code = context.parts.observer, secrets.token_urlsafe(16), None
    attempt = CallAttempt(target.name, timeout_s=timeout_s)
    observer.attempt_started(
        AttemptStarted(
            id=name,
            attempt=number,
            target=target,
            headers=attempt.headers,
            operation=operation,
        )
    )
    try:
        async with attempt.timeout:
            yield attempt
    except RelayError as error:
        code = error.code
        raise
    except asyncio.CancelledError:
        code = "cancelled"
        raise
    except TimeoutError as late:
        if not attempt.timeout.expired():
            raise
        code = "upstream_timeout"
        raise UpstreamError(code, f"upstream {target.upstream.name!r} {attempt.late}") from late
    finally:
        observer.call_ended(
            CallEnded(
                id=name,
                attempt=number,
                code=code,
                answered_model=attempt.answered_model,
                usage=attempt.usage,
            )
        )


async def _fetch(
    context: CallContext,
    target: Target,
    call: HttpCall,
    attempt: CallAttempt,
    *,
    max_bytes: int,
    take: Callable[[int], None] = lambda _: None,
    part: int = 0,
) -> bytes:
    """Make a call to an upstream; return the body of its answer.

    A part of the input for which the upstream cannot bill is not counted.

    Raises:
        UpstreamError: it failed; without the upstream's secrets.
        RelayError: an exception of `take`.
    """
    call, upstream = prepare(context, call, attempt, part), target.upstream
    with explained(target, attempt, part=part):
        return await fetch(
            context.parts.client, call, upstream=upstream.name, max_bytes=max_bytes, take=take
        )


def prepare(context: CallContext, call: HttpCall, attempt: CallAttempt, part: int = 0) -> HttpCall:
    """Return a call for a part with the headers that need no signature, and its timeout."""
    call.headers.update(context.headers)
    call.headers.update(attempt.headers)
    return msgspec.structs.replace(
        call,
        connect_timeout_s=context.parts.limits.connect_timeout_s,
        on_resend=partial(attempt.resend, part),
    )


@contextlib.contextmanager
def explained(
    target: Target, attempt: CallAttempt, *, part: int = 0, answered: bool = False
) -> Iterator[None]:
    """Translate the failures of a call, which may be `answered`; see `_fetch`."""
    upstream = target.upstream
    try:
        yield
    except UpstreamError as error:
        attempt.unanswered(part)
        if error.code not in ANSWERED:
            attempt.refused(part)
        raise error from None
    except (asyncio.CancelledError, *FAILURES) as failure:
        if not (answered or was_sent(failure)):
            attempt.refused(part)
        if isinstance(failure, asyncio.CancelledError):
            raise
        if not attempt.begun:
            attempt.unanswered(part)
        raise explain(failure, upstream=upstream.name, answered=answered) from failure


async def _gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Await several concurrently; the first failure is raised, and cancels the others."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _format_for(request: Request, target: Target) -> EmbeddingsCall:
    """Return the format of a target's embeddings.

    Raises:
        RequestError: `invalid_request`, it has none, or does not support the request.
    """
    upstream = target.upstream
    calls = target.dialect.embeddings
    api = next((one for one in calls if one.is_for(target.model, upstream.base_url)), None)
    if api is None:
        kind = f"model {target.model!r}" if calls else upstream.dialect
        raise RequestError(
            "invalid_request",
            f"model: the relay does not support embeddings of upstream {upstream.name!r} "
            f"({kind}); choose another model",
        )
    if not (request.texts or api.takes_tokens):
        raise RequestError(
            "invalid_request",
            f"input: upstream {upstream.name!r} ({upstream.dialect}) takes texts only; "
            "LangChain's OpenAIEmbeddings sends texts with check_embedding_ctx_length=False",
        )
    target.check_options(_reaching(request.provider_options))
    return api


def _fit(request: Request, target: Target, api: EmbeddingsCall) -> tuple[Request, list[str]]:
    """Return the request as a target accepts it, and the names of dropped fields."""
    refused = {*target.list_refused(_reaching(request.extras))}
    if api.fields is not None:
        refused |= request.extras.keys() - api.fields
    extras = {name: value for name, value in request.extras.items() if name not in refused}
    quirks = target.upstream.quirks or target.dialect.quirks()
    user = None if "user" in quirks.ignored else request.user
    fitted = msgspec.structs.replace(request, extras=extras, user=user)
    return fitted, sorted(refused)


def _reaching(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that may have effects beyond the vectors."""
    return {name: value for name, value in fields.items() if name not in SAFE}


def _unreadable(target: Target, what: str) -> UpstreamError:
    name = target.upstream.name
    return UpstreamError("upstream_invalid_response", f"upstream {name!r} answered with {what}")

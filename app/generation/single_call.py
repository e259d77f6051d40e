"""Upstream calls that return one document: embeddings and token counts."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import structlog

from ..dialects.embeddings_calls import (
    SAFE,
    EmbeddingsCall,
    Parsed,
    Request,
    as_base64,
    as_numbers,
    estimate,
    join,
)
from ..dialects.writing.token_estimate import estimate_tokens
from ..errors import RelayError, RequestError
from ..events import TokenCounts
from ..hooks.text_walk import check_request, check_values
from ..requests import ChatRequest
from ..upstreams.http import fetch
from ..upstreams.refusals import fit
from ..upstreams.routes import Route
from ..upstreams.targets import Target
from .calls import CallContext
from .document_call import DocumentCall
from .metered_call import MeteredCall, failover_of

COUNT_S: Final = 10.0
"""The timeout of an upstream's token count in seconds; then the count is estimated."""

COUNT_BYTES: Final = 64 * 1024

EMBED_BYTES: Final = 64 * 2**20
"""Maximum bytes of an answer: 2,048 vectors are 34 MB as base64, and three times that as text."""

AT_ONCE: Final = 4
"""Concurrent requests of one call, to an upstream that accepts fewer texts per request."""

CONVERTED: Final = 8
"""Vectors that are converted before other tasks run: 0.5 ms."""

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
    async with context.counted():
        if hooks := context.hooks_of(route):
            (chat,), _ = await check_request(hooks, chat, route=route.name, stream="")
        tokens = await _count(context, route, chat)
    estimated = tokens is None
    return Counted(estimate_tokens(chat) if tokens is None else tokens, estimated)


async def _count(context: CallContext, route: Route, chat: ChatRequest) -> int | None:
    """Return an upstream's own count; None if there is none.

    Breakers do not learn of failures: servers without this call answer with any error.
    """
    failover = failover_of(context, msgspec.structs.replace(route, budget_s=COUNT_S), chat)

    async def attempt(silence_s: float) -> int | None:
        target = failover.target
        upstream, count = target.upstream, target.dialect.token_count
        if count is None:
            return None

        async def ask(call: DocumentCall) -> bytes:
            return await call.send(
                await target.build_count(chat, count), fetch, refits=True, max_bytes=COUNT_BYTES
            )

        try:
            call = DocumentCall.of(context, failover, COUNT_S)
            return count.read(await call.run(ask, "token_count"))
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
    if hooks := context.hooks_of(route):
        if not request.texts:
            raise RequestError(
                "invalid_request", "input: a hook cannot check tokens; send texts instead"
            )
        (request,), _ = await check_values(hooks, [(request, "input")], route=route.name)
    ask = partial(_embed, request=request, take=take)
    metered = MeteredCall(context=context, route=route, ask=ask, operation="embeddings")
    return await metered.make(request.model, estimate(request.inputs))


async def _embed(call: DocumentCall, request: Request, take: Callable[[int], None]) -> Embedded:
    """Embed the inputs at one target; see `embed`."""
    target, upstream, inputs = call.target, call.target.upstream, request.inputs
    api = _format_for(request, target)
    fitted, ignored = _fit(request, target, api)
    field = getattr(upstream.quirks, "dimensions_field", "dimensions")
    slots = asyncio.Semaphore(AT_ONCE)

    async def fetch_part(start: int) -> Parsed:
        part = inputs[start : start + api.most]
        body = api.render(fitted, part, model=target.model, dimensions_field=field)
        if (known := upstream.refusals.known.get(target.model)) is not None:
            body, _, left_out, _ = fit(known, body, {})
            call.left_out.update(left_out)
        async with slots:
            http_call = await target.build_json(api.path, body)
            call.parts[start] = TokenCounts(estimate(part), 0, estimated=True)
            answer = await call.send(
                http_call, fetch, start, refits=True, max_bytes=EMBED_BYTES, take=take
            )
        try:
            parsed = api.parse(answer)
        except (msgspec.MsgspecError, RecursionError):
            raise call.error("answered with no embeddings") from None
        call.answered(start, TokenCounts(parsed.tokens, cost=parsed.cost))
        if len(parsed.vectors) != len(part):
            raise call.error(f"answered with {len(parsed.vectors)} vectors for {len(part)} texts")
        return parsed

    found = join(await _gather(map(fetch_part, range(0, len(inputs), api.most))))
    vectors = []
    convert = as_base64 if request.base64 else as_numbers
    for number, vector in enumerate(found.vectors):
        try:
            vectors.append(convert(bytes(vector)))
        except ValueError as reason:
            raise call.error(f"answered with an invalid vector: {reason}") from None
        take(len(vectors[-1]))
        if number % CONVERTED == 0:
            await asyncio.sleep(0)
    model = call.answered_model = upstream.redact(found.model or target.model)
    return Embedded(vectors, model, tokens=found.tokens, ignored=sorted({*ignored, *call.left_out}))


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

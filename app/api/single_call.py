"""Calls without a stream: embeddings in OpenAI's form, and the token counts of two dialects."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.anthropic import BETA
from ..dialects.anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from ..dialects.anthropic.client.request import parse_request as parse_messages
from ..dialects.client_format import ParsedRequest
from ..dialects.embeddings_calls import estimate, parse_request, render_answer
from ..dialects.openai_responses.client.format import CLIENT_FORMAT as RESPONSES
from ..errors import RequestError
from ..generation.calls import CallContext
from ..generation.single_call import count_tokens, embed
from ..generation.via import source_of
from ..policies.admission import RequestMemory
from ..requests import parse_body
from ..upstreams.client_headers import ignored_header
from .endpoints import Endpoints, HttpParts, document
from .request import REQUEST_HEADERS, client_of, principal_of
from .stored_responses import StoredResponses

ESTIMATED: Final = "seseragi-estimated"
"""The header of an answer with an estimated number of tokens."""

T = TypeVar("T")

Work = Callable[[CallContext], Coroutine[Any, Any, T]]
"""Makes the call of a request."""


class SingleCall(Endpoints):
    """An endpoint without a stream: admission, body, and the client's leaving."""

    def __init__(self, parts: HttpParts, *, kind: str) -> None:
        super().__init__(parts)
        self._kind = kind

    async def answer(
        self,
        request: Request,
        parse: Callable[[bytes, RequestMemory], Work[T]],
        *,
        form: bool = False,
    ) -> T:
        """Read the request, JSON or a `form`, and run its call while the client is connected.

        The memory that the call takes is released at its end.
        """
        hub, principal = self._hub, principal_of(request)
        if "idempotency-key" in request.headers:
            raise RequestError(
                "invalid_request",
                "Idempotency-Key: calls without a stream keep no answer to give again, and a "
                "second one is billed again; leave the header out",
            )
        headers = request.scope[REQUEST_HEADERS]
        origin = source_of(request.scope.get("client"), headers, share=principal.share)
        await self._streams_of(request).admit(origin, key=None)
        with hub.admission.receive(origin.address, principal.owner) as memory:
            body = await self._read_body(request, memory, form=form)
            memory.expect(body, parsed=not form)
            work = parse(body, memory)
            del body
            request_id = request.scope.get("request_id", "")
            answer = hub.calls.ask(
                work, principal, origin=origin, kind=self._kind, request_id=request_id
            )
            return await while_connected(request, answer)


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work for a client, and cancel it if the client disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    working = asyncio.ensure_future(work)
    disconnected = False

    def stop() -> None:
        nonlocal disconnected
        disconnected = True
        working.cancel()

    try:
        with client_of(request).watch(stop):
            return await working
    except asyncio.CancelledError:
        if disconnected:
            raise ClientDisconnect from None
        raise


def _embed(body: bytes, memory: RequestMemory) -> Work[Response]:
    """Parse a request for embeddings."""
    request = parse_request(body)

    async def work(context: CallContext) -> Response:
        found = await embed(context, request, memory.add)
        tokens, headers = found.tokens, ignored_header(found.ignored)
        if tokens is None:
            tokens = estimate(request.inputs)
            headers[ESTIMATED] = "true"
        answer = render_answer(found.vectors, model=found.model, tokens=tokens)
        return document(answer, headers=headers)

    return work


NOT_NEEDED: Final = {ANTHROPIC.name: "max_tokens", RESPONSES.name: "input"}
"""The field that a generation needs and a count does not, by dialect."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TokenCount(msgspec.Struct, omit_defaults=True):
    """A number of tokens."""

    input_tokens: int
    object: str | None = None
    """The type of the object, for Responses."""


class Counting(SingleCall):
    """The endpoints that count tokens."""

    def __init__(self, parts: HttpParts) -> None:
        super().__init__(parts, kind="count_tokens")
        self._stored = StoredResponses(parts.settings, wall=parts.hub.clock.wall)

    async def messages(self, request: Request) -> Response:
        """Count the tokens of a request for a message; `max_tokens` is optional."""
        betas = ",".join(request.headers.getlist(BETA))

        def count(body: bytes, _: RequestMemory) -> Work[Response]:
            parsed = parse_messages(_default(body, NOT_NEEDED[ANTHROPIC.name], b"1"), betas=betas)
            return lambda context: _count(context, parsed)

        return await self.answer(request, count)

    async def responses(self, request: Request) -> Response:
        """Count the tokens of a request for a response; `input` is optional."""
        streams = self._streams_of(request)

        def count(body: bytes, memory: RequestMemory) -> Work[Response]:
            completed = _default(body, NOT_NEEDED[RESPONSES.name], b'""')

            async def work(context: CallContext) -> Response:
                whole = await self._stored.resolve(streams, completed, memory=memory)
                parsed = RESPONSES.parse_request(whole.body)
                return await _count(context, parsed, object="response.input_tokens")

            return work

        return await self.answer(request, count)


async def _count(
    context: CallContext, parsed: ParsedRequest, *, object: str | None = None
) -> Response:
    counted = await count_tokens(context, parsed.chat)
    headers = {ESTIMATED: "true"} if counted.estimated else {}
    return document(TokenCount(counted.tokens, object), headers=headers)


def _default(body: bytes, name: str, text: bytes) -> bytes:
    """Add a field to a request that lacks it."""
    completed = parse_body(body, _fields, example='{"model": "demo", ...}')
    present = {field: value for field, value in completed.items() if bytes(value) != b"null"}
    return msgspec.json.encode({name: msgspec.Raw(text), **present})


def routes(parts: HttpParts) -> list[Route]:
    embedding, counting = SingleCall(parts, kind="embeddings"), Counting(parts)

    async def embeddings(request: Request) -> Response:
        return await embedding.answer(request, _embed)

    return [
        Route("/v1/embeddings", embeddings, methods=["POST"]),
        Route("/v1/messages/count_tokens", counting.messages, methods=["POST"]),
        Route("/v1/responses/input_tokens", counting.responses, methods=["POST"]),
    ]

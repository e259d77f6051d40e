"""Token counts of requests, for Anthropic's Messages and OpenAI's Responses."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..dialects.anthropic import BETA
from ..dialects.anthropic.client.format import CLIENT_FORMAT as ANTHROPIC
from ..dialects.anthropic.client.request import parse_request as parse_messages
from ..dialects.client_format import ParsedRequest
from ..dialects.openai_responses.client.format import CLIENT_FORMAT as RESPONSES
from ..generation.calls import CallContext
from ..generation.single_call import count_tokens
from ..policies.admission import RequestMemory
from ..requests import parse_body
from .endpoints import HttpParts, document
from .single_call import ESTIMATED, SingleCall, Work
from .stored_responses import StoredResponses

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
    counting = Counting(parts)
    return [
        Route("/v1/messages/count_tokens", counting.messages, methods=["POST"]),
        Route("/v1/responses/input_tokens", counting.responses, methods=["POST"]),
    ]

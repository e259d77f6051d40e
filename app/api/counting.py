"""How many tokens a request takes, in the words of Anthropic and of OpenAI's Responses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..admission import RequestMemory
from ..dialects.anthropic.client.format import FRONT as ANTHROPIC
from ..dialects.anthropic.client.request import parse_request as parse_messages
from ..dialects.anthropic.headers import BETA
from ..dialects.client_format import ParsedRequest as Parsed
from ..dialects.openai_responses.client.format import FRONT as RESPONSES
from ..generation.hub import Hub, OwnedStreams
from ..generation.single_call import Asking
from ..requests import parse_body
from .policy import HttpSettings
from .principal import streams_of
from .single_call import ESTIMATED, SingleCall, Work, document
from .stored_responses import StoredResponses

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Counting:
    """The endpoints; they hold what all their requests share."""

    def __init__(self, hub: Hub, policy: HttpSettings) -> None:
        self._hub = hub
        self._messages = SingleCall(hub, policy, ANTHROPIC)
        self._responses = SingleCall(hub, policy, RESPONSES)
        self._stored = StoredResponses(policy)

    async def messages(self, request: Request) -> Response:
        """Count what a request for a message would take, which need not say `max_tokens`."""
        betas = ",".join(request.headers.getlist(BETA))
        parse = partial(parse_messages, betas=betas)
        return await self._messages.answer(request, partial(_count, parse, {"max_tokens": b"1"}))

    async def responses(self, request: Request) -> Response:
        """Count what a request for a response would take, which need not say `input`."""
        streams = streams_of(self._hub, request)
        return await self._responses.answer(request, partial(self._count_response, streams))

    def _count_response(self, streams: OwnedStreams, body: bytes) -> Work:
        async def work(asking: Asking, memory: RequestMemory) -> Response:
            asked = _default(body, {"input": b'""'})
            whole = await self._stored.resolve(streams, asked, memory=memory)
            count = _count(RESPONSES.parse_request, {}, whole.body, object="response.input_tokens")
            return await count(asking, memory)

        return work


def _count(
    parse: Callable[[bytes], Parsed], defaults: dict[str, bytes], body: bytes, **fields: str
) -> Work:
    """Read a request that may leave out what its endpoint needs and its tokens do not."""
    chat = parse(_default(body, defaults)).chat

    async def work(asking: Asking, _: RequestMemory) -> Response:
        counted = await asking.count(chat)
        headers = {ESTIMATED: "true"} if counted.estimated else {}
        answer: dict[str, Any] = {**fields, "input_tokens": counted.tokens}
        return document(answer, headers=headers)

    return work


def _default(body: bytes, defaults: dict[str, bytes]) -> bytes:
    """Say in a request what it leaves out."""
    given = parse_body(body, _fields, example='{"model": "demo", ...}')
    missing = {name: msgspec.Raw(text) for name, text in defaults.items()}
    said = {name: value for name, value in given.items() if bytes(value) != b"null"}
    return msgspec.json.encode({**missing, **said})


def routes(hub: Hub, policy: HttpSettings) -> list[Route]:
    counting = Counting(hub, policy)
    return [
        Route("/v1/messages/count_tokens", counting.messages, methods=["POST"]),
        Route("/v1/responses/input_tokens", counting.responses, methods=["POST"]),
    ]

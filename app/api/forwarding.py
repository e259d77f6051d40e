"""Calls that are forwarded to the provider: moderations, rerank, images, speech and its text."""

import re
import secrets
from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..dialects.forwarded import CALLS, Call, parse_json, parse_upload
from ..errors import RelayError
from ..generation.forwarded_call import forward
from ..policies.admission import RequestMemory
from ..upstreams.client_headers import ignored_header
from .endpoints import HttpParts
from .event_stream import ReaderDropped
from .request import connection_of
from .single_call import SingleCall, Work

_CONTENT_TYPE: Final = re.compile(r"[!-~][ -~]{0,199}")


def routes(parts: HttpParts) -> list[Route]:
    return [_route(parts, call, path) for call in CALLS for path in call.paths]


def _route(parts: HttpParts, call: Call, path: str) -> Route:
    endpoint = SingleCall(parts, kind=call.kind)

    async def answer(request: Request) -> Response:
        return _Answer(endpoint, call, request)

    return Route(path, answer, methods=["POST"])


class _Answer(Response):
    """The response to a call, which begins once the provider's answer has.

    Until then an error is raised. Later it breaks the response off, since a clean end would look
    like a complete answer.
    """

    def __init__(self, endpoint: SingleCall, call: Call, request: Request) -> None:
        self.background = None
        self._endpoint = endpoint
        self._call = call
        self._request = request
        self._begun = False
        self._send: Send

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._send = send
        try:
            await self._endpoint.answer(self._request, self._parse, form=self._call.form)
        except (RelayError, ClientDisconnect) as error:
            if not self._begun:
                raise
            connection = connection_of(scope)
            if connection is not None:
                connection.break_off()
            elif isinstance(error, ClientDisconnect):
                return
            else:
                raise ReaderDropped(str(error)) from None
        await send({"type": "http.response.body", "body": b""})

    def _parse(self, body: bytes, _: RequestMemory) -> Work[None]:
        call = self._call
        if call.form:
            content_type = self._request.headers.get("content-type", "")
            request = parse_upload(call, body, content_type, boundary=secrets.token_hex(16))
        else:
            request = parse_json(call, body)
        return partial(forward, request=request, client=self)

    async def begin(self, status: int, content_type: str, *, ignored: Sequence[str]) -> None:
        if not _CONTENT_TYPE.fullmatch(content_type):
            content_type = "application/octet-stream"
        headers = [
            (b"content-type", content_type.encode()),
            (b"cache-control", b"no-store, no-transform"),
            (b"x-accel-buffering", b"no"),
        ]
        for name, value in ignored_header(ignored).items() if ignored else ():
            headers.append((name.encode(), value.encode()))
        self._begun = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

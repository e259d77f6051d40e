"""Forwarded calls: the provider's answer goes to the client as it comes."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Protocol

from ..dialects.forwarded import ForwardedRequest, UsageReader
from ..errors import RequestError
from ..hooks.text_walk import check_values
from ..upstreams.http import open_stream
from ..upstreams.http_call import HttpCall
from ..upstreams.targets import Target
from .calls import CallContext
from .document_call import BROKEN, DocumentCall
from .metered_call import MeteredCall

MAX_BYTES: Final = 128 * 2**20
"""Maximum bytes of an answer: ten large images as base64. It is not buffered."""


class Client(Protocol):
    """The client of a call."""

    async def begin(self, status: int, content_type: str, *, ignored: Sequence[str]) -> None:
        """Begin the response; the fields that were `ignored` were not sent to the provider."""

    async def send(self, piece: bytes) -> None:
        """Send the next bytes; returns when the client takes more."""


async def forward(context: CallContext, request: ForwardedRequest, client: Client) -> None:
    """Make a call at the targets of its route, until an answer begins, and send that.

    Raises:
        LimitReached: a usage limit would be exceeded.
        RelayError: no target answered, or the answer that had begun broke off.
    """
    upstreams, principal = context.parts.upstreams, context.principal
    try:
        route = upstreams.resolve_for(principal, request.model)
    except RequestError as error:
        if error.code != "model_not_found" or request.model != request.call.model:
            raise
        route = upstreams.resolve_for(principal, f"openai/{request.model}")  # its own default
    if hooks := context.hooks_of(route):
        texts = request.texts()
        (checked,), _ = await check_values(hooks, [(texts, "input")], route=route.name)
        request = request if checked == texts else request.with_texts(checked)
    kind, once = request.call.kind, request.call.form
    ask = partial(_ask, request=request, client=client)
    metered = MeteredCall(context=context, route=route, ask=ask, operation=kind, once=once)
    await metered.make(request.model, request.input_tokens, request.output_tokens)


async def _build(request: ForwardedRequest, target: Target, ignored: Collection[str]) -> HttpCall:
    """Build the call at a target.

    Raises:
        RequestError: `invalid_request`, it has none.
    """
    upstream, path = target.upstream, target.dialect.forwarded.get(request.call.kind)
    if path is None:
        raise RequestError(
            "invalid_request",
            f"model: the relay does not support /v1/{request.call.path} of upstream "
            f"{upstream.name!r} ({upstream.dialect}); choose another model",
        )
    content_type, body = request.render(target.model, ignored)
    call = await target.build_post(path, body)
    call.headers.update({"accept": "*/*", "content-type": content_type})
    return call


async def _ask(call: DocumentCall, request: ForwardedRequest, client: Client) -> bool:
    """Make a call at one target; send its answer piece by piece, and record its usage.

    While the client takes no more, only the timeout of the whole answer runs.
    """
    target, limits, extras = call.target, call.limits, request.extras
    ignored = target.list_refused(extras) if extras else ()
    http_call = await _build(request, target, ignored)
    call.parts[0] = request.estimate()
    reply = await call.send(http_call, open_stream)
    clock, size = asyncio.get_running_loop().time, 0
    end_at = clock() + limits.total_timeout_s
    unfinished = f"did not finish within {limits.total_timeout_s:g} s"
    content_type = reply.headers.get("content-type", "")
    length = reply.headers.get("content-length", "")
    whole = int(length[:15]) if length.isdecimal() else 0
    usage, ending, before = UsageReader(content_type), target.upstream.key_ending, b""
    try:
        while True:
            try:
                piece = await anext(reply.body, b"")
            except BROKEN as failure:
                call.fail(failure, answered=True)
            if not piece:
                break
            size += len(piece)
            if request.call.token_bytes:
                call.parts[0] = request.estimate(max(size, whole), content_type)
            if size > MAX_BYTES:
                raise call.error(f"answered with more than {MAX_BYTES} bytes")
            if ending is not None and ending in (before := before[-len(ending) :] + piece):
                raise call.error("quoted the relay's key")
            usage.feed(piece)
            call.timeout.reschedule(end_at)
            call.late = unfinished
            if not call.begun:
                call.begun = True
                await client.begin(reply.status, content_type, ignored=ignored)
            await client.send(piece)
            silent_at = clock() + limits.idle_timeout_s
            if silent_at < end_at:
                call.timeout.reschedule(silent_at)
                call.late = f"sent nothing for {limits.idle_timeout_s:g} s"
    finally:
        await reply.body.aclose()
    if not call.begun:
        call.unanswered()
        raise call.error("sent an empty answer")
    call.answered(0, usage.read())
    call.answered_model = target.model
    return True

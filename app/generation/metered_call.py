"""Calls without a stream whose cost is reserved and settled as that of streams."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

import msgspec
import structlog

from ..errors import RelayError, RequestError, ServiceError
from ..eventlog.stream_ended import Charge, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import StreamEnd, StreamStart
from ..requests import ChatRequest
from ..telemetry.observer import Operation
from ..upstreams.http import MAX_PROVIDER_MESSAGE
from ..upstreams.routes import Route
from .calls import CallContext, unavailable
from .charges import Charges
from .document_call import DocumentCall
from .failover import Failover
from .settlement import FREE, Billing

T = TypeVar("T")

log = structlog.get_logger("seseragi.calls")


def failover_of(
    context: CallContext, route: Route, chat: ChatRequest | None = None, *, tokens: int = 0
) -> Failover:
    """Prepare the attempts of a call."""
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


class MeteredCall(msgspec.Struct, Generic[T], kw_only=True):
    """One call at the targets of a route in turn, until `ask` succeeds at one of them.

    None follows one whose answer has `begun`; with `once`, none follows the first.
    """

    context: CallContext
    route: Route
    ask: Callable[[DocumentCall], Awaitable[T]]
    operation: Operation
    once: bool = False
    _last: DocumentCall | None = None

    async def make(self, model: str | None, input_tokens: int, output_tokens: int = 0) -> T:
        """Reserve the cost of the call, make it, and settle what it has cost.

        Raises:
            LimitReached: a usage limit would be exceeded; no upstream was called.
            RequestError: `budget_exceeded`, there is a budget and a price is unknown.
            ServiceError: `overloaded`, the log failed.
            RelayError: no target succeeded.
        """
        context, route, parts = self.context, self.route, self.context.parts
        reserve = parts.reservations.request_call(
            context.principal, route, input_tokens, output_tokens=output_tokens
        )
        billing = Billing(settlements=parts.settlements, request=reserve, produced=tuple)
        charges = Charges(billing=billing, ceiling=None)
        info = await context.create(route.name, reserve, model=model or "")
        end = StreamEnd("cancelled", "cancelled")
        try:
            # The log has it before any upstream is called; see `Run.begun`.
            start = StreamStart(info.id, info.route, int(info.created_at))
            try:
                await parts.event_log.append(info.id, [start])
            except RelayError as error:
                raise unavailable(error) from None
            failover = failover_of(context, route, tokens=input_tokens)
            found = await failover.run(partial(self._try, failover, charges))
            end = StreamEnd("completed", "stop")
        except RelayError as error:
            end = StreamEnd("failed", "error", error=error.info())
            raise
        finally:
            await self._settle(info, end, charges.followed or [FREE])
        assert found is not None  # noqa: S101  (a failure without a next attempt raises)
        return found

    async def _try(self, failover: Failover, charges: Charges, silence_s: float) -> T | None:
        call = self._last = DocumentCall.of(self.context, failover, silence_s)
        try:
            found = await call.run(self.ask, self.operation)
        except ServiceError:  # the relay's own
            raise
        except RelayError as error:
            failover.failed(error, fair=not call.begun)
            # Without a cause it is an HTTP status of the upstream, which the client can handle.
            client_retries = error.__cause__ is None and error.code != "upstream_truncated"
            last = self.once or call.begun
            following = None if last else failover.next(error, client_retries=client_retries)
            log.warning(
                "call failed",
                upstream=call.target.name,
                attempt=call.number,
                code=error.code,
                provider_message=error.provider_message[:MAX_PROVIDER_MESSAGE] or None,
            )
            if following is None:
                raise failover.verdict(error) from None
            call.unanswered()  # the reserved output is for the next one
            return None
        finally:
            charges.follow(call)
        failover.answered()
        failover.completed()
        if call.usage is not None and call.usage.total_tokens:
            failover.count_tokens(call.usage.total_tokens)
        return found

    async def _settle(self, info: StreamInfo, end: StreamEnd, charges: Sequence[Charge]) -> None:
        """End the hidden stream, with the sum of the charges."""
        context, call, now = self.context, self._last, self.context.parts.clock.wall()
        ended, settlement = context.parts.settlements.close(
            StreamEnded(
                info=info,
                end=end,
                charges=charges,
                target=None if call is None else call.target.name,
                answered_model=None if call is None else call.answered_model,
                attempts=len(charges),
                started_at=info.created_at,
                ended_at=now,
                duration_s=now - info.created_at,
                events=2,
            )
        )
        try:
            await context.parts.event_log.append(info.id, [ended.end], settlement)
        except (RequestError, ValueError):  # it was ended, and settled, by another process
            log.warning("a call was ended from outside", kind=context.kind)
        except ServiceError as failure:
            raise unavailable(failure) from None
        except asyncio.CancelledError:  # the append itself completes
            context.spawn(context.delete(info.id))
            raise
        finally:
            context.streams.discard(info.id)
        context.spawn(context.delete(info.id))  # it has no readers

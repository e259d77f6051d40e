"""Calls without a stream, such as embeddings, reserved and settled like streams.

In the log such a call is a hidden stream: its id is never sent, and its owner is not a principal.
So its cost is reserved and settled in the same steps, and the same recovery ends it if its process
is lost.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import structlog

from ..errors import RelayError, RequestError, ServiceError
from ..eventlog.stream_ended import Charge, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import StreamEnd, StreamStart, TokenCounts
from ..identity.principal import Principal
from ..ledger.accounts import ReservationRequest
from ..ledger.money import to_nano, to_usd
from ..upstreams.routes import Route
from .parts import Parts
from .reservation import Reservations
from .settlement import FREE, Settlements
from .token_usage import believe

NOBODY: Final = "\x1fcall"
"""The owner of such a stream: owners of principals have other prefixes."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]

log = structlog.get_logger("seseragi.calls")


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a call without a stream, and the parts of the relay that make the call."""

    principal: Principal
    request_id: str
    kind: str
    """The value in the records instead of a client format."""
    headers: Mapping[str, str]
    """Additional headers of calls to upstreams."""
    parts: Parts
    reservations: Reservations
    settlements: Settlements
    """Those at the begin of the call: a reload replaces those of the parts."""
    streams: set[str]
    """The hidden streams of the running calls of this process."""
    spawn: Spawn

    def describe(self, route: str, reserve: ReservationRequest, *, model: str = "") -> StreamInfo:
        """Return the info of the hidden stream.

        With a key, its own id, the log can detect a stream that never began.
        """
        stream = f"st_{secrets.token_urlsafe(16)}"
        return self.reservations.stream_info(
            self.principal,
            stream,
            owner=NOBODY,
            request_id=self.request_id,
            route=route,
            reserve=reserve,
            model=model,
            client_format=self.kind,
            key=stream,
        )

    async def create(self, info: StreamInfo) -> None:
        """Make the reservation of a hidden stream.

        Raises:
            LimitReached: a usage limit would be exceeded.
            ServiceError: `overloaded`, the log failed.
        """
        try:
            await self.parts.event_log.create(info)
        except asyncio.CancelledError:
            self.spawn(self.delete(info.id))
            raise
        except ServiceError as error:
            raise _unavailable(error) from None
        self.streams.add(info.id)

    async def delete(self, stream: str) -> None:
        self.streams.discard(stream)
        with contextlib.suppress(RelayError):
            await self.parts.event_log.delete(stream)


class CallAttempt:
    """One attempt of a call, which may send several requests to its target."""

    __slots__ = (
        "_parts",
        "answered_model",
        "begun",
        "headers",
        "late",
        "resent",
        "target",
        "timeout",
        "usage",
    )

    def __init__(self, target: str, *, timeout_s: float) -> None:
        self.target = target
        self.timeout = asyncio.timeout(timeout_s)
        self.late = f"sent no answer for {timeout_s:g} s"
        """The message of the timeout, after the upstream's name."""
        self.begun = False
        """Whether the client has a part of the answer, so that no other attempt may follow."""
        self.headers: dict[str, str] = {}
        """Headers from observers, for its requests."""
        self.answered_model: str | None = None
        self.usage: TokenCounts | None = None
        """The counts of a successful attempt."""
        self._parts: dict[int, TokenCounts] = {}
        self.resent: list[TokenCounts] = []
        """Estimates of requests that were sent twice, for the first sending."""

    def extend(self, when: float, late: str) -> None:
        """Move the timeout, which has another reason then."""
        self.timeout.reschedule(when)
        self.late = late

    def sent(self, part: int, estimate: TokenCounts) -> None:
        """Count a part of the input, by an estimate until the upstream has counted it."""
        self._parts[part] = estimate

    def resend(self, part: int) -> None:
        """Count a part that is sent again: the upstream may have taken it before."""
        if part in self._parts:
            self.resent.append(msgspec.structs.replace(self._parts[part], output_tokens=0))

    def refused(self, part: int) -> None:
        """Do not count a part, even if it was sent: the upstream cannot bill it."""
        self._parts.pop(part, None)

    def unanswered(self, part: int) -> None:
        """Count only the input of a part: the upstream has no output to bill."""
        if part in self._parts:
            self._parts[part] = msgspec.structs.replace(self._parts[part], output_tokens=0)

    def answered(self, part: int, counts: TokenCounts) -> None:
        """Record the upstream's own counts of a part, and estimates for implausible ones.

        A missing count of output is estimated, too.
        """
        sent = self._parts[part]
        used = believe(counts.input_tokens, estimate=sent.input_tokens or 0)
        written = believe(counts.output_tokens, estimate=sent.output_tokens or 0)
        plausible = (used, written) == (counts.input_tokens, counts.output_tokens)
        if not plausible:
            log.warning(
                "provider counts more than is possible",
                input_tokens=counts.input_tokens,
                output_tokens=counts.output_tokens,
            )
        output, sound = sent.output_tokens if written is None else written, sent.audio_output_tokens
        known = used is not None and output == (counts.output_tokens or 0)
        self._parts[part] = msgspec.structs.replace(
            sent if used is None else counts,
            input_tokens=sent.input_tokens if used is None else used,
            output_tokens=output,
            audio_output_tokens=counts.audio_output_tokens if sound is None else output,
            cost=counts.cost,
            estimated=None if plausible and known else True,
        )

    def count(self) -> TokenCounts | None:
        """Return the counts that may be billed; None if there are none."""
        parts = list(self._parts.values())
        if not parts:
            return None
        used = sum(part.input_tokens or 0 for part in parts)
        written = sum(part.output_tokens or 0 for part in parts)
        costs = [to_nano(part.cost) for part in parts if part.cost is not None]
        known = len(costs) == len(parts)
        return msgspec.structs.replace(
            parts[0],  # whose details are those of the only one, or none
            input_tokens=used,
            output_tokens=written,
            total_tokens=used + written,
            estimated=True if any(part.estimated for part in parts) else None,
            cost=to_usd(sum(costs)) if known else None,
            cost_from="provider" if known else None,
        )


class MeteredCall:
    """A call whose cost is reserved on entry and settled on exit.

    Raises:
        LimitReached: a usage limit would be exceeded; no upstream was called.
        RequestError: `budget_exceeded`, there is a budget and a price is unknown.
        ServiceError: `overloaded`, the log failed.
    """

    def __init__(
        self,
        context: CallContext,
        route: Route,
        *,
        model: str | None,
        input_tokens: int,
        output_tokens: int = 0,
    ) -> None:
        reserve = context.reservations.request_call(
            context.principal, route, input_tokens, output_tokens=output_tokens
        )
        self.context = context
        self.input_tokens = input_tokens
        self._info = context.describe(route.name, reserve, model=model or "")
        self.attempts: list[CallAttempt] = []

    async def __aenter__(self) -> Self:
        info = self._info
        await self.context.create(info)
        # The log has it before any upstream is called; see `Run.begun`.
        start = StreamStart(info.id, info.route, int(info.created_at))
        try:
            await self.context.parts.event_log.append(info.id, [start])
        except RelayError as error:
            failure = _unavailable(error)
            await self._end(failure)
            raise failure from None
        except asyncio.CancelledError as error:
            await self._end(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        """Settle the call, according to the error that ended it, if any."""
        context, info, attempts = self.context, self._info, self.attempts
        settlements = context.settlements
        if error is None:
            end = StreamEnd("completed", "stop")
        elif isinstance(error, RelayError):
            end = StreamEnd("failed", "error", error=error.info())
        else:
            end = StreamEnd("cancelled", "cancelled")
        charges: list[Charge] = []
        for attempt in attempts:
            charges += [settlements.price(attempt.target, one) for one in attempt.resent]
            counts = attempt.usage or attempt.count()
            charges.append(FREE if counts is None else settlements.price(attempt.target, counts))
        last, now = attempts[-1] if attempts else None, context.parts.clock.wall()
        ended, settlement = settlements.close(
            StreamEnded(
                info=info,
                end=end,
                charges=charges or [FREE],
                target=None if last is None else last.target,
                answered_model=None if last is None else last.answered_model,
                attempts=max(1, len(charges)),
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
            raise _unavailable(failure) from None
        except asyncio.CancelledError:  # the append itself completes
            context.spawn(context.delete(info.id))
            raise
        finally:
            context.streams.discard(info.id)
        context.spawn(context.delete(info.id))  # it has no readers


@contextlib.asynccontextmanager
async def count_request(context: CallContext) -> AsyncIterator[None]:
    """Count a free call as a request and a running stream, if those are limited.

    Raises:
        LimitReached: there are too many.
        ServiceError: `overloaded`, the log failed.
    """
    accounts = tuple(
        account.only("requests", "streams")
        for account in context.reservations.accounts_of(context.principal)
    )
    if not any(account.has_limit() for account in accounts):
        yield
        return
    reserve = ReservationRequest(accounts, context.parts.clock.wall(), least_output_tokens=0)
    info = context.describe("", reserve)
    await context.create(info)
    try:
        yield
    finally:
        await context.delete(info.id)


def _unavailable(error: RelayError) -> RelayError:
    """Return the error of a call that the log cannot count."""
    if error.code != "internal":
        return error
    return ServiceError(
        "overloaded",
        "the event log failed, so the call cannot be counted; try again",
        retry_after_s=1,
    )

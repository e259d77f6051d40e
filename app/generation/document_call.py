"""A call to a target without a stream: its requests, their failures, and their counts."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, reduce
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar

import msgspec
import structlog

from ..errors import RelayError, UpstreamError
from ..eventlog.stream_ended import Charge
from ..events import Event, StreamEnd, TokenCounts
from ..ledger.rates import to_nano, to_usd
from ..telemetry.observer import AttemptStarted, CallEnded, Operation
from ..upstreams.http import FAILURES, explain
from ..upstreams.http_call import HttpCall
from .call import TargetCall
from .calls import CallContext
from .failover import Failover
from .settlement import FREE
from .token_usage import add_counts, believe

BROKEN: Final = (UpstreamError, asyncio.CancelledError, *FAILURES)
"""Exceptions of a request; see `DocumentCall.fail`."""

T = TypeVar("T")

log = structlog.get_logger("seseragi.calls")


class DocumentCall(TargetCall, kw_only=True, eq=False):
    """Makes one call, which may send several requests: each for a part of the input."""

    BILLED: ClassVar = frozenset(("upstream_truncated", "upstream_invalid_response"))

    context: CallContext
    timeout: asyncio.Timeout
    late: str
    """The message of the timeout, after the upstream's name."""
    begun: bool = False
    """Whether the client has a part of the answer, so that no other call may follow."""
    answered_model: str | None = None
    usage: TokenCounts | None = None
    """The counts of a successful call."""
    left_out: set[str] = msgspec.field(default_factory=set)
    """The fields that its provider refused, and was not sent."""
    parts: dict[int, TokenCounts] = msgspec.field(default_factory=dict)
    """The counts of each part that was sent: an estimate until the provider has counted it."""
    _first: list[TokenCounts] = msgspec.field(default_factory=list)
    """Estimates of requests that were sent again, for the first sending."""

    @classmethod
    def of(cls, context: CallContext, due: Failover, silence_s: float) -> Self:
        """Prepare the due attempt, with a maximum of seconds until its answer."""
        timeout_s = min(silence_s, due.left_s)
        return cls(
            target=due.target,
            number=due.number,
            client=context.parts.client,
            limits=due.target.limits(context.parts.limits),
            headers=context.headers,
            context=context,
            timeout=asyncio.timeout(timeout_s),
            late=f"sent no answer for {timeout_s:g} s",
        )

    async def run(self, ask: Callable[[Self], Awaitable[T]], operation: Operation) -> T:
        """Report the call to the observers, and end it after its timeout.

        Raises:
            UpstreamError: `upstream_timeout`.
        """
        observer, name = self.context.parts.observer, secrets.token_urlsafe(16)
        headers = observer.attempt_started(
            AttemptStarted(id=name, attempt=self.number, target=self.target, operation=operation)
        )
        self.more_headers = headers or {}
        try:
            async with self.timeout:
                found = await ask(self)
                self.usage = self._count()
                return found
        except (RelayError, asyncio.CancelledError) as error:
            self.code = getattr(error, "code", "cancelled")
            raise
        except TimeoutError as late:
            if not self.timeout.expired():
                raise
            self.code = "upstream_timeout"
            raise self.error(self.late, self.code) from late
        finally:
            observer.call_ended(
                CallEnded(
                    id=name,
                    attempt=self.number,
                    code=self.code,
                    answered_model=self.answered_model,
                    usage=self.usage,
                )
            )

    async def send(
        self,
        call: HttpCall,
        how: Callable[..., Awaitable[T]],
        part: int = 0,
        *,
        refits: bool = False,
        **options: Any,
    ) -> T:
        """Send the request for a part by `fetch` or `open_stream`, with their options.

        `refits`: a refused one is sent once more, see `Target.refit`.

        Raises:
            UpstreamError: it failed; without the upstream's secrets.
            RelayError: an exception of the options' functions.
        """
        self._add_headers(call)
        call = msgspec.structs.replace(
            call,
            connect_timeout_s=self.limits.connect_timeout_s,
            on_resend=partial(self._on_resend, part),
        )
        name, refit = self.target.upstream.name, None
        try:
            try:
                return await how(self.client, call, upstream=name, **options)
            except UpstreamError as refused:
                if not refits or refused.code != "upstream_invalid_request":
                    raise
                refit = await self.target.refit(call, refused, None)
            found = await how(self.client, refit.call, upstream=name, **options)
        except BROKEN as failure:
            self.fail(failure, part)
        self.target.learn(refit)
        self.left_out.update(refit.left_out)
        return found

    def fail(self, failure: BaseException, part: int = 0, *, answered: bool = False) -> NoReturn:
        """Raise the error of a request that is `BROKEN`; count what the provider may bill."""
        cancelled = isinstance(failure, asyncio.CancelledError)
        if not self.may_bill(failure, answered=answered):
            self.parts.pop(part, None)
        elif not (cancelled or self.begun) or isinstance(failure, UpstreamError):
            self.unanswered(part)
        if isinstance(failure, UpstreamError):
            raise failure from None
        if cancelled or not isinstance(failure, Exception):
            raise failure
        upstream = self.target.upstream.name
        raise explain(failure, upstream=upstream, answered=answered) from failure

    def error(self, what: str, code: str = "upstream_invalid_response") -> UpstreamError:
        """Return an error that says `what` its upstream did."""
        return UpstreamError(code, f"upstream {self.target.upstream.name!r} {what}")

    def _on_resend(self, part: int) -> None:
        self.resent = True
        if part in self.parts:
            self._first.append(msgspec.structs.replace(self.parts[part], output_tokens=0))

    def unanswered(self, part: int = 0) -> None:
        """Count only the input of a part: the provider has no output to bill."""
        if part in self.parts:
            self.parts[part] = msgspec.structs.replace(self.parts[part], output_tokens=0)

    def answered(self, part: int, counts: TokenCounts) -> None:
        """Record the provider's own counts of a part, and estimates for implausible ones.

        A missing count of output is estimated, too.
        """
        sent = self.parts[part]
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
        self.parts[part] = msgspec.structs.replace(
            sent if used is None else counts,
            input_tokens=sent.input_tokens if used is None else used,
            output_tokens=output,
            audio_output_tokens=counts.audio_output_tokens if sound is None else output,
            cost=counts.cost,
            estimated=None if plausible and known else True,
        )

    def _count(self) -> TokenCounts | None:
        """Return the counts that may be billed; None if there are none."""
        parts = self.parts.values()
        if not parts:
            return None
        costs = [to_nano(part.cost) for part in parts if part.cost is not None]
        known, total = len(costs) == len(parts), reduce(add_counts, parts)
        return msgspec.structs.replace(
            total,
            total_tokens=(total.input_tokens or 0) + (total.output_tokens or 0),
            cost=to_usd(sum(costs)) if known else None,
            cost_from="provider" if known else None,
        )

    def end(self, end: StreamEnd | None = None, last: Sequence[Event] = ()) -> Charge:
        counts, price = self.usage or self._count(), self.context.parts.settlements.price
        self.charge = FREE if counts is None else price(self.target.name, counts)
        return self.charge

    def charge_first(self) -> list[Charge]:
        price, name = self.context.parts.settlements.price, self.target.name
        return [price(name, estimate) for estimate in self._first]

"""What calls cost that make no stream, such as embeddings: counted as streams are.

Such a call is a stream in the log which nobody can read: its id is told to nobody, and its
owner is nobody's. So it is reserved and settled in the same steps, and where its process is
lost it is ended by whoever ends the streams of that.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec
import structlog

from ..errors import RelayError, RequestError, ServiceError
from ..eventlog import EventLog
from ..eventlog.record import StreamRecord
from ..eventlog.stream_ended import Charge, StreamEnded
from ..events import StreamEnd, StreamStart, TokenCounts
from ..identity.principal import Principal
from ..ledger.accounts import Account, ReservationRequest
from ..ledger.money import to_nano, to_usd
from ..telemetry.trace_context import TRACEPARENT
from ..upstreams.routes import Route
from .accounting import FREE, Accounting
from .token_usage import believe

NOBODY: Final = "\x1fcall"
"""The owner of such a stream: no principal's, whose owners begin otherwise."""

MAX_MODEL: Final = 200

Spawn = Callable[[Coroutine[Any, Any, None]], object]

log = structlog.get_logger("seseragi.booking")


class Tally:
    """What one attempt of a call has used: it may make several calls of its upstream."""

    def __init__(self) -> None:
        self._calls = 0
        self._told = 0
        self._guessed = 0
        self._costs: list[str | None] = []
        """What the upstream says that each call has cost."""

    def sent(self, estimate: int) -> None:
        """Count an input that an upstream is sent, until it says how long that was."""
        self._calls += 1
        self._guessed += estimate

    def refused(self, estimate: int) -> None:
        """Count an input no more: it was not taken."""
        self._calls -= 1
        self._guessed -= estimate

    def answered(self, estimate: int, tokens: int | None, cost: str | None = None) -> None:
        """Take the upstream's own count, and what it says of the cost, if it does."""
        self._costs.append(cost)
        believed = believe(tokens, estimate=estimate)
        if believed is not None:
            self._guessed -= estimate
            self._told += believed
        elif tokens is not None:
            log.warning("provider counts more than is possible", input_tokens=tokens)

    @property
    def counts(self) -> TokenCounts | None:
        """What may be billed; None where nothing was taken."""
        if not self._calls:
            return None
        used = self._told + self._guessed
        counts = TokenCounts(used, 0, used, estimated=True if self._guessed else None)
        costs = [to_nano(cost) for cost in self._costs if cost is not None]
        if len(costs) < self._calls:
            return counts
        return msgspec.structs.replace(counts, cost=to_usd(sum(costs)), cost_from="provider")


class Booking:
    """One call that is being made, and its attempts."""

    def __init__(self) -> None:
        self.tallies: list[tuple[str, Tally]] = []
        """Of each attempt, by its target."""
        self.answered_model: str | None = None

    def attempt(self, target: str) -> Tally:
        """Begin an attempt."""
        tally = Tally()
        self.tallies.append((target, tally))
        return tally


class Bookings:
    """Books the calls of one request."""

    def __init__(
        self,
        event_log: EventLog,
        accounting: Accounting,
        principal: Principal,
        *,
        kind: str,
        request_id: str,
        spawn: Spawn,
    ) -> None:
        self._log = event_log
        self._accounting = accounting
        self._principal = principal
        self._kind = kind
        self._request_id = request_id
        self._spawn = spawn

    @contextlib.asynccontextmanager
    async def call(
        self, route: Route, *, model: str | None, input_tokens: int
    ) -> AsyncIterator[Booking]:
        """Reserve what a call may cost, and settle it when it is over, however that comes.

        Raises:
            LimitReached: there is not enough left; nobody was called.
            RequestError: `budget_exceeded`, money is limited and a price is unknown.
            ServiceError: `overloaded`, the log cannot count it.
        """
        reserve = self._accounting.request_call(self._principal, route, input_tokens)
        record = self._record(route.name, reserve, model=model)
        # With a key the log tells that it has the first event, and not that it will.
        record = msgspec.structs.replace(record, key=record.id)
        await self._create(record)
        booking = Booking()
        end = StreamEnd("cancelled", "cancelled")
        try:
            await self._begin(record)
            yield booking
            end = StreamEnd("completed", "stop")
        except RelayError as error:
            end = StreamEnd("failed", "error", error=error.info())
            raise
        finally:
            await self._end(record, booking, end)

    @contextlib.asynccontextmanager
    async def free_call(self) -> AsyncIterator[None]:
        """Count a call that costs nothing as a request, where those are limited.

        It takes a place among the streams at once as long as it lasts, and leaves no row.

        Raises:
            LimitReached: there are too many.
            ServiceError: `overloaded`, the log cannot count it.
        """
        accounts = tuple(map(_requests_only, self._accounting.accounts_of(self._principal)))
        if not any(
            one.requests_per_minute is not None or one.streams is not None for one in accounts
        ):
            yield
            return
        reserve = ReservationRequest(accounts, self._accounting.wall(), least_output_tokens=0)
        record = self._record("", reserve, model=None)
        # With a key the log knows that it never began, however it ends.
        record = msgspec.structs.replace(record, key=record.id)
        await self._create(record)
        try:
            yield
        finally:
            await self._drop(record.id)

    def _record(
        self, route: str, reserve: ReservationRequest, *, model: str | None
    ) -> StreamRecord:
        principal = self._principal
        return StreamRecord(
            f"st_{secrets.token_urlsafe(16)}",
            NOBODY,
            self._request_id,
            route,
            created_at=self._accounting.wall(),
            reserve=reserve,
            tenant=principal.tenant,
            user=principal.user,
            key_name=principal.key,
            model=(model or "")[:MAX_MODEL],
            client_format=self._kind,
            traceparent=TRACEPARENT.get(),
        )

    async def _create(self, record: StreamRecord) -> None:
        try:
            await self._log.create(record)
        except asyncio.CancelledError:
            self._spawn(self._drop(record.id))
            raise
        except ServiceError as error:
            raise _unavailable(error) from None

    async def _begin(self, record: StreamRecord) -> None:
        """Log the first event: whoever finds it knows that an upstream may have been called."""
        start = StreamStart(record.id, record.route, int(record.created_at))
        try:
            await self._log.append(record.id, [start])
        except RelayError as error:
            raise _unavailable(error) from None

    async def _end(self, record: StreamRecord, booking: Booking, end: StreamEnd) -> None:
        tallies = booking.tallies
        charges = [self._charge(target, tally.counts) for target, tally in tallies]
        now = self._accounting.wall()
        ended, settlement = self._accounting.close(
            StreamEnded(
                record=record,
                end=end,
                charges=charges or [FREE],
                target=tallies[-1][0] if tallies else None,
                answered_model=booking.answered_model,
                attempts=max(1, len(tallies)),
                started_at=record.created_at,
                ended_at=now,
                duration_s=now - record.created_at,
                events=2,
            )
        )
        try:
            await self._log.append(record.id, [ended.end], settlement)
        except (RequestError, ValueError):  # somebody else has ended it, and settled it so
            log.warning("a call was ended from outside", kind=self._kind)
        except ServiceError as error:
            raise _unavailable(error) from None
        self._spawn(self._drop(record.id))  # nobody will read it

    def _charge(self, target: str, counts: TokenCounts | None) -> Charge:
        return FREE if counts is None else self._accounting.price(target, counts)

    async def _drop(self, stream: str) -> None:
        with contextlib.suppress(RelayError):
            await self._log.delete(stream)


def _requests_only(account: Account) -> Account:
    return msgspec.structs.replace(
        account, tokens_per_minute=None, nano_usd_per_day=None, nano_usd_per_month=None
    )


def _unavailable(error: RelayError) -> RelayError:
    """Return what is told where a call cannot be counted: then it is not made, or not given."""
    if error.code != "internal":
        return error
    return ServiceError(
        "overloaded",
        "the event log failed, and calls are counted there; try again",
        retry_after_s=1,
    )

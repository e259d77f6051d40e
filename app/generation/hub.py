"""One process at work: built, opened, drained and closed; what is told of it.

What it does for those who ask is done by its parts: `OwnedStreams` and `Calls`.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec
import structlog

from ..admission import Admission, Shares
from ..clock import SYSTEM, Clock
from ..deadlines import Limits
from ..errors import RelayError, RequestError
from ..eventlog import EventLog
from ..identity.principal import Principal, check_admin, check_may
from ..ledger.accounts import Account, AccountState
from ..ledger.report import Report, report
from ..telemetry.load import Load
from ..telemetry.observer import Observer, Observers, Refused
from ..telemetry.progress import Progress
from ..upstreams.client import Client
from ..upstreams.routes import Health, Listed, Upstreams
from .accounting import Accounting
from .calls import Calls
from .origin import Pseudonym
from .owned_streams import OwnedStreams
from .readers import Attendance
from .runs import Runs
from .shutdown import STOP_S, Shutdown
from .starts import Starts
from .taping import Taping

T = TypeVar("T")

log = structlog.get_logger("seseragi.hub")


class HubLimits(msgspec.Struct, frozen=True):
    """How much this process takes on."""

    max_streams: int = 2000
    max_readers: int = 200
    """Readers of one stream at once."""


class Service(Protocol):
    """What works beside the streams, with the log, as long as that is open."""

    async def open(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End: all streams have, and the log is open yet."""


class Hub:
    """All that runs in this process, from its start to its stop."""

    def __init__(
        self,
        *,
        upstreams: Upstreams,
        client: Client,
        event_log: EventLog,
        limits: Limits,
        capacity: HubLimits,
        shares: Shares,
        accounting: Accounting,
        observers: Sequence[Observer] = (),
        services: Sequence[Service] = (),
        tells_content: bool = False,
        taping: Taping | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        """Prepare it; with `tells_content` observers are told what is asked and answered."""
        self.upstreams = upstreams
        self.clock = clock
        self._taping = taping
        self.accounting = accounting
        self.admission = Admission(shares, max_streams=capacity.max_streams, clock=clock.monotonic)
        self.shutdown = Shutdown(self._is_busy)
        self._log = event_log
        self._client = client
        self._observer = Observers(observers)
        self.services = services
        self._tasks: set[asyncio.Task[Any]] = set()
        pseudonym = Pseudonym()
        self._attendance = Attendance(
            event_log,
            self.admission,
            self._observer,
            max_readers=capacity.max_readers,
            drain=self.drain_once,
            spawn=self._spawn,
        )
        self._runs = Runs(
            upstreams=upstreams,
            client=client,
            event_log=event_log,
            limits=limits,
            accounting=accounting,
            admission=self.admission,
            attendance=self._attendance,
            observer=self._observer,
            pseudonym=pseudonym,
            shutdown=self.shutdown,
            tells_content=tells_content,
        )
        self._starts = Starts(
            upstreams=upstreams,
            event_log=event_log,
            accounting=accounting,
            admission=self.admission,
            pseudonym=pseudonym,
            runs=self._runs,
            shutdown=self.shutdown,
            spawn=self._spawn,
            taping=taping,
        )
        self.calls = Calls(
            upstreams=upstreams,
            client=client,
            event_log=event_log,
            limits=limits,
            accounting=accounting,
            admission=self.admission,
            observer=self._observer,
            pseudonym=pseudonym,
            shutdown=self.shutdown,
            spawn=self._spawn,
        )

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _is_busy(self) -> bool:
        return bool(self._runs or self.calls.count)

    def streams_of(self, principal: Principal, *, request_id: str = "") -> OwnedStreams:
        """Return the streams of whoever asks, by a request of this id."""
        return OwnedStreams(
            principal,
            event_log=self._log,
            runs=self._runs,
            starts=self._starts,
            request_id=request_id,
        )

    @property
    def readiness(self) -> Literal["ready", "draining", "log failing"]:
        """Whether new streams can be taken, and if not, why."""
        if self.shutdown.draining:
            return "draining"
        return "ready" if self._log.healthy() else "log failing"

    def health(self, principal: Principal) -> list[Health]:
        """Return the health of every target.

        Raises:
            RequestError: `forbidden`, who asks may not use all of them, or is a stream token.
        """
        check_may(principal)
        if principal.models is not None:
            raise RequestError(
                "forbidden", "how targets fare is told to credentials that may use every model"
            )
        return self.upstreams.health(now=asyncio.get_running_loop().time())

    def load(self) -> Load:
        """Return how much this process does now."""
        kept = self._log.size()
        return Load(
            streams=len(self._runs),
            calls=self.calls.count,
            readers=self._attendance.count,
            draining=self.shutdown.draining,
            log_healthy=self._log.healthy(),
            log_streams=kept.streams,
            log_bytes=kept.bytes,
            request_bytes=self.admission.bytes,
            breakers=self.upstreams.states(now=asyncio.get_running_loop().time()),
        )

    def running(self, principal: Principal, *, most: int) -> Iterator[Progress]:
        """Return how far some streams are that run here now, those that began first.

        Each is looked at when it is asked for.

        Raises:
            RequestError: `forbidden`, who asks is no admin.
        """
        check_admin(principal)
        return self._runs.progress(most=most)

    def read_here(self, principal: Principal, *, most: int) -> dict[str, int]:
        """Return how many readers here some streams have, wherever these run.

        Raises:
            RequestError: `forbidden`, who asks is no admin.
        """
        check_admin(principal)
        return self._attendance.some(most)

    def report_refusal(
        self, principal: Principal, request_id: str, model: str | None, error: RelayError
    ) -> None:
        """Tell the observers of a request that ended in an error and no stream."""
        self._observer.refused(Refused(principal.owner, request_id, model, error))

    def observe(self, observer: Observer) -> None:
        """Tell one more observer, from now on."""
        self._observer.add(observer)

    def reconfigure(self, upstreams: Upstreams, accounting: Accounting) -> None:
        """Take other routes, prices and limits for all that begins from now on.

        What runs keeps what it began with.
        """
        accounting.records_away = self.accounting.records_away
        self.upstreams.become(upstreams)
        for part in (self, self._starts, self._runs, self.calls):
            part.accounting = accounting

    async def models(self, principal: Principal) -> list[Listed]:
        """List the models that who asks may name, the default first.

        Raises:
            RequestError: `forbidden`, a stream token asks.
        """
        check_may(principal)
        models = await self.upstreams.models(self._client, self.accounting.list_price)
        return [model for model in models if principal.may_use(model.name)]

    async def usage(self, principal: Principal, *, of: Account | None = None) -> Report:
        """Return what whoever asks has used, and what is left; `of` another, for an admin.

        Raises:
            RequestError: `forbidden`, a stream token asks, or one of another who is no admin.
        """
        check_may(principal)
        is_admin = "admin" in principal.roles
        if of is not None and not is_admin:
            raise RequestError(
                "forbidden",
                "tenant, user, key: only a key with the role 'admin' is told what others use; "
                "leave them out",
            )
        if is_admin:
            accounts: tuple[Account, ...] = (of or self.accounting.accounts.relay(),)
        else:
            accounts = self.accounting.accounts_of(principal)
        states = await self._log.accounts([account.name for account in accounts])
        return report(accounts, states, self.clock.wall())

    async def read_accounts(
        self, accounts: Sequence[Account]
    ) -> list[tuple[Account, AccountState]]:
        """Return accounts with their numbers of now; none while the log cannot be reached."""
        try:
            states = await self._log.accounts([account.name for account in accounts])
        except RelayError:
            return []
        now = self.clock.wall()
        for state in states:
            state.turn_to(now)
        return list(zip(accounts, states, strict=True))

    async def drain(self, drain_s: float) -> None:
        """Take no new streams, let the running ones end, stop those that have not in time."""
        log.info("draining", streams=len(self._runs), drain_s=drain_s)
        await self.shutdown.drain(drain_s)
        await self._stop_all()

    async def drain_once(self, drain_s: float) -> None:
        """Do what `drain` does, unless that is being done."""
        if not self.shutdown.draining:
            await self.drain(drain_s)

    def stop_now(self) -> None:
        """Cut a running `drain` short."""
        self.shutdown.cut_short()

    async def open(self) -> None:
        """Make the log ready.

        Raises:
            LogUnusable: the place of the log cannot be used.
        """
        self._log.on_ended(self._runs.report_end)
        self._log.close_by(lambda lost: self.accounting.close_lost(lost))
        await self._log.open()
        self._log.on_stop(self._runs.obey_stop)
        for service in self.services:
            await service.open()

    async def close(self) -> None:
        """Stop everything, close the HTTP client and the log."""
        await self._stop_all()
        if self._taping is not None:
            await self._taping.close(timeout_s=STOP_S)
        for task in self._tasks:
            task.cancel()
        for service in self.services:
            await service.close()
        await self._client.aclose()
        await self._log.close()

    async def _stop_all(self) -> None:
        self.shutdown.stop()
        await self._runs.stop_all()
        self._log.release_remote_readers()

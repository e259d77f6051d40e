"""The settlement of one run: the costs of its attempts, and its end with cost and cause."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..eventlog.stream_ended import Charge, StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import EndedBy, Event, StreamEnd, TokenCounts, Usage
from ..ledger.accounts import Settlement
from ..requests import ChatRequest, OutputCeiling, TranslatedRequest
from .accounting import FREE, Accounting
from .attempt import Attempt
from .content import Content
from .readers import ReaderCounts


class Settled(NamedTuple):
    """The end of a run, settled."""

    events: Sequence[Event]
    """The last events; the `stream.end` has the cost of the stream."""
    settlement: Settlement
    ended: StreamEnded


class RunSettlement:
    """Charges the attempts of a run, and settles its end."""

    def __init__(
        self,
        record: StreamInfo,
        request: ChatRequest,
        *,
        accounting: Accounting,
        produced: Callable[[], Sequence[Event]],
        reader_counts: Callable[[], ReaderCounts],
        clock: Callable[[], float],
        record_content: bool,
        trace_content: bool,
    ) -> None:
        """Prepare it; `produced` returns the stream's events in the log."""
        self._record = record
        self._ceiling = _ceiling_of_budget(request)
        self._accounting = accounting
        self._produced = produced
        self._reader_counts = reader_counts
        self._clock = clock
        self._started_at = clock()
        self._record_content = record_content and accounting.keeps_rows
        self._trace_content = trace_content
        self._content = Content(request) if self._record_content or trace_content else None
        self._followed: list[Charge] = []
        """The charges of attempts that another one has followed."""
        self._last: Charge | None = None

    @property
    def spent_nano_usd(self) -> int | None:
        """The cost of all attempts that another one has followed; None if a price is unknown."""
        spent = [charge.nano_usd for charge in self._followed]
        return None if None in spent else sum(nano or 0 for nano in spent)

    def charge_followed(self, attempt: Attempt, end: StreamEnd, events: Sequence[Event]) -> None:
        """Charge an attempt that failed with these last events, where another one follows."""
        self._followed.append(self._charge(attempt, end, events, followed=True))

    def settle(
        self,
        attempt: Attempt,
        end: StreamEnd,
        events: Sequence[Event],
        *,
        logged: int,
        first_event_s: float | None,
        stopped_by: EndedBy | None,
    ) -> Settled:
        """Return the end of the stream: these events of its last attempt, after `logged` ones."""
        if self._last is None:
            # Once: if the log refuses this end, another follows that knows less.
            began, stopped = first_event_s is not None, stopped_by is not None
            self._last = self._charge(attempt, end, events, began=began, stopped=stopped)
        end = msgspec.structs.replace(end, ended_by=self._ended_by(attempt, end, stopped_by))
        events = [*events[:-1], end]
        counts = self._reader_counts()
        # Rows that wait for an unavailable database have to be small.
        recorded = self._record_content and not self._accounting.records_away()
        content = b""
        if self._content is not None and (recorded or self._trace_content):
            content = self._content.pack([*self._produced(), *events])
        deadlines = attempt.deadlines
        ended, settlement = self._accounting.close(
            StreamEnded(
                info=self._record,
                end=end,
                charges=[*self._followed, self._last],
                target=attempt.target.name,
                answered_model=attempt.parser.model or attempt.target.model,
                attempts=attempt.number,
                started_at=self._record.created_at,
                ended_at=self._accounting.wall(),
                duration_s=self._clock() - self._started_at,
                first_event_s=first_event_s,
                longest_gap_s=deadlines.longest_gap_s if deadlines else None,
                readers=counts.readers,
                resumes=counts.resumes,
                events=logged + len(events),
                reply=attempt.reply(),
                content=content if recorded else b"",
                traced_content=content if self._trace_content else b"",
            )
        )
        if attempt.target.replays and end.usage is not None:
            # It has the cost of the recorded stream.
            return Settled(events, settlement, msgspec.structs.replace(ended, end=end))
        usage = ended.end.usage
        events = [_with_cost(one, usage) if type(one) is Usage else one for one in events[:-1]]
        return Settled([*events, ended.end], settlement, ended)

    def _ended_by(
        self, attempt: Attempt, end: StreamEnd, stopped_by: EndedBy | None
    ) -> EndedBy | None:
        """Return the cause of the end; None for a complete answer.

        The only place that decides it, except for streams with a lost producer.
        """
        ceiling = self._ceiling
        if end.status == "completed":
            if end.finish_reason != "length" or ceiling is None:
                return None
            counts = end.usage
            used = None if counts is None or counts.estimated else counts.output_tokens
            return "budget" if used is None or used >= ceiling.tokens else None
        if stopped_by is not None:
            return stopped_by
        if end.ended_by is not None:  # from a recording
            return end.ended_by
        if attempt.late:
            return "deadline"
        error = end.error
        if attempt.head is None and error and not error.code.startswith("upstream_"):
            return "relay"
        return "provider"

    def _charge(
        self,
        attempt: Attempt,
        end: StreamEnd,
        events: Sequence[Event],
        *,
        began: bool = False,
        stopped: bool = False,
        followed: bool = False,
    ) -> Charge:
        """Return the cost of an attempt that ended with these events.

        `FREE` if the provider refused it before there was anything to bill.
        """
        parser, deadlines, silence = attempt.parser, attempt.deadlines, None
        reported = end.usage or parser.usage
        if reported is None and ((parser.refused and not began) or not attempt.billable):
            return FREE
        completed, early = end.status == "completed", parser.counted_early
        ended_itself = parser.refused or (completed and early)
        # A client may leave before the head, while the model thinks; a provider that has sent no
        # head by its deadline has most likely done nothing.
        if deadlines is not None and (deadlines.taken or stopped) and not ended_itself:
            silence = deadlines.silence(self._clock())
        return self._accounting.charge(
            attempt.target.name,
            reported,
            request=self._record.reserve,
            written=[*self._produced(), *events],
            complete=completed and not early,
            silence=silence,
            followed=followed,
        )


def _with_cost(event: Usage, counts: TokenCounts | None) -> Usage:
    """Return an event with the cost of its counts; without a cost if estimates are billed."""
    if counts is None or counts.estimated:
        return msgspec.structs.replace(event, cost=None, cost_from=None)
    return msgspec.structs.replace(event, cost=counts.cost, cost_from=counts.cost_from)


def _ceiling_of_budget(request: ChatRequest) -> OutputCeiling | None:
    """Return the output ceiling from usage limits, unless the request asks for less."""
    ceiling = request.ceiling if isinstance(request, TranslatedRequest) else None
    return ceiling if ceiling is not None and (ceiling.lowered or not ceiling.asked) else None

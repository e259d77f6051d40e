"""The settlement of one run: its end, with the sum of its charges and the facts for observers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..eventlog.stream_ended import StreamEnded
from ..eventlog.stream_info import StreamInfo
from ..events import EndedBy, Event, StreamEnd, TokenCounts, Usage
from ..ledger.accounts import Settlement
from ..requests import OutputCeiling
from ..telemetry.activity import ReaderCounts
from .call import Call
from .charges import Charges
from .content import Content
from .settlement import Settlements


class Settled(NamedTuple):
    """The end of a run, settled."""

    events: Sequence[Event]
    """The last events; the `stream.end` has the cost of the stream."""
    settlement: Settlement
    ended: StreamEnded


class RunSettlement(msgspec.Struct, kw_only=True):
    """Settles the end of one run."""

    info: StreamInfo
    settlements: Settlements
    charges: Charges
    produced: Callable[[], Sequence[Event]]
    """Returns the stream's events in the log."""
    readers: ReaderCounts
    wall: Callable[[], float]
    """Unix time."""
    content: Content | None
    """The request, if it is recorded or traced."""
    records_content: bool
    traces_content: bool

    def settle(
        self,
        call: Call,
        events: Sequence[Event],
        *,
        duration_s: float,
        logged: int,
        first_event_s: float | None,
        stopped_by: EndedBy | None,
    ) -> Settled:
        """Return the end of the stream: these events after `logged` ones.

        `call` is the last one, whose charge is among the charges.
        """
        end, charges = events[-1], self.charges
        assert isinstance(end, StreamEnd) and charges.last is not None  # noqa: S101, PT018
        ended_by = _find_cause(call, end, stopped_by, charges.ceiling)
        rescued = bool(charges.parts)
        if ended_by != end.ended_by or rescued:
            end = msgspec.structs.replace(end, ended_by=ended_by, rescued=rescued)
            events = [*events[:-1], end]
        # Rows that wait for an unavailable database must be small.
        recorded = self.records_content and not self.settlements.records_away()
        content = b""
        if self.content is not None and (recorded or self.traces_content):
            content = self.content.pack([*self.produced(), *events])
        deadlines = call.deadlines
        ended, settlement = self.settlements.close(
            StreamEnded(
                info=self.info,
                end=end,
                charges=[*charges.followed, charges.last],
                target=call.target.name,
                answered_model=call.reading.parser.model or call.target.model,
                attempts=1 + len(charges.followed),
                started_at=self.info.created_at,
                ended_at=self.wall(),
                duration_s=duration_s,
                first_event_s=first_event_s,
                longest_gap_s=deadlines.longest_gap_s if deadlines else None,
                readers=self.readers.readers,
                resumes=self.readers.resumes,
                events=logged + len(events),
                reply=call.reply(),
                content=content if recorded else b"",
                traced_content=content if self.traces_content else b"",
            ),
            parts=[*charges.parts, charges.last] if rescued else (),
        )
        if call.target.replays and end.usage is not None:
            # It has the cost of the recorded stream.
            return Settled(events, settlement, msgspec.structs.replace(ended, end=end))
        last = [*events[:-1], ended.end]
        for at in reversed(range(len(last))):
            if type(event := last[at]) is Usage:
                if rescued and ended.end.usage is not None:
                    event = Usage(*msgspec.structs.astuple(ended.end.usage))
                last[at] = _with_cost(event, ended.end.usage)
                break  # there is at most one
        return Settled(last, settlement, ended)


def _find_cause(
    call: Call, end: StreamEnd, stopped_by: EndedBy | None, ceiling: OutputCeiling | None
) -> EndedBy | None:
    """Return the cause of the end; None for a complete answer.

    The only place that decides it, except for streams with a lost producer.
    """
    if end.status == "completed":
        if end.finish_reason != "length" or ceiling is None:
            return None
        if ceiling.explicit and not ceiling.lowered:
            return None
        counts = end.usage
        used = None if counts is None or counts.estimated else counts.output_tokens
        return "budget" if used is None or used >= ceiling.tokens else None
    if stopped_by is not None:
        return stopped_by
    if end.ended_by is not None:  # from a recording
        return end.ended_by
    if call.late:
        return "deadline"
    error = end.error
    if call.head is None and error and not error.code.startswith("upstream_"):
        return "relay"
    return "provider"


def _with_cost(event: Usage, counts: TokenCounts | None) -> Usage:
    """Return an event with the cost of its counts; without a cost if estimates are billed."""
    if counts is None or counts.estimated:
        return msgspec.structs.replace(event, cost=None, cost_from=None)
    return msgspec.structs.replace(event, cost=counts.cost, cost_from=counts.cost_from)

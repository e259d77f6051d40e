"""The call that checks a target: one attempt of the relay, with its times and its cost."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from ...dialects.writing.token_estimate import estimate_tokens
from ...errors import ServiceError
from ...eventlog.stream_ended import Charge, ProviderReply
from ...events import Event, StreamEnd
from ...generation.admission import RetainedRequest
from ...generation.attempt import Attempt, is_visible
from ...generation.deadlines import Deadlines, Limits
from ...generation.settlement import FREE, Settlements
from ...ledger.accounts import ReservationRequest
from ...requests import ChatRequest, UserMessage
from ...upstreams.client import HttpClient
from ...upstreams.targets import Target

MAX_TOKENS: Final = 1024
"""Limit on the answer. A model that thinks first needs some hundred."""

ANSWER: Final = ChatRequest(
    [UserMessage("Count from one to twenty in words, separated by commas. Say nothing else.")],
    max_completion_tokens=MAX_TOKENS,
)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one call."""

    end: StreamEnd
    reply: ProviderReply
    model: str | None
    """The model's name in the answer."""
    first_event_s: float | None
    duration_s: float
    charge: Charge
    counted: bool
    """Whether the provider has reported the usage."""


class _Recorder:
    """The sink of an attempt, with the time of the first visible event."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.first_at: float | None = None

    def push(self, events: Sequence[Event]) -> bool:
        self.events += events
        if self.first_at is None and any(map(is_visible, events)):
            self.first_at = asyncio.get_running_loop().time()
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        return self.push(events)


async def ask(
    target: Target, *, client: HttpClient, limits: Limits, settlements: Settlements
) -> Outcome:
    """Call a target once, as a relay would, without a retry."""
    clock = asyncio.get_running_loop().time
    recorder = _Recorder()
    attempt = Attempt(
        target,
        RetainedRequest(ANSWER, None),
        number=1,
        client=client,
        limits=limits,
        headers={},
        is_last=True,
    )
    started = clock()
    await attempt.run(recorder, deadlines=Deadlines(limits, now=started))
    duration_s = clock() - started
    end = recorder.events[-1] if recorder.events else None
    if not isinstance(end, StreamEnd):
        raise ServiceError("internal", "the attempt has no end")
    usage = end.usage or attempt.parser.usage
    refused = attempt.parser.refused and recorder.first_at is None
    charge = FREE
    if usage is not None or (attempt.billable and not refused):
        charge = settlements.charge(
            target.name,
            usage,
            request=ReservationRequest(
                (), 0, input_tokens=estimate_tokens(ANSWER), output_tokens=MAX_TOKENS
            ),
            written=recorder.events,
            complete=end.status == "completed" and not attempt.parser.counted_early,
        )
    return Outcome(
        end=end,
        reply=attempt.reply(),
        model=target.upstream.redact(attempt.parser.model) if attempt.parser.model else None,
        first_event_s=None if recorder.first_at is None else recorder.first_at - started,
        duration_s=duration_s,
        charge=charge,
        counted=charge.counts is not None and not charge.counts.estimated,
    )

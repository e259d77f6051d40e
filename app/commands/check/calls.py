"""The call that checks a target: one call of the relay, with its times and its cost."""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from ...dialects.writing.token_estimate import estimate_tokens
from ...errors import ServiceError
from ...eventlog.stream_ended import ProviderReply
from ...events import Event, StreamEnd
from ...generation.call import Call
from ...generation.reading import is_visible
from ...generation.settlement import Billing, Settlements
from ...ledger.accounts import ReservationRequest
from ...policies.admission import RetainedRequest
from ...policies.deadlines import Deadlines, Limits
from ...requests import ChatRequest, UserMessage
from ...upstreams.http import HttpClient
from ...upstreams.targets import Target

MAX_TOKENS: Final = 1024
"""Limit on the answer. A model that thinks first needs some hundred."""

ANSWER: Final = ChatRequest(
    [UserMessage("Count from one to twenty in words, separated by commas. Say nothing else.")],
    max_completion_tokens=MAX_TOKENS,
)


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """One call, as it is reported."""

    http_status: int | None
    first_event_s: float | None
    duration_s: float
    model: str | None
    """The model's name in the answer."""
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    usage_from: Literal["provider", "estimate", "none"]
    cost_usd: str | None
    """None if the price is unknown."""


class Outcome(NamedTuple):
    """The result of a call, and its end as a relay would have it."""

    call: CallReport
    end: StreamEnd
    reply: ProviderReply


class _Recorder:
    """The sink of a call, with the time of the first visible event."""

    call: Call

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.first_at: float | None = None

    def push(self, events: Sequence[Event]) -> bool:
        if self.first_at is None and any(map(is_visible, events)):
            self.first_at = asyncio.get_running_loop().time()
            self.call.start()
        self.events += events
        return True

    async def take(self, events: Sequence[Event]) -> bool:
        return self.push(events)


async def ask(
    target: Target, *, client: HttpClient, limits: Limits, settlements: Settlements
) -> Outcome:
    """Call a target once, as a relay would, without a retry."""
    clock = asyncio.get_running_loop().time
    recorder = _Recorder()
    reserve = ReservationRequest(
        (), 0, input_tokens=estimate_tokens(ANSWER), output_tokens=MAX_TOKENS
    )
    call = recorder.call = Call(
        target=target,
        request=RetainedRequest(ANSWER, None),
        number=1,
        client=client,
        limits=limits,
        billing=Billing(settlements=settlements, request=reserve, produced=lambda: recorder.events),
        is_last=True,
    )
    started = clock()
    await call.run(lambda: recorder, deadlines=Deadlines(limits, now=started))
    duration_s = clock() - started
    end = recorder.events[-1] if recorder.events else None
    if not isinstance(end, StreamEnd):
        raise ServiceError("internal", "the call has no end")
    counts, reply, model = call.end(end).counts, call.reply(), call.reading.parser.model
    report = CallReport(
        http_status=reply.http_status,
        first_event_s=None if recorder.first_at is None else round(recorder.first_at - started, 3),
        duration_s=round(duration_s, 3),
        model=target.upstream.redact(model)[:200] if model else None,
        finish_reason=end.finish_reason,
        input_tokens=counts.input_tokens if counts else None,
        output_tokens=counts.output_tokens if counts else None,
        usage_from="none" if counts is None else "estimate" if counts.estimated else "provider",
        cost_usd=counts.cost if counts else "0",
    )
    return Outcome(report, end, reply)

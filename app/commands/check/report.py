"""The call that checks a target, and its report: JSON for programs, lines with advice.

Names and messages of providers may contain anything: the JSON is ASCII, and the lines escape
what is not printable.
"""

import asyncio
from collections.abc import Iterator, Sequence
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
from ..terminal import escape

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


VERSION: Final = 1
"""Version of the JSON; it grows if a field goes or changes its meaning."""

Status = Literal["ok", "warning", "failed", "skipped"]


class TargetProblem(msgspec.Struct, frozen=True):
    """A defect of a target, and advice."""

    level: Literal["failure", "warning"]
    message: str
    advice: str
    code: str | None = None
    """The relay's error code, as in PROTOCOL.md."""


class TargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """One target."""

    target: str
    upstream: str
    model: str | None
    dialect: str
    base_url: str
    base_url_from: str | None
    """The setting or the variable; None for the provider's own URL."""
    credentials: str | None
    """Where they come from; None without any."""
    status: Status = "ok"
    answer: CallReport | None = None
    problems: Sequence[TargetProblem] = ()


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one check."""

    version: int = VERSION
    ok: bool
    """Whether no target has failed, and at least one was called."""
    calls: int
    cost_usd: str | None
    """Cost of the calls with a known price; None if there are none."""
    cost_complete: bool
    """Whether all prices are known."""
    targets: Sequence[TargetReport]


def lines(report: CheckReport) -> Iterator[str]:
    """Yield the report for people."""
    width = max((len(escape(row.target)) for row in report.targets), default=0)
    for row in report.targets:
        yield f"{_MARKS[row.status]:8}{escape(row.target):{width}}  {_summary(row.answer)}".rstrip()
        for problem in row.problems:
            yield f"        {problem.level}: {escape(problem.message)}"
            yield f"        -> {escape(problem.advice)}"
    statuses = [row.status for row in report.targets]
    counts = [f"{n} {status}" for status in _MARKS if (n := statuses.count(status))]
    more = "" if report.cost_complete else " without calls of unknown price"
    cost = f"{report.cost_usd or '0'} USD{more}"
    yield f"{', '.join(counts)}; {count(report.calls, 'call')}, {cost}"


_MARKS: Final[dict[Status, str]] = {
    "ok": "ok",
    "warning": "warning",
    "failed": "FAILED",
    "skipped": "skipped",
}


def _summary(call: CallReport | None) -> str:
    if call is None:
        return ""
    first = "" if call.first_event_s is None else f" (first event {call.first_event_s:.2f} s)"
    cost = "price unknown" if call.cost_usd is None else f"{call.cost_usd} USD"
    return f"{call.duration_s:.2f} s{first}; {cost}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


_MODEL: Final = "check the model {model!r} and the base URL {base_url!r}{base_url_source}"
_ACCESS: Final = (
    "the credentials come from {credentials}: give them access to {model!r}; check the project, "
    "the region, the billing and the clock of this machine"
)
_PROVIDER: Final = "see the provider's status page, and run the check later"
_HINTS: Final[dict[str, str]] = {
    "401": "the key comes from {credentials}: replace it with a valid one",
    "403": _ACCESS,
    "404": f"{_MODEL}, which mostly ends in /v1",
    "407": "a proxy requires a login: let this machine past it",
    "no response": "check the base URL {base_url!r}{base_url_source} and its host",
    "upstream_auth": "the relay found no credentials in {credentials}: add them",
    "upstream_forbidden": _ACCESS,
    "upstream_billing": "add credit to the account of the key from {credentials}",
    "upstream_not_found": f"{_MODEL}, which mostly ends in /v1",
    "upstream_invalid_response": f"{_MODEL}; its API must speak the dialect {{dialect!r}}",
    "upstream_timeout": "check that the host answers, or raise --timeout",
    "upstream_rate_limited": "run the check later, or ask for a higher limit",
    "upstream_overloaded": "run the check later, or add a target to the route",
    "upstream_unavailable": _PROVIDER,
    "upstream_truncated": _PROVIDER,
    "upstream_tool_failed": _PROVIDER,
    "internal": "this is a bug: report it with the output of the command",
}
"""Advice by HTTP status, then by the relay's error code."""
_OTHER: Final = "check the quirks of [upstream.{name}] (docs/providers) and its dialect {dialect!r}"


def explain(target: Target, outcome: Outcome) -> TargetProblem:
    """Return the reason why a call failed."""
    error, reply, upstream = outcome.end.error, outcome.reply, target.upstream
    if error is None:
        return TargetProblem("failure", f"the answer ended as {outcome.end.status}", "run it again")
    unreachable = reply.http_status is None and error.code == "upstream_unavailable"
    key = "no response" if unreachable else error.code
    hint = _HINTS.get(str(reply.http_status)) or _HINTS.get(key, _OTHER)
    no_key = f"[upstream.{upstream.name}], which names no key"
    source = upstream.credentials_source
    advice = hint.format(
        model=target.model,
        name=upstream.name,
        dialect=upstream.dialect,
        base_url=upstream.base_url,
        base_url_source=f" ({upstream.base_url_source})" if upstream.base_url_source else "",
        credentials=no_key if source.kind == "none" else source,
    )
    said = "" if reply.provider_message in error.message else f": {reply.provider_message}"
    status = f" (HTTP {reply.http_status})" if (reply.http_status or 0) >= 400 else ""
    return TargetProblem("failure", f"{error.message}{said}{status}", advice, code=error.code)


def find_defects(outcome: Outcome) -> list[TargetProblem]:
    """Return the defects of a complete answer."""
    found = []
    if outcome.call.first_event_s is None:
        message = f"the answer is empty and ended with {outcome.end.finish_reason!r}"
        advice = "check the model, and the chat template of its server"
        found.append(TargetProblem("failure", message, advice))
    if outcome.call.usage_from != "provider":
        message = "the provider does not report token usage"
        found.append(TargetProblem("warning", message, "costs are estimated (docs/usage.md)"))
    return found

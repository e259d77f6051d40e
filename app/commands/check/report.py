"""What the check has found, as JSON for programs and as lines for people.

Names and provider's words may hold anything: as JSON all of it is ASCII, on a terminal what
cannot be seen is escaped.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from .calls import Outcome

VERSION = 1
"""Of the form of the JSON: it grows if something is taken out or means something else."""

Status = Literal["ok", "warning", "failed", "skipped"]
Cause = Literal[
    # What does not work.
    "credentials",
    "permission",
    "billing",
    "model",
    "base_url",
    "connection",
    "timeout",
    "rate_limit",
    "provider",
    "request",
    "answer",
    "budget",
    "relay",
    # What works, but not as it might.
    "price",
    "usage",
    "tools",
    "length",
    "output_limit",
    "buffering",
    "clock",
    "not_asked",
]


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with a target, and what would make it work."""

    level: Literal["failure", "warning"]
    cause: Cause
    message: str
    advice: str
    code: str | None = None
    """The relay's own code of the failure, as PROTOCOL.md lists them."""
    call: Literal["answer", "tools"] | None = None
    """In which call it was seen; None: in neither."""


class CallReport(msgspec.Struct, frozen=True, kw_only=True):
    """One call."""

    status: Status
    http_status: int | None
    first_event_s: float | None
    duration_s: float
    model: str | None
    finish_reason: str
    input_tokens: int | None
    output_tokens: int | None
    usage_from: Literal["provider", "estimate", "none"]
    cost_usd: str | None
    """None: the price is unknown."""


class CredentialsReport(msgspec.Struct, frozen=True):
    kind: str
    name: str | None
    setting: str | None


class TargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """One target."""

    target: str
    upstream: str
    model: str | None
    dialect: str
    base_url: str
    base_url_from: str | None
    """The setting or the variable; None: the provider's own."""
    credentials: CredentialsReport
    status: Status
    answer: CallReport | None = None
    tools: CallReport | None = None
    problems: Sequence[Problem] = ()


class Plan(msgspec.Struct, frozen=True):
    """What the check is about to do."""

    calls: int
    targets: Sequence[str]
    ceiling_usd: str | None
    """The most that those calls may cost whose price is known; None: none is."""
    unpriced: Sequence[str]
    """The targets whose price is unknown."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The whole."""

    version: int = VERSION
    ok: bool
    """Whether none has failed, and one at least was asked."""
    plan: Plan
    calls: int
    """How many were made."""
    cost_usd: str | None
    """What those have cost whose price is known; None: none is."""
    cost_complete: bool
    """Whether the price of all is known."""
    targets: Sequence[TargetReport]


def status_of(problems: Sequence[Problem]) -> Status:
    """Return how well something is that has these problems."""
    levels = {problem.level for problem in problems}
    return "failed" if "failure" in levels else "warning" if levels else "ok"


def report_call(outcome: Outcome, problems: Sequence[Problem]) -> CallReport:
    """Return what is told of a call, with the problems that were seen in it."""
    counts = outcome.charge.counts
    return CallReport(
        status=status_of(problems),
        http_status=outcome.head.status if outcome.head else None,
        first_event_s=None if outcome.first_event_s is None else round(outcome.first_event_s, 3),
        duration_s=round(outcome.duration_s, 3),
        model=outcome.model and outcome.model[:200],
        finish_reason=outcome.end.finish_reason,
        input_tokens=counts.input_tokens if counts else None,
        output_tokens=counts.output_tokens if counts else None,
        usage_from="none" if counts is None else "provider" if outcome.counted else "estimate",
        cost_usd=counts.cost if counts else "0",
    )


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield what is told before the first call."""
    calls, targets = _count(plan.calls, "call"), _count(len(plan.targets), "target")
    most = f", at most {plan.ceiling_usd} USD" if plan.ceiling_usd is not None else ""
    yield f"Up to {calls} to {targets}{most}."
    if plan.unpriced:
        yield f"The price is unknown of {', '.join(map(safe, plan.unpriced))}."


def lines(report: Report) -> Iterator[str]:
    """Yield the report for people."""
    width = max((len(safe(row.target)) for row in report.targets), default=0)
    for row in report.targets:
        told = "; ".join(_told(row))
        yield f"{_MARK[row.status]:8}{safe(row.target):{width}}  {told}".rstrip()
        for problem in row.problems:
            what = f"{problem.level}, {problem.cause}"
            yield f"        {what}: {safe(problem.message)}"
            yield f"        -> {safe(problem.advice)}"
    counts = [f"{n} {word}" for word in _MARK if (n := _having(report, word))]
    more = "" if report.cost_complete else " and what has no known price"
    cost = f"{report.cost_usd or '0'} USD{more}"
    yield f"{', '.join(counts)}; {_count(report.calls, 'call')}, {cost}"


_MARK: dict[Status, str] = {
    "ok": "ok",
    "warning": "warning",
    "failed": "FAILED",
    "skipped": "skipped",
}


def _told(row: TargetReport) -> Iterator[str]:
    for name, call in (("answer", row.answer), ("tool call", row.tools)):
        if call is None:
            continue
        if call.status == "failed":
            yield f"{name} failed after {call.duration_s:.2f} s"
        else:
            first = (
                "" if call.first_event_s is None else f" (first event {call.first_event_s:.2f} s)"
            )
            yield f"{name} {call.duration_s:.2f} s{first}"
    costs = [call.cost_usd for call in (row.answer, row.tools) if call is not None]
    if costs:
        yield " + ".join(cost or "unknown" for cost in costs) + " USD"


def _having(report: Report, status: Status) -> int:
    return sum(row.status == status for row in report.targets)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def safe(text: str) -> str:
    """Escape what cannot be seen, and what would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

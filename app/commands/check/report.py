"""The report of the check, as JSON for programs and as lines for people.

Names and messages of providers may contain anything: the JSON is ASCII, and the lines escape
what is not printable.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

from ..terminal import escape
from .calls import CallReport

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


class PlannedCalls(msgspec.Struct, frozen=True):
    """The calls of a check, and their cost."""

    targets: Sequence[str]
    ceiling_usd: str | None
    """Upper bound for the calls with a known price; None if there are none."""
    unpriced: Sequence[str]
    """The targets without a known price."""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of one check."""

    version: int = VERSION
    ok: bool
    """Whether no target has failed, and at least one was called."""
    plan: PlannedCalls
    calls: int
    cost_usd: str | None
    """Cost of the calls with a known price; None if there are none."""
    cost_complete: bool
    """Whether all prices are known."""
    targets: Sequence[TargetReport]


def plan_lines(plan: PlannedCalls) -> Iterator[str]:
    """Yield the lines before the first call."""
    most = f", at most {plan.ceiling_usd} USD" if plan.ceiling_usd is not None else ""
    yield f"{_count(len(plan.targets), 'call')}{most}."
    if plan.unpriced:
        yield f"The price is unknown of {', '.join(map(escape, plan.unpriced))}."


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
    more = "" if report.cost_complete else " and what has no known price"
    cost = f"{report.cost_usd or '0'} USD{more}"
    yield f"{', '.join(counts)}; {_count(report.calls, 'call')}, {cost}"


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
    return f"{call.duration_s:.2f} s{first}; {call.cost_usd or 'unknown'} USD"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"

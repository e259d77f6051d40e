"""Results of a run, and their report."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["pass", "fail", "not verified"]

SHOWN = 3
"""The number of problems shown for a case."""


@dataclass(frozen=True)
class Result:
    name: str
    requires: tuple[str, ...]
    state: State
    reasons: tuple[str, ...] = ()


def result(name: str, requires: Iterable[str], problems: Iterable[str]) -> Result:
    reasons = tuple(problems)
    return Result(name, tuple(requires), "fail" if reasons else "pass", reasons)


def summary(results: list[Result]) -> str:
    count = dict.fromkeys(("pass", "fail", "not verified"), 0)
    for one in results:
        count[one.state] += 1
    return f"{count['pass']} passed, {count['fail']} failed, {count['not verified']} not verified"


def as_text(results: list[Result]) -> str:
    """Return a line for each case, and the sum."""
    lines = []
    for one in results:
        lines.append(f"{one.state:12}  {one.name}  ({', '.join(one.requires)})")
        lines += [f"{'':14}{reason}" for reason in one.reasons[:SHOWN]]
        if len(one.reasons) > SHOWN:
            lines.append(f"{'':14}and {len(one.reasons) - SHOWN} more")
    return "\n".join([*lines, summary(results)])


def as_json(results: list[Result]) -> str:
    """Return a JSON line for each case."""
    return "\n".join(
        json.dumps(
            {
                "case": one.name,
                "requires": one.requires,
                "result": one.state,
                "reasons": one.reasons,
            },
            ensure_ascii=False,
        )
        for one in results
    )

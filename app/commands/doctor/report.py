"""The report: findings with advice, as text and as JSON."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from .path import Hop
from .session import Finding, Session

ADVICE: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("advice.toml").read_text("utf-8")
)
"""By finding and program; `any` is for all others."""
PROXIES = "docs/proxies.md"
RELAY = frozenset(("replicas", "prefix"))
"""Findings caused by the relay, and by no proxy."""


def advise(code: str, hops: Sequence[Hop]) -> list[tuple[Hop | None, str]]:
    """Return the advice for each program that has some; the general one if none has."""
    table = ADVICE[code]
    special = [(hop, table[hop.program]) for hop in hops if hop.program in table]
    return [*special] or [(None, table["any"])]


def _sorted(session: Session) -> list[tuple[Finding, list[tuple[Hop | None, str]]]]:
    """Return the findings with their advice, notes last."""
    findings = sorted(session.findings, key=lambda finding: not finding.wrong)
    return [(finding, advise(finding.code, session.hops)) for finding in findings]


def render_json(session: Session, failure: str = "") -> dict[str, Any]:
    """Return the report for programs."""
    wrong = any(finding.wrong for finding in session.findings)
    return {
        "url": str(session.client.url),
        "status": "wrong" if wrong else "not tried" if failure else "well",
        **({"reason": failure} if failure else {}),
        "hops": [
            {"program": hop.program, "name": hop.shown, "evidence": hop.evidence}
            for hop in session.hops
        ],
        "findings": [
            {**asdict(finding), "advice": [_to_json(*one) for one in advice]}
            for finding, advice in _sorted(session)
        ],
        "measures": session.measures,
    }


def _to_json(hop: Hop | None, message: str) -> dict[str, str | None]:
    return {"program": hop.program if hop else None, "message": message}


def render_text(session: Session, failure: str = "") -> str:
    """Return the report for people."""
    width = max(map(len, session.measures), default=0)
    lines = [f"seseragi doctor {session.client.url}", ""]
    lines += [f"  {name:<{width}}  {message}" for name, message in session.measures.items()]
    lines += ["", "In between:"]
    lines += [f"  {hop.shown} ({hop.evidence})" for hop in session.hops]
    if not session.hops:
        lines.append("  no program that names itself")
    for finding, advice in _sorted(session):
        mark = "WRONG" if finding.wrong else "note "
        lines += ["", f"{mark}  {finding.code}: {finding.message}"]
        for hop, message in advice:
            suspect = "" if hop is None or finding.code in RELAY else f"likely {hop.shown}: "
            lines.append(f"       {suspect}{message}")
    count = sum(finding.wrong for finding in session.findings)
    lines.append("")
    if failure:
        lines.append(f"Could not be examined: {failure}")
    elif count:
        lines.append(f"{count} {'thing is' if count == 1 else 'things are'} wrong; see {PROXIES}.")
    else:
        lines.append("Nothing is wrong.")
    text = "\n".join(lines)  # with names and pages of others: no control characters
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text) + "\n"

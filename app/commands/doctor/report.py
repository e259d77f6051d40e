"""The report: findings with advice, as text and as JSON."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from .path import Hop
from .session import Finding, Session
from .via import Via

ADVICE: Mapping[str, Mapping[str, str]] = tomllib.loads(
    files(__package__).joinpath("advice.toml").read_text("utf-8")
)
"""By finding and program; `any` is for all others."""
PROXIES = "docs/proxies.md"
RELAY = frozenset(("replicas", "prefix", "busy"))
"""Findings caused by the relay or this machine, and by no proxy."""


def advise(code: str, hops: Sequence[Hop], *, unseen: int = 0) -> list[tuple[Hop | None, str]]:
    """Return the advice for each program that has some; for none of them, and unseen ones, any."""
    table = ADVICE[code]
    special: list[tuple[Hop | None, str]] = [
        (hop, table[hop.program]) for hop in hops if hop.program in table
    ]
    return special if special and not unseen else [*special, (None, table["any"])]


def _sorted(session: Session) -> list[tuple[Finding, list[tuple[Hop | None, str]]]]:
    """Return the findings with their advice, notes last."""
    return [
        (finding, advise(finding.code, finding.suspects(session.hops), unseen=session.unseen))
        for finding in sorted(session.findings, key=lambda finding: not finding.wrong)
    ]


def render_json(
    session: Session, *, url: str, failure: str = "", inner: Sequence[Via] = ()
) -> dict[str, Any]:
    """Write the report for programs; `inner` are the examinations of inner URLs."""
    wrong = any(finding.wrong for finding in session.findings)
    return {
        "url": url,
        "status": "wrong" if wrong else "not tried" if failure else "well",
        **({"reason": failure} if failure else {}),
        **({"via": [via.summary for via in inner]} if inner else {}),
        "unseen": session.unseen,
        "hops": [
            {"program": hop.program, "name": hop.shown, "evidence": hop.evidence}
            for hop in session.hops
        ],
        "findings": [
            {
                "code": finding.code,
                "wrong": finding.wrong,
                "message": finding.message,
                "advice": [
                    {"program": hop.program if hop else None, "message": message}
                    for hop, message in advice
                ],
                **({"values": finding.values} if finding.values else {}),
                **({"between": list(finding.between)} if finding.between else {}),
            }
            for finding, advice in _sorted(session)
        ],
        "measures": {
            measure.name: {"message": measure.message, **measure.values}
            for measure in session.measures
        },
    }


def render_text(session: Session, *, url: str, failure: str = "", inner: Sequence[Via] = ()) -> str:
    """Write the report for people; `inner` are the examinations of inner URLs."""
    width = max((len(measure.name) for measure in session.measures), default=0)
    lines = [f"seseragi doctor {url}", ""]
    lines += [f"  {measure.name:<{width}}  {measure.message}" for measure in session.measures]
    lines += ["", "In between:"]
    lines += [f"  {hop.shown} ({hop.evidence})" for hop in session.hops]
    if session.unseen:
        lines.append(
            f"  {session.unseen} more, by X-Forwarded-For, without a name: --via compares with "
            "the URL behind one"
        )
    elif not session.hops:
        lines.append("  no program that names itself")
    for via in inner:
        found = ", ".join(via.summary["wrong"]) or "nothing is wrong"
        lines.append(f"Behind it, {via.url}: {found}{via.failure and f' ({via.failure})'}")
    for finding, advice in _sorted(session):
        lines += ["", *_render_finding(finding, advice)]
    count = sum(finding.wrong for finding in session.findings)
    lines.append("")
    if failure:
        lines.append(f"Could not be tried: {failure}")
    elif count:
        lines.append(f"{count} {'thing is' if count == 1 else 'things are'} wrong; see {PROXIES}.")
    else:
        lines.append("Nothing is wrong.")
    text = "\n".join(lines)  # with names and pages of others: no control characters
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text) + "\n"


def _render_finding(finding: Finding, advice: list[tuple[Hop | None, str]]) -> list[str]:
    lines = [f"{'WRONG' if finding.wrong else 'note '}  {finding.code}: {finding.message}"]
    if finding.between is not None:
        outer, behind = finding.between
        begins = (
            f"introduced between {outer} and {behind}" if behind else f"already there at {outer}"
        )
        lines.append(f"       {begins}")
    for hop, message in advice:
        suspect = "" if hop is None or finding.code in RELAY else f"likely {hop.shown}: "
        if hop is None and len(advice) > 1:
            suspect = "or a program that was not seen: "
        lines.append(f"       {suspect}{message}")
    return lines

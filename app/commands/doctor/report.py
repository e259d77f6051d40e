"""What was found, in words and as JSON."""

from collections.abc import Sequence
from typing import Any

from .advice import advise
from .findings import Finding
from .path import Hop
from .session import Session
from .via import Via

PROXIES = "docs/proxies.md"
MORE = "do not say who they are: --via compares with what is behind one"
RELAY = frozenset(("replicas", "prefix", "clock", "busy"))
"""What is rather the relay's own, or its machine's."""


def render_json(
    exam: Session, *, url: str, failure: str = "", inner: Sequence[Via] = ()
) -> dict[str, Any]:
    """Write the report for programs; `inner` are the examinations of URLs behind that one."""
    wrong = [finding for finding in exam.findings if finding.wrong]
    return {
        "url": url,
        "status": "wrong" if wrong else "not tried" if failure else "well",
        **({"reason": failure} if failure else {}),
        **({"via": [via.summary for via in inner]} if inner else {}),
        "unseen": exam.unseen,
        "hops": [
            {"program": hop.program, "says": hop.shown, "known_by": hop.why} for hop in exam.hops
        ],
        "findings": [
            {
                "code": finding.code,
                "wrong": finding.wrong,
                "says": finding.says,
                "likely": [hop.shown for hop, _ in advice if hop is not None],
                "mend": [
                    {"program": hop.program if hop else None, "says": says} for hop, says in advice
                ],
                **({"values": finding.values} if finding.values else {}),
                **({"between": list(finding.between)} if finding.between else {}),
            }
            for finding in exam.findings
            for advice in [_advise(exam, finding)]
        ],
        "measures": {
            measure.name: {"says": measure.says, **measure.values} for measure in exam.measures
        },
    }


def _advise(exam: Session, finding: Finding) -> list[tuple[Hop | None, str]]:
    return advise(finding.code, finding.suspects(exam.hops), unseen=exam.unseen)


def render_text(exam: Session, *, url: str, failure: str = "", inner: Sequence[Via] = ()) -> str:
    """Write the report for people; `inner` are the examinations of URLs behind that one."""
    lines = [f"seseragi doctor {url}", ""]
    width = max((len(measure.name) for measure in exam.measures), default=0)
    lines += [f"  {measure.name:<{width}}  {measure.says}" for measure in exam.measures]
    lines += ["", *_render_hops(exam)]
    for via in inner:
        found = ", ".join(via.summary["wrong"]) or "nothing is wrong"
        lines.append(f"Behind it, {via.url}: {found}{via.failure and f' ({via.failure})'}")
    for wrong in (True, False):
        for finding in exam.findings:
            if finding.wrong == wrong:
                lines += ["", *_render_finding(exam, finding)]
    count = sum(finding.wrong for finding in exam.findings)
    lines.append("")
    if failure:
        lines.append(f"Could not be tried: {failure}")
    elif count:
        lines.append(f"{count} {'thing is' if count == 1 else 'things are'} wrong; see {PROXIES}.")
    else:
        lines.append("Nothing is wrong.")
    return _printable("\n".join(lines)) + "\n"


def _render_hops(exam: Session) -> list[str]:
    if not exam.hops and not exam.unseen:
        return ["In between: nobody who says so."]
    more = f"  {exam.unseen} more, by X-Forwarded-For, which {MORE}"
    return [
        "In between:",
        *(f"  {hop.shown} ({hop.why})" for hop in exam.hops),
        *([more] if exam.unseen else []),
    ]


def _render_finding(exam: Session, finding: Finding) -> list[str]:
    lines = [f"{'WRONG' if finding.wrong else 'note '}  {finding.code}: {finding.says}"]
    if finding.between is not None:
        outer, behind = finding.between
        lines.append(
            f"       introduced between {outer} and {behind}"
            if behind
            else f"       already there at {outer}"
        )
    advice = _advise(exam, finding)
    for hop, change in advice:
        who = "" if hop is None or finding.code in RELAY else f"likely {hop.shown}: "
        if hop is None and len(advice) > 1:
            who = "or one that was not seen: "
        lines.append(f"       {who}{change}")
    return lines


def _printable(text: str) -> str:
    """Show control characters of what others said as what they are."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)

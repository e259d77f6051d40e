"""What was found, in words and as JSON."""

from typing import Any

from .advice import advise
from .exam import Exam

PROXIES = "docs/proxies.md"
MORE = "do not say who they are: ask them one after the other, from the relay outwards"
RELAY = frozenset(("replicas", "prefix", "clock", "busy"))
"""What is rather the relay's own, or its machine's."""


def render_json(exam: Exam, *, url: str, failure: str = "") -> dict[str, Any]:
    """Write the report for programs."""
    wrong = [finding for finding in exam.findings if finding.wrong]
    return {
        "url": url,
        "status": "wrong" if wrong else "not tried" if failure else "well",
        **({"reason": failure} if failure else {}),
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
            }
            for finding in exam.findings
            for advice in [advise(finding.code, exam.hops, unseen=exam.unseen)]
        ],
        "measures": {
            measure.name: {"says": measure.says, **measure.values} for measure in exam.measures
        },
    }


def render_text(exam: Exam, *, url: str, failure: str = "") -> str:
    """Write the report for people."""
    lines = [f"seseragi doctor {url}", ""]
    width = max((len(measure.name) for measure in exam.measures), default=0)
    lines += [f"  {measure.name:<{width}}  {measure.says}" for measure in exam.measures]
    lines += ["", *_render_hops(exam)]
    for wrong in (True, False):
        for finding in exam.findings:
            if finding.wrong == wrong:
                lines += ["", *_render_finding(exam, finding.code, finding.says, wrong=wrong)]
    count = sum(finding.wrong for finding in exam.findings)
    lines.append("")
    if failure:
        lines.append(f"Could not be tried: {failure}")
    elif count:
        lines.append(f"{count} {'thing is' if count == 1 else 'things are'} wrong; see {PROXIES}.")
    else:
        lines.append("Nothing is wrong.")
    return _printable("\n".join(lines)) + "\n"


def _render_hops(exam: Exam) -> list[str]:
    if not exam.hops and not exam.unseen:
        return ["In between: nobody who says so."]
    more = f"  {exam.unseen} more, by X-Forwarded-For, which {MORE}"
    return [
        "In between:",
        *(f"  {hop.shown} ({hop.why})" for hop in exam.hops),
        *([more] if exam.unseen else []),
    ]


def _render_finding(exam: Exam, code: Any, says: str, *, wrong: bool) -> list[str]:
    lines = [f"{'WRONG' if wrong else 'note '}  {code}: {says}"]
    advice = advise(code, exam.hops, unseen=exam.unseen)
    for hop, change in advice:
        who = "" if hop is None or code in RELAY else f"likely {hop.shown}: "
        if hop is None and len(advice) > 1:
            who = "or one that was not seen: "
        lines.append(f"       {who}{change}")
    return lines


def _printable(text: str) -> str:
    """Show control characters of what others said as what they are."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)

"""Several URLs of one relay, from the outermost inwards: between which two a finding begins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .findings import Finding
from .session import Session


@dataclass(frozen=True)
class Via:
    """The examination of a URL behind the one that was asked for."""

    exam: Session
    url: str
    failure: str
    """Why it was not completed; then it says nothing of any finding."""

    @property
    def summary(self) -> dict[str, Any]:
        """What was found there, in short."""
        wrong = [finding.code for finding in self.exam.findings if finding.wrong]
        reason = {"reason": self.failure} if self.failure else {}
        return {"url": self.url, "wrong": wrong, **reason}

    def has(self, finding: Finding) -> bool | None:
        """Return whether a finding is there too; None if that is not known."""
        found = self.exam.findings
        if any(one.values.get("unsure") == finding.code for one in found):
            return None
        return any((one.code, one.wrong) == (finding.code, finding.wrong) for one in found)


def locate(exam: Session, url: str, inner: Sequence[Via]) -> None:
    """Note of each finding between which two URLs it begins, and rule out other programs."""
    tried = [via for via in inner if not via.failure]
    if tried:
        exam.findings[:] = [
            finding if finding.code == "busy" else _locate(finding, exam, url, tried)
            for finding in exam.findings
        ]


def _locate(finding: Finding, exam: Session, url: str, inner: Sequence[Via]) -> Finding:
    suspects = {hop.program for hop in exam.hops}
    innocent: set[str] = set()
    behind_url = ""
    for via in inner:
        is_there = via.has(finding)
        behind = {hop.program for hop in via.exam.hops}
        if is_there:
            url = via.url
            innocent |= suspects - behind
            suspects &= behind
        elif is_there is not None:
            behind_url = via.url
            # One that is seen on both sides may be two of a kind.
            if suspects - behind:
                innocent |= behind
            break
    return replace(finding, between=(url, behind_url), not_by=finding.not_by | innocent)

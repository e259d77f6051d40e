"""Several URLs of one relay, from the outermost inwards: the two between which a finding begins."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .session import Finding, Session


@dataclass(frozen=True)
class Via:
    """The examination of an inner URL."""

    session: Session
    url: str
    failure: str
    """Why it was not completed, or ""; then it shows nothing of any finding."""

    @property
    def summary(self) -> dict[str, Any]:
        wrong = [finding.code for finding in self.session.findings if finding.wrong]
        reason = {"reason": self.failure} if self.failure else {}
        return {"url": self.url, "wrong": wrong, **reason}

    def has(self, finding: Finding) -> bool | None:
        """Return whether a finding is there too; None if that is unknown."""
        found = self.session.findings
        if any(one.values.get("unsure") == finding.code for one in found):
            return None
        return any((one.code, one.wrong) == (finding.code, finding.wrong) for one in found)


def locate(session: Session, url: str, inner: Sequence[Via]) -> None:
    """Set the URLs between which each finding begins, and rule out other programs."""
    tried = [via for via in inner if not via.failure]
    if tried:
        session.findings[:] = [
            finding if finding.code == "busy" else _locate(finding, session, url, tried)
            for finding in session.findings
        ]


def _locate(finding: Finding, session: Session, url: str, inner: Sequence[Via]) -> Finding:
    suspects = {hop.program for hop in session.hops}
    innocent: set[str] = set()
    behind_url = ""
    for via in inner:
        is_there = via.has(finding)
        behind = {hop.program for hop in via.session.hops}
        if is_there:
            url = via.url
            innocent |= suspects - behind
            suspects &= behind
        elif is_there is not None:
            behind_url = via.url
            # A program that is seen on both sides may be two of a kind.
            if suspects - behind:
                innocent |= behind
            break
    return replace(finding, between=(url, behind_url), not_by=finding.not_by | innocent)

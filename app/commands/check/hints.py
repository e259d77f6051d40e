"""The hints of `seseragi check`: from the relay's error to the setting to change."""

from typing import Final

from ...upstreams.targets import Target
from .calls import Outcome
from .report import TargetProblem

_MODEL: Final = "check the model {model!r} and the base URL {base_url!r}{base_url_source}"
_PROVIDER: Final = "see the provider's status page, and run the check later"
_HINTS: Final[dict[str, str]] = {
    "401": "the key comes from {credentials}: replace it with a valid one",
    "403": "the credentials come from {credentials}: give them access to {model!r}; check the "
    "project, the region, the billing and the clock of this machine",
    "404": f"{_MODEL}, which mostly ends in /v1",
    "407": "a proxy requires a login: let this machine past it",
    "no response": "check the base URL {base_url!r}{base_url_source} and its host",
    "upstream_auth": "the relay found no credentials in {credentials}: add them",
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

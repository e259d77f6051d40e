"""The hints of `seseragi check`: from the relay's error to the setting that needs a look."""

from typing import Final

from ...upstreams.targets import Target
from .calls import Outcome
from .report import Cause, Problem

_PLACE: Final = "check the model's name {model!r} and the base URL {base_url!r}{base_url_source}"
_HINTS: Final[dict[str, tuple[Cause, str]]] = {
    "401": ("credentials", "the key comes from {credentials}: replace it with a valid one"),
    "403": (
        "permission",
        "the credentials come from {credentials}: give them access to {model!r}, and check the "
        "project, the region, the billing and the clock of this machine",
    ),
    "404": ("model", f"{_PLACE}, which mostly ends in /v1"),
    "407": ("connection", "a proxy asks for a login: let this machine past it"),
    "upstream_auth": ("credentials", "the relay found no credentials in {credentials}: add them"),
    "upstream_billing": ("billing", "add credit to the account of the key from {credentials}"),
    "upstream_not_found": ("model", f"{_PLACE}, which mostly ends in /v1"),
    "upstream_invalid_response": (
        "base_url",
        f"{_PLACE}, and that the API there speaks the dialect {{dialect!r}}",
    ),
    "upstream_timeout": ("timeout", "check that the host answers, or raise --timeout"),
    "upstream_rate_limited": ("rate_limit", "run the check later, or ask for a higher limit"),
    "upstream_overloaded": ("rate_limit", "run the check later, or add a target to the route"),
    "upstream_unavailable": ("provider", "see the provider's status page"),
    "upstream_truncated": ("provider", "see the provider's status page"),
    "upstream_tool_failed": ("provider", "see the provider's status page"),
    "unreachable": ("connection", "check the base URL {base_url!r}{base_url_source} and its host"),
    "model_not_found": ("model", "use a model whose name can stand in a URL"),
    "internal": ("relay", "this is a bug: report it with the output of the command"),
}
"""Cause and advice by HTTP status, then by the relay's error code."""
_OTHER: Final[tuple[Cause, str]] = (
    "request",
    "see the quirks of [upstream.{name}] in docs/providers, and whether it speaks the dialect "
    "{dialect!r}",
)


def explain(target: Target, outcome: Outcome) -> Problem:
    """Return the reason why a call has failed."""
    error, upstream, head = outcome.end.error, target.upstream, outcome.head
    if error is None:
        message = f"the answer ended as {outcome.end.status}"
        return Problem("failure", "answer", message, "run the check again")
    status = str(head.status) if head else ""
    key = "unreachable" if not head and error.code == "upstream_unavailable" else error.code
    cause, advice = _HINTS.get(status) or _HINTS.get(key, _OTHER)
    source = f" ({upstream.base_url_source})" if upstream.base_url_source else ""
    no_key = f"[upstream.{upstream.name}], which names no key"
    advice = advice.format(
        model=target.model,
        name=upstream.name,
        dialect=upstream.dialect,
        base_url=upstream.base_url,
        base_url_source=source,
        credentials=no_key
        if upstream.credentials_source.kind == "none"
        else upstream.credentials_source,
    )
    message = error.message
    if head is not None and head.status >= 400:
        words = upstream.redact(head.message)
        message += f": {words}" if words and words not in message else ""
        message += f" (HTTP {head.status})"
    return Problem("failure", cause, message, advice, error.code)


def look_at_answer(outcome: Outcome) -> list[Problem]:
    """Return the defects of an answer that was complete."""
    found = []
    if outcome.first_event_s is None:
        message = f"the answer is empty and ended with {outcome.end.finish_reason!r}"
        advice = "check the model, and the chat template of its server"
        found.append(Problem("failure", "answer", message, advice))
    if not outcome.counted:
        message = "the provider does not report token usage"
        found.append(Problem("warning", "usage", message, "costs are estimated (docs/usage.md)"))
    return found

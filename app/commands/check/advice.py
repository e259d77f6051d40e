"""What is wrong with a target by what its calls have come to, and what would make it work.

Nothing here waits: what else was found out about the upstream is handed in.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import msgspec

from ...dialects.model_facts import About
from ...dialects.reading.json_values import decode
from ...events import ErrorInfo
from ...upstreams.aws import AwsCredentials
from ...upstreams.credentials import Key
from ...upstreams.google import GoogleCredentials
from ...upstreams.targets import Target
from .calls import ARGUMENT, MAX_TOKENS, TOOL, Outcome
from .report import Cause, Problem

MAX_SKEW_S: Final = 60.0
"""Signatures are refused that are minutes old or to come: Amazon's after five."""

PIECES: Final = 8
TOGETHER_S: Final = 0.02
LATE_S: Final = 0.5
"""So many pieces within so short a time, so late: no model is as slow as that and then as fast."""

SILENT_S: Final = 1.0
"""An answer that has said nothing for so long when its time was over had stopped."""

UNASKED: Final = 8
"""So many times what was asked for is no thinking that a provider counts apart."""

_REFUSED: Final = frozenset(
    ("upstream_invalid_request", "upstream_not_found", "upstream_tool_failed", "invalid_request")
)
"""How a call for a tool fails where the model or the host has no tools."""


class Found(msgspec.Struct, frozen=True):
    """What was found out about an upstream after a failure."""

    models: Mapping[str, About] = {}
    """What it lists; empty where it lists none, or could not be asked."""
    base_url: str | None = None
    """Another one, at which it does list models."""


def needs_look(error: ErrorInfo, status: int | None) -> bool:
    """Return whether the models and other base URLs would tell more of a failure."""
    wrong = error.code in ("upstream_not_found", "upstream_invalid_response")
    return wrong or status in (404, 405)


def explain(
    target: Target, outcome: Outcome, *, found: Found, call: Literal["answer", "tools"], now: float
) -> Problem:
    """Return why a call has failed."""
    error = outcome.end.error
    if error is None:
        told = f"the answer ended as {outcome.end.status}"
        return Problem("failure", "answer", told, "run the check again", call=call)
    cause, advice = _find_cause(target, error, outcome, found=found, now=now)
    message = error.message
    said = target.upstream.redact(outcome.head.message) if outcome.head else ""
    if said and said not in message:
        message = f"{message}: {said}"
    status = outcome.head.status if outcome.head else None
    if status is not None and status >= 400:
        message = f"{message} (HTTP {status})"
    return Problem("failure", cause, message, advice, error.code, call)


def _find_cause(
    target: Target, error: ErrorInfo, outcome: Outcome, *, found: Found, now: float
) -> tuple[Cause, str]:
    status = outcome.head.status if outcome.head else None
    upstream = target.upstream
    if status == 407:
        return "connection", (
            f"a proxy on the way to {_host(target)} asks for a login ({_way(outcome)}): let this "
            "machine past it, or take a base URL that does not lead through it"
        )
    if status in (404, 405) and error.code != "upstream_auth":
        return _missing(target, found)
    match error.code:
        case "upstream_auth":
            return _refused_key(target, outcome, now=now)
        case "upstream_billing":
            owner = upstream.credentials_source
            return "billing", f"add credit to the provider's account that the key of {owner} is of"
        case "upstream_not_found":
            return _missing(target, found)
        case "upstream_invalid_response":
            return _no_answer(target, outcome, found)
        case "upstream_timeout":
            if outcome.head is None:
                return "timeout", (
                    f"check that {_host(target)} answers from this machine ({_place(target)}); "
                    "a model that is being loaded takes long: --timeout gives it more"
                )
            return "timeout", _slow_answer(outcome)
        case "upstream_rate_limited" | "upstream_overloaded":
            wait = f" in {error.retry_after_s:.0f} s" if error.retry_after_s else " later"
            return "rate_limit", (
                f"run the check again{wait}; if it stays so, ask the provider for a higher limit, "
                "or give the route another target"
            )
        case "upstream_unavailable" if outcome.head is None:
            return "connection", f"check {_place(target)}, and that {_host(target)} is up"
        case "upstream_unavailable" | "upstream_truncated" | "upstream_tool_failed":
            return "provider", "the provider has failed: see its status page, and run it again"
        case "internal":
            return "relay", "this is a bug: report it with what the command has written"
        case "model_not_found":
            return "model", "give the target a model whose name can stand in a URL"
        case _:
            return "request", (
                f"the host wants other fields: see quirks of [upstream.{upstream.name}] in "
                f"docs/providers, and whether it speaks the dialect {upstream.dialect!r}"
            )


def _slow_answer(outcome: Outcome) -> str:
    """Tell an answer that has not begun from one that stopped, and from one that does not end."""
    if outcome.silent_s is None:
        return "give it more with --timeout; first_event_timeout_s is the relay's"
    if outcome.silent_s > SILENT_S:
        return (
            f"it stopped in the middle of its answer, {outcome.silent_s:.1f} s before that: look "
            "why its server has; idle_timeout_s is the relay's limit on it"
        )
    if outcome.pieces > MAX_TOKENS:
        return (
            f"it went on after {outcome.pieces} pieces, where {MAX_TOKENS} tokens were the most: "
            "it heeds no limit on its answer, and what it costs is bounded by time alone"
        )
    return "it was still answering: give it more with --timeout"


def _refused_key(target: Target, outcome: Outcome, *, now: float) -> tuple[Cause, str]:
    upstream = target.upstream
    source = upstream.credentials_source
    skew = clock_skew(target, outcome, now=now)
    if skew is not None:
        return "clock", _set_clock(skew)
    fields = ", ".join(map(repr, upstream.secret_fields))
    if source.kind == "none" and fields:
        return "credentials", (
            f"no key is sent but {fields} of [upstream.{upstream.name}]: put there what is valid"
        )
    if source.kind == "none":
        return "credentials", (
            f"no key is sent: give key_env or key_file in [upstream.{upstream.name}], "
            "or what the provider's own tools read"
        )
    if outcome.head is None:
        return "credentials", f"the relay looked in {source}; put credentials there that work"
    if outcome.head.status == 403:
        return "permission", (
            f"the credentials come from {source}: give them the right to use "
            f"{target.model!r}, check the project and the region that they are of, the account's "
            "billing, and whether the provider serves the address of this machine"
        )
    hint = f"; {fields} of [upstream.{upstream.name}] goes with it" if fields else ""
    if isinstance(upstream.credentials, Key):
        hint = f"; it is sent as auth = {upstream.credentials.auth!r}{hint}"
        value = upstream.credentials.secret.reveal()
        if value[0] in "\"'" or value[-1] in "\"'":
            hint += "; its value stands in quotation marks, which are sent too: take them away"
        elif value.lower().startswith("bearer"):
            hint += "; its value begins with 'Bearer', which the relay adds itself: take it away"
    return "credentials", f"the key comes from {source}: put one there that is valid{hint}"


def _missing(target: Target, found: Found) -> tuple[Cause, str]:
    """Return what a 404 means: the model, or the whole URL."""
    upstream, model = target.upstream, target.model
    if model in found.models:
        return "model", (
            f"the upstream lists {model!r}, but not for calls to {target.dialect.path!r}: take "
            "another dialect, another model, or ask the provider for access"
        )
    if found.models:
        near = nearest(model, found.models)
        names = f"did you mean {', '.join(map(repr, near))}?" if near else "none is alike"
        return "model", f"the upstream lists {len(found.models)} models, and not {model!r}; {names}"
    if found.base_url is not None:
        return "base_url", _set_base_url(target, found.base_url)
    version = re.search(r"/v\d\w*(/|$)", upstream.base_url)
    path = target.dialect.path.partition("?")[0]
    ends = "" if version or path[0] == "v" else f", which mostly ends in /v1 ({_with_v1(target)!r})"
    return "base_url", f"check the model's name {model!r}, and {_place(target)}{ends}"


def _no_answer(target: Target, outcome: Outcome, found: Found) -> tuple[Cause, str]:
    head = outcome.head
    if head is None:
        return "base_url", f"check {_place(target)}: what answers there does not speak HTTP"
    if found.base_url is not None:
        return "base_url", _set_base_url(target, found.base_url)
    if 300 <= head.status < 400:
        to = target.upstream.redact(head.headers.get("location", "")[:300].partition("?")[0])
        where = f" to {to!r}" if to else ""
        return "base_url", f"it is sent on{where}: make {_place(target)} the URL behind that"
    coding = head.headers.get("content-encoding", "identity")
    if coding.strip().lower() not in ("", "identity"):
        return "base_url", (
            f"something on the way compresses ({_way(outcome)}): turn that off for event streams"
        )
    if "html" in head.headers.get("content-type", ""):
        suggestion = (
            ""
            if re.search(r"/v\d", target.upstream.base_url)
            else f", such as {_with_v1(target)!r}"
        )
        return "base_url", (
            f"a web page answers there and no API: make {_place(target)} the URL of the API"
            f"{suggestion}; a page of a login is that of a proxy on the way"
        )
    return "answer", (
        f"check {_place(target)}, and that the upstream speaks the dialect "
        f"{target.upstream.dialect!r}"
    )


def _set_base_url(target: Target, better: str) -> str:
    where = target.upstream.base_url_source or f"upstream.{target.upstream.name}.base_url"
    return f"the API answers at {better!r}: set {where} to that"


def _with_v1(target: Target) -> str:
    return f"{target.upstream.base_url}/v1"


def _place(target: Target) -> str:
    upstream = target.upstream
    source = f" ({upstream.base_url_source})" if upstream.base_url_source else ""
    return f"the base URL {upstream.base_url!r}{source}"


def _host(target: Target) -> str:
    return target.upstream.base_url.partition("://")[2].partition("/")[0]


def _way(outcome: Outcome) -> str:
    """Name who has answered, as far as the head says it."""
    headers = outcome.head.headers if outcome.head else {}
    told = [f"{n}: {headers[n][:100]}" for n in ("server", "via", "x-cache") if headers.get(n)]
    return ", ".join(told) or "its answers do not say who it is"


def nearest(model: str, known: Mapping[str, object]) -> list[str]:
    """Return the names that are most like one, three at most."""
    near = difflib.get_close_matches(model, list(known)[:10_000], n=3, cutoff=0.5)
    if near:
        return near
    return [name for name in known if model in name or name in model][:3]


def base_urls(target: Target) -> Sequence[str]:
    """Return other base URLs at which the API may be, on the same host."""
    base, path = target.upstream.base_url, target.dialect.path.partition("?")[0]
    if "{" in base:
        return []
    found = [base.removesuffix(f"/{path}")]
    root = re.sub(r"/v\d\w*$", "", found[0])
    found += [f"{root}{end}" for end in ("/v1", "", "/api/v1", "/openai/v1", "/v1beta")]
    at = base.find("/", base.find("://") + 3)
    if at > 0:
        found += [f"{base[:at]}/v1", base[:at]]
    return [url for url in dict.fromkeys(found) if url != base]


def clock_skew(target: Target, outcome: Outcome, *, now: float) -> float | None:
    """Return how much this machine's clock is ahead where requests are signed, if it is wrong."""
    signed = isinstance(target.upstream.credentials, AwsCredentials | GoogleCredentials)
    if not signed or outcome.head is None:
        return None
    try:
        date = parsedate_to_datetime(outcome.head.headers.get("date", "")[:100])
        skew = now - date.timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    return skew if abs(skew) > MAX_SKEW_S else None


def _set_clock(skew: float) -> str:
    way = "ahead of" if skew > 0 else "behind"
    return (
        f"this machine's clock is {abs(skew):.0f} s {way} the provider's, and requests are signed "
        "with the time: set it (timedatectl set-ntp true)"
    )


def look_at_answer(target: Target, outcome: Outcome, *, now: float) -> Iterator[Problem]:
    """Yield what is not as it might be of an answer that has come."""
    skew = clock_skew(target, outcome, now=now)
    if skew is not None:
        message = f"the clocks are {abs(skew):.0f} s apart"
        yield Problem("warning", "clock", message, _set_clock(skew), call="answer")
    if outcome.first_event_s is None:
        told = f"the answer is empty, and ended with {outcome.end.finish_reason!r}"
        advice = (
            "the model, or the template that its server puts around what it is asked, is broken"
        )
        yield Problem("failure", "answer", told, advice, call="answer")
    if not outcome.counted:
        yield Problem(
            "warning",
            "usage",
            "the provider does not say how many tokens were used",
            "costs are estimated: see whether the host can be told to (docs/usage.md)",
            call="answer",
        )
    counts = outcome.charge.counts
    if counts is not None and (counts.output_tokens or 0) > UNASKED * MAX_TOKENS:
        yield Problem(
            "warning",
            "usage",
            f"the provider counts {counts.output_tokens} tokens of output, where {MAX_TOKENS} "
            "were the most that was asked for",
            "ask the provider what it bills: budgets count what it says",
            call="answer",
        )
    if outcome.end.finish_reason == "length":
        yield Problem(
            "warning",
            "length",
            f"{MAX_TOKENS} tokens were not enough for a short answer",
            "the model thinks first, or does not stop: see what it answers before it is used",
            call="answer",
        )
    first = outcome.first_event_s
    if (
        first is not None
        and first >= LATE_S
        and outcome.pieces >= PIECES
        and outcome.spread_s <= TOGETHER_S
    ):
        yield Problem(
            "warning",
            "buffering",
            f"{outcome.pieces} pieces of the answer came all at once, after {first:.1f} s",
            f"something between the model and this machine collects the answer ({_way(outcome)}): "
            "turn off response buffering there (in nginx: proxy_buffering off)",
            call="answer",
        )


def look_at_tool_call(outcome: Outcome) -> Iterator[Problem]:
    """Yield what is wrong with the call of a tool in an answer that has come."""
    arguments = outcome.tool_arguments
    if arguments is None:
        cut = outcome.end.finish_reason == "length"
        yield Problem(
            "warning",
            "tools",
            f"the model was cut at {MAX_TOKENS} tokens before it called the tool"
            if cut
            else "the model has answered without calling the tool that it was told to call",
            "keep requests with tools away from this target, if they matter; a server of your own "
            "may need an option for them (vLLM: --enable-auto-tool-choice)",
            call="tools",
        )
        return
    try:
        given = decode(arguments)
        fits = isinstance(given, dict) and isinstance(given.get(ARGUMENT), str)
    except ValueError:
        fits = False
    if not fits:
        yield Problem(
            "warning",
            "tools",
            f"the model has called {TOOL} with other arguments than its schema has",
            "the model, or its server's parser of tool calls, is not good enough for tools",
            call="tools",
        )


def look_at_refused_tools(problem: Problem) -> Problem:
    """Return the failure of a call with a tool as a warning where it only says there are none."""
    if problem.code not in _REFUSED:
        return problem
    return msgspec.structs.replace(
        problem,
        level="warning",
        cause="tools",
        advice="the model takes no tools here: keep requests with tools away from this target",
    )

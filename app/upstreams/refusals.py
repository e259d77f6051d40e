"""What the models of an upstream refuse, learnt from the errors of their provider.

No list of what providers take stays true. So a request that is refused for a field, value, beta or
keyword that only shapes the answer is sent once more without it; later requests for the model are
sent as that one was taken. Each process learns separately.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
import structlog

from ..dialects.reading.json_values import mapping
from ..dialects.reading.refusal_wordings import Refusal
from ..dialects.writing.output_ceiling import CHOICES, LENGTHS, plain_name
from ..events import Notice
from .transforms import put, take

MAX_MODELS: Final = 1_000
MAX_CHANGES: Final = 20
"""Per model: clients choose the values."""

_FIELDS: Final = frozenset(
    (
        *("temperature", "topp", "topk", "topa", "minp", "typicalp", "seed"),
        *("frequencypenalty", "presencepenalty", "repetitionpenalty", "repeatpenalty"),
        *("reasoning", "reasoningeffort", "reasoningsummary", "reasoningconfig"),
        *("effort", "summary", "generatesummary", "verbosity", "think", "thinking"),
        *("thinkingconfig", "thinkinglevel", "thinkingbudget", "includethoughts"),
        *("enablethinking", "paralleltoolcalls", "streamoptions", "user", "metadata"),
        *("promptcachekey", "promptcacheretention", "promptcacheoptions", "encodingformat"),
    )
)
"""The fields that are left out, in lower case without "_".

Not here is what carries meaning: messages, tools, schemas, stops, limits, safety, storage, the
number of answers, tiers of prices, and where data is processed.
"""

_OTHER_NAMES: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

_MARKS: Final = frozenset(
    (
        *("cache_control", "scope", "ttl", "prompt_cache_breakpoint", "reasoning_content"),
        *("strict", "eager_input_streaming", "defer_loading", "input_examples"),
    )
)
"""The members of messages and tools that are left out: `scope` and `ttl` are of caching."""

_STRUCTURE: Final = frozenset(
    (
        *("type", "properties", "required", "items", "prefixItems", "enum", "const", "not"),
        *("anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "description"),
    )
)
"""The keywords without which a schema would be another; all others are left out."""

_DATA: Final = frozenset(("metadata", "input", "args", "response", "json"))
"""The objects with keys of the client, outside of schemas."""
_CLOSED: Final = _DATA | {"response_format", "labels", "logit_bias"}
"""Those that are not searched for fields."""
_LITERALS: Final = ("default", "const", "enum", "examples")
"""The keywords with values of the client."""

_BETAS: Final = "anthropic-beta"
_PATH: Final = re.compile(r"[\w.-]{1,100}", re.ASCII)

log = structlog.get_logger("seseragi.upstreams")


class Change(msgspec.Struct, frozen=True):
    """One thing that is not sent."""

    kind: Literal["field", "name", "mark", "keyword", "beta"]
    name: str
    """A field's path; a member; a keyword; a beta, or all of a request joined by ","."""
    value: str = ""
    """The refused value of a field as JSON, "" for any; a field's other name."""


class Fitted(NamedTuple):
    """A request without what is refused."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    left_out: list[str]
    """What it had of that, for notices."""
    changes: list[Change]
    """Those that it needed."""


class Refusals:
    """The learnt changes of an upstream's models."""

    def __init__(self) -> None:
        self.known: dict[str, dict[Change, None]] = {}

    def learn(self, model: str, changes: Sequence[Change]) -> None:
        """Record changes with which the model's provider has taken a request."""
        if model not in self.known and len(self.known) >= MAX_MODELS:
            del self.known[next(iter(self.known))]
        named = [change.name for change in changes if change.kind != "keyword"]
        log.info("learnt what a model does not take", model=model, left_out=named)
        known = self.known.setdefault(model, {})
        known.update(dict.fromkeys(changes))
        for old in [*known][:-MAX_CHANGES]:
            del known[old]


def find_changes(
    refusal: Refusal, body: dict[str, Any], headers: Mapping[str, str]
) -> list[Change]:
    """Return the changes after which a refused request means the same, or nearly."""
    if refusal.kind == "beta":
        # Without a name it may be any of them: only all of them together are left out again.
        return [Change("beta", one) for one in refusal.names or [",".join(_betas(body, headers))]]
    found = []
    for name in refusal.names:
        last = last_step(name)
        if last in _OTHER_NAMES:
            found.append(Change("name", last, _OTHER_NAMES[last]))
        elif plain_name(last) in _FIELDS and (path := find_field(body, last)):
            value = _json(_get(body, path)) if refusal.kind == "value" else ""
            found.append(Change("field", path, value))
        elif last in _MARKS:
            found.append(Change("mark", last))
        elif last not in _STRUCTURE:
            found.append(Change("keyword", last))
    return found


def fit(changes: Collection[Change], body: dict[str, Any], headers: Mapping[str, str]) -> Fitted:
    """Return a request without what is refused; the given one is not changed."""
    body, left_out, needed = dict(body), [], []
    if any(change.kind in ("mark", "keyword") for change in changes):
        body = msgspec.json.decode(msgspec.json.encode(body))  # its parts are shared
    for change in changes:
        kind, name = change.kind, change.name
        if kind == "field":
            is_refused = not change.value or _json(_get(body, name)) == change.value
            changed = is_refused and bool(take(body, name))
        elif kind == "name":
            if changed := name in body and change.value not in body:
                body[change.value] = body.pop(name)
        elif kind == "beta":
            body, headers, changed = _drop_betas(body, headers, {*name.split(",")})
        else:
            changed = _strip(body, name, schemas=kind == "keyword")
        if changed:
            needed.append(change)
            left_out += [name] if kind != "name" else []
    return Fitted(body, headers, left_out, needed)


def list_names(changes: Iterable[Change]) -> set[str]:
    """Return the names that changes are about, old and new."""
    return {name for change in changes for name in (change.name, change.value) if name}


def left_out_notices(upstream: str, names: Iterable[str]) -> list[Notice]:
    """Return a notice for each name of what a request was sent without."""
    text = f"upstream {upstream!r} does not take"
    return [Notice("field_ignored", f"{text} {name[:100]}: dropped") for name in names]


def advise(refusal: Refusal, body: dict[str, Any], *, upstream: str) -> str:
    """Return what an operator can do about a refusal, as the end of its message."""
    table = f"[upstream.{upstream}]"
    if refusal.kind == "beta":
        return f"; leave the beta out, or set headers of {table}"
    paths = (find_field(body, last_step(name)) for name in refusal.names)
    fixed = LENGTHS | CHOICES | {"messages", "input", "contents", "model", "stream"}
    path = next((p for p in paths if p and _PATH.fullmatch(p) and plain_name(p) not in fixed), None)
    return f'; to send requests without it, add drop = ["{path}"] to {table}' if path else ""


def last_step(path: str) -> str:
    """Return the last name of a path in an error: "b" of "a.0.b", "a[0].b" and "/a/0/b"."""
    return re.split(r"[.\[/]", path)[-1]


def _is_schema(key: str) -> bool:
    return key == "parameters" or (key.lower().endswith("schema") and key != "json_schema")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _get(body: Mapping[str, Any], path: str) -> Any:
    value: Any = body
    for step in path.split("."):
        value = mapping(value).get(step)
    return value


def find_field(body: dict[str, Any], name: str) -> str | None:
    """Return the path of a field at the top or in objects below, the highest first."""
    holders, name = [("", body)], plain_name(name)
    for path, holder in holders:
        for key, value in holder.items():
            if plain_name(key) == name:
                return path + key
            if isinstance(value, dict) and not _is_schema(key) and key not in _CLOSED:
                holders.append((f"{path}{key}.", value))
    return None


def _betas(body: dict[str, Any], headers: Mapping[str, str]) -> list[str]:
    listed = _get(body, find_field(body, "anthropicbeta") or "")
    in_body = listed if isinstance(listed, list) else []
    return [*in_body, *filter(None, map(str.strip, headers.get(_BETAS, "").split(",")))]


def _drop_betas(
    body: dict[str, Any], headers: Mapping[str, str], names: set[str]
) -> tuple[dict[str, Any], Mapping[str, str], bool]:
    if not names <= {*_betas(body, headers)}:
        return body, headers, False
    if _betas(body, {}) and (path := find_field(body, "anthropicbeta")):
        put(body, path, [name for name in _get(body, path) if name not in names])
    left = ",".join(name for name in _betas({}, headers) if name not in names)
    others = {n: value for n, value in headers.items() if n != _BETAS}
    return body, {**others, _BETAS: left} if left else others, True


def _strip(body: dict[str, Any], name: str, *, schemas: bool) -> bool:
    """Remove a key from all schemas, or from all other objects of the format."""
    changed = False
    waiting: list[tuple[Any, bool]] = [(body, False)]
    while waiting:  # not recursive: a request may be nested more deeply than Python's stack
        value, inside = waiting.pop()
        if isinstance(value, list):
            waiting += [(item, inside) for item in value]
        if not isinstance(value, dict):
            continue
        if inside == schemas and value.pop(name, None) is not None:
            changed = True
        for key, below in value.items():
            if inside and key in ("properties", "$defs", "definitions"):
                waiting += [(schema, True) for schema in mapping(below).values()]
            elif key not in _LITERALS if inside else key not in _DATA or isinstance(below, list):
                waiting.append((below, inside or _is_schema(key)))
    return changed

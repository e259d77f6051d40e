"""Configured upstream endpoints, and the field in which each of their models accepts reasoning."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final

import msgspec

from ..dialects.upstream_format import Quirks
from ..dialects.upstream_formats import UPSTREAM_FORMATS, USUAL
from ..policies.capacity import TargetLimits
from ..requests import ChatRequest, ClientBody
from .credentials import CredentialsSource, Key, NoCredentials, UpstreamCredentials
from .redaction import MIN_ENCODED, Redactor
from .refusals import Refusals
from .transforms import Transform

MAX_MODELS: Final = 1_000
"""Per upstream; clients may use any name."""

_WANTED: Final = "reasoning_content"
"""The field in the hosts' error for missing reasoning: "must be passed back"."""

_NAMED: Final[Mapping[str, re.Pattern[str]]] = {
    _WANTED: re.compile(_WANTED, re.IGNORECASE),
    # Without quotes it is an ordinary word.
    "reasoning": re.compile(r"['\"`.]reasoning['\"`]", re.IGNORECASE),
}

_decoder = msgspec.json.Decoder(dict[str, Any])


class ReasoningFields:
    """The detected fields of one upstream's models.

    Hosts without a preset differ: models of DeepSeek, Kimi and GLM reject a turn with tool calls
    but without its reasoning, others reject an unknown field. So a model receives reasoning in the
    field in which it sent its own, and a rejection that names the field is honored, unless it may
    quote the client. Each process detects this separately.
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        """The field of each model with one; "no" to send no reasoning."""

    def of(self, model: str) -> str:
        """Return the field for a model; "no" to send no reasoning."""
        return self.known.get(model, "no")

    def learn(self, model: str, field: str) -> None:
        """Record the field of an answer's reasoning, unless the model has rejected one."""
        if self.known.get(model) != "no":
            self._store(model, field)

    def refused(self, model: str, message: str, *, content: bytes, reasoned: bool) -> None:
        """Record a request's rejection, if its message names the field.

        `content` is the request's JSON body; `reasoned`: whether its conversation has
        reasoning. A host that received the field may not know it; one that did not may require
        it. A message that may quote the client is ignored, since the result applies to all
        clients.
        """
        known = self.of(model)
        field = _WANTED if known == "no" else known
        if not _NAMED[field].search(message):
            return
        body = _decoder.decode(content)
        sent = _take_reasoning(body, field)
        possible = reasoned and not sent if known == "no" else sent
        if possible and not _is_quotable([body, sent], field):
            self._store(model, "no" if sent else field)

    def _store(self, model: str, field: str) -> None:
        if model not in self.known and len(self.known) >= MAX_MODELS:
            del self.known[next(iter(self.known))]
        self.known[model] = field


def _take_reasoning(body: dict[str, Any], field: str) -> list[Any]:
    """Remove the field from all messages of a body; return its values."""
    messages = body.get("messages")
    found = messages if isinstance(messages, list) else []
    return [one.pop(field) for one in found if isinstance(one, dict) and field in one]


def _is_quotable(value: Any, field: str) -> bool:
    """Return whether JSON contains a text or key that a message could quote as the field."""
    named, left = _NAMED[field], [value]
    while left:
        match left.pop():
            case str(text) if named.search(f"'{text}'"):
                return True
            case list(items):
                left += items
            case dict(fields):
                left += [*fields, *fields.values()]
    return False


NEEDLE = 12
"""The number of final characters of a key that are searched for in upstream data."""

_SECRET = re.compile(r"auth|code|key|pass|secret|sig|token", re.IGNORECASE)
"""Matches names of secret headers and query parameters, such as gateway keys."""


class DoorRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests that take another API of a provider, as patterns of names."""

    models: tuple[str, ...] = ()
    """Models that only this API serves."""
    functions: tuple[str, ...] = ()
    """Models that accept functions only here, unless their effort is "none"."""
    refused: tuple[str, ...] = ()
    """Types of tools and items that this API refuses: the main one gets them translated."""


class Door(DoorRules, frozen=True, kw_only=True):
    """Another API of a provider, at the same base URL."""

    upstream: "Upstream"
    """The provider with the dialect of this API."""

    def is_for(self, chat: ChatRequest, model: str) -> bool:
        """Return whether a request takes this API instead of the main one."""
        if _matches(model, self.models):
            return True
        client_format = UPSTREAM_FORMATS[self.upstream.dialect].client_format
        if chat.client_body is not None and chat.client_body.client_format == client_format:
            return not self._refuses(chat.client_body)
        # Options are named for the main API.
        plain = chat.reasoning_effort == "none" or chat.provider_options
        return bool(chat.tools) and not plain and _matches(model, self.functions)

    def _refuses(self, client_body: ClientBody) -> bool:
        parts = [client_body.body.get(name) for name in ("tools", "input")]
        kinds = {
            str(part.get("type"))
            for some in parts
            if self.refused and isinstance(some, list)
            for part in some
            if isinstance(part, dict)
        }
        return any(_matches(kind, self.refused) for kind in kinds)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class Upstream(msgspec.Struct, frozen=True, dict=True):
    """One configured provider endpoint.

    `base_url` ends before the dialect's own path and may contain `{model}`, for hosts with the
    model in the path (Azure's deployments).
    """

    name: str
    base_url: str
    dialect: str = USUAL
    credentials: UpstreamCredentials = NoCredentials()
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    quirks: Quirks | None = None
    """Of the dialect's own type; None for its defaults."""
    models: tuple[str, ...] = ()
    default_model: str | None = None
    prefixed: bool = True
    """Whether the public names of its models are `upstream/model`; otherwise the bare names."""
    lists_models: bool = True
    """Whether it has a model list, if its dialect has a call for that."""
    options: tuple[str, ...] | None = None
    """The provider-specific fields that clients may set; None: all except those with effects
    beyond the answer.
    """
    max_output_tokens: int | None = None
    """The maximum output length of its models; None if unknown."""
    url_schemes: tuple[str, ...] = ("https", "data")
    """The schemes of URLs that it may fetch."""
    trace_context: bool = False
    """Whether it receives the trace context of a call."""
    transform: Transform | None = None
    """The changes of every request body."""
    target_limits: TargetLimits = TargetLimits()
    """The limits of each of its targets that has none of its own."""
    resume: bool = False
    """Whether answers are stored by the provider, and read on after a broken connection."""
    keepalive: bool = True
    """Whether a connection is used for several calls."""
    credentials_source: CredentialsSource = CredentialsSource()
    base_url_source: str = ""
    """The setting or variable with the base URL; "" for the provider's own."""
    doors: tuple[Door, ...] = ()
    """Its other APIs. Its targets are the same at all of them."""

    def public_name(self, model: str) -> str:
        """Return the public name of a model."""
        return f"{self.name}/{model}" if self.prefixed else model

    def redact(self, text: str) -> str:
        """Return the text with credentials and secret fields replaced."""
        if self.secret_fields:
            text = self._field_redactor.redact(text)
        return self.credentials.redact(text)

    @cached_property
    def _field_redactor(self) -> Redactor:
        """A redactor of the words of secret fields, so also of a key after `Bearer`."""
        words = " ".join(self.secret_fields.values()).split()
        return Redactor(*(word for word in words if len(word) >= MIN_ENCODED), max_secrets=100)

    @cached_property
    def reasoning_fields(self) -> ReasoningFields:
        """The observed field in which each of its models accepts reasoning."""
        return ReasoningFields()

    @cached_property
    def refusals(self) -> Refusals:
        """What each of its models has refused."""
        return Refusals()

    @cached_property
    def secret_fields(self) -> dict[str, str]:
        """The configured headers and query parameters with names of secrets."""
        fields = {**self.query, **self.headers}
        return {name: value for name, value in fields.items() if _SECRET.search(name)}

    @property
    def key_ending(self) -> bytes | None:
        """The end of the key as quoted in a JSON body; None if the upstream has no fixed key."""
        if not isinstance(self.credentials, Key):
            return None
        key = self.credentials.secret.reveal()
        return msgspec.json.encode(key)[1:-1][-NEEDLE:] if len(key) >= MIN_ENCODED else None

    def __repr__(self) -> str:
        """Return name, URL and dialect, but no header or query, which may be secret."""
        return f"Upstream({self.name!r}, {self.base_url!r}, dialect={self.dialect!r})"

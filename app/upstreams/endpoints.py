"""Configured upstream endpoints."""

import re
from collections.abc import Mapping
from functools import cached_property

import msgspec

from ..dialects.upstream_format import Quirks
from ..dialects.upstream_formats import USUAL
from ..policies.capacity import TargetLimits
from .credentials import CredentialsSource, Key, NoCredentials, UpstreamCredentials
from .reasoning_fields import ReasoningFields
from .redaction import MIN_ENCODED, Redactor
from .transforms import Transform

NEEDLE = 12
"""The number of final characters of a key that are searched for in upstream data."""

_SECRET = re.compile(r"auth|code|key|pass|secret|sig|token", re.IGNORECASE)
"""Matches names of secret headers and query parameters, such as gateway keys."""


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

"""The configured endpoints."""

import re
from collections.abc import Mapping
from functools import cached_property

import msgspec

from ..dialects.upstream_format import Quirks
from .credentials import PIECE, Credentials, CredentialsSource, Key, NoCredentials, Secret
from .reasoning_fields import ReasoningFields

NEEDLE = 12
"""How much of the end of a key is looked for in what an upstream sends."""

_SECRET = re.compile(r"auth|code|key|pass|secret|sig|token", re.IGNORECASE)
"""In the name of a header or a query: gateways have keys of their own."""


class Upstream(msgspec.Struct, frozen=True, dict=True):
    """One configured provider endpoint.

    `base_url` ends before the dialect's own path and may hold `{model}`, for hosts that
    have it in the path (Azure's deployments).
    """

    name: str
    base_url: str
    dialect: str = "openai_chat"
    credentials: Credentials = NoCredentials()
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    quirks: Quirks | None = None
    """Of the dialect's own type; None for its defaults."""
    models: tuple[str, ...] = ()
    default_model: str | None = None
    prefixed: bool = True
    """Whether the public names of its models are `upstream/model`, or the bare names."""
    lists_models: bool = True
    """Whether it can be asked for its models, if its dialect has a call for that."""
    options: tuple[str, ...] | None = None
    """The fields of its own that clients may set; None: all but those that reach beyond the
    answer."""
    max_output_tokens: int | None = None
    """The longest answer of its models; None where that is not known."""
    url_schemes: tuple[str, ...] = ("https", "data")
    """Of the URLs that it may be sent to read."""
    trace_context: bool = False
    """Whether it is told the trace of a call."""
    credentials_source: CredentialsSource = CredentialsSource()
    base_url_source: str = ""
    """The setting or the variable that gives the base URL; "" for the provider's own."""

    def public_name(self, model: str) -> str:
        """Return the name by which clients ask for a model."""
        return f"{self.name}/{model}" if self.prefixed else model

    def redact(self, text: str) -> str:
        """Take what is secret out of a text: its credentials, and what is named like one."""
        for secret in self._secrets:
            text = secret.redact(text)
        return self.credentials.redact(text)

    @cached_property
    def _secrets(self) -> list[Secret]:
        """The values of the secret fields that are long enough to be told from other texts."""
        return [Secret(value) for value in self.secret_fields.values() if len(value) >= PIECE]

    @cached_property
    def reasoning_fields(self) -> ReasoningFields:
        """The field in which each of its models takes reasoning back, as far as it was seen."""
        return ReasoningFields()

    @cached_property
    def secret_fields(self) -> dict[str, str]:
        """The headers and queries of the settings that are named like secrets."""
        fields = {**self.query, **self.headers}
        return {name: value for name, value in fields.items() if _SECRET.search(name)}

    @property
    def needle(self) -> bytes | None:
        """The end of the key as a body would quote it; None if the upstream has no fixed key."""
        if not isinstance(self.credentials, Key):
            return None
        key = self.credentials.secret.reveal()
        return msgspec.json.encode(key)[1:-1][-NEEDLE:] if len(key) >= PIECE else None

    def __repr__(self) -> str:
        """Show name, URL and dialect, but no header or query, which may hold secrets."""
        return f"Upstream({self.name!r}, {self.base_url!r}, dialect={self.dialect!r})"

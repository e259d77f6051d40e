"""The configured endpoints."""

from collections.abc import Mapping

import msgspec

from app.dialects.dialect import Quirks
from app.upstreams.credentials import Credentials, NoCredentials


class Upstream(msgspec.Struct, frozen=True):
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

    def public_name(self, model: str) -> str:
        """Give the name by which clients ask for a model."""
        return f"{self.name}/{model}" if self.prefixed else model

    def __repr__(self) -> str:
        """Show what it is, without what a header or a query may hold."""
        return f"Upstream({self.name!r}, {self.base_url!r}, dialect={self.dialect!r})"

"""The configured endpoints, and what is known of each provider before anyone configures it.

A dialect is a wire format and lives in `dialects`; a provider is a row of `PRESETS`.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Literal

import msgspec

from app.dialects.openai_chat import Quirks

PIECE = 8
"""Less of a key than that gives nothing away, and may stand in a text by chance."""


class Secret:
    """A key: nothing but `reveal` shows it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def redact(self, text: str) -> str:
        """Take the key, and every piece of it of `PIECE` characters and more, out of a text."""
        size = min(PIECE, len(self._value))
        pieces = {self._value[at : at + size] for at in range(len(self._value) - size + 1)}
        hidden = [False] * len(text)
        for at in range(len(text) - size + 1):
            if text[at : at + size] in pieces:
                hidden[at : at + size] = [True] * size
        runs = groupby(zip(hidden, text, strict=True), key=lambda pair: pair[0])
        return "".join("[key]" if hide else "".join(c for _, c in run) for hide, run in runs)

    def __repr__(self) -> str:
        return "Secret('...')"


class Preset(msgspec.Struct, frozen=True):
    """What is known of a provider before anyone configures it.

    `auth` is how the key travels: "bearer" in Authorization, "api-key" in a header of that
    name. The default model answers requests that name none.
    """

    base_url: str | None = None
    key_env: str | None = None
    base_url_env: str | None = None
    dialect: str = "openai_chat"
    auth: Literal["bearer", "api-key"] = "bearer"
    quirks: Quirks = Quirks()
    default_model: str | None = None


PRESETS: dict[str, Preset] = {
    "openai": Preset(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        base_url_env="OPENAI_BASE_URL",
        quirks=Quirks(max_tokens_field="max_completion_tokens"),
        default_model="gpt-5-mini",
    ),
    "azure": Preset(
        key_env="AZURE_OPENAI_API_KEY",
        auth="api-key",
        quirks=Quirks(max_tokens_field="max_completion_tokens"),
    ),
    "deepseek": Preset(
        base_url="https://api.deepseek.com",
        key_env="DEEPSEEK_API_KEY",
        quirks=Quirks(send_reasoning=True),
        default_model="deepseek-chat",
    ),
}


class Upstream(msgspec.Struct, frozen=True):
    """One configured provider endpoint.

    `base_url` ends before the dialect's own path and may hold `{model}`, for hosts that
    have it in the path (Azure's deployments).
    """

    name: str
    base_url: str
    dialect: str = "openai_chat"
    key: Secret | None = None
    auth: Literal["bearer", "api-key"] = "bearer"
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    quirks: Quirks = Quirks()
    models: tuple[str, ...] = ()
    default_model: str | None = None
    prefixed: bool = True
    """Whether the public names of its models are `upstream/model`, or the bare names."""

    def public_name(self, model: str) -> str:
        """Give the name by which clients ask for a model."""
        return f"{self.name}/{model}" if self.prefixed else model

    def render_headers(self) -> dict[str, str]:
        """Give the headers of a request, the key among them."""
        headers = {
            "accept": "text/event-stream, application/json",
            # Several providers compress event streams when allowed to, which delays tokens.
            "accept-encoding": "identity",
            "user-agent": "seseragi",
            **self.headers,
        }
        if self.key is not None:
            key = self.key.reveal()
            headers |= {"api-key": key} if self.auth == "api-key" else _bearer(key)
        return headers


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}

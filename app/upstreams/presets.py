"""What is known of each provider before anyone configures it: a row of data each.

A dialect is a wire format and lives in `dialects`; nothing here is code.
"""

import msgspec

from app.dialects.openai_chat.request import Quirks
from app.upstreams.credentials import Auth


class Preset(msgspec.Struct, frozen=True):
    """One provider. The default model answers requests that name none."""

    base_url: str | None = None
    key_env: str | None = None
    base_url_env: str | None = None
    dialect: str = "openai_chat"
    auth: Auth = "bearer"
    quirks: msgspec.Struct | None = None
    """Of the dialect's own type; None for its defaults."""
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
        quirks=Quirks(send_reasoning="reasoning_content"),
        default_model="deepseek-chat",
    ),
}
